"""What a job of a scheduler does, and the files it does it with.

Jobs share a directory with who submits them. Below it:

- ``agent-DIGEST.pyz`` is the agents' program;
- ``orders/TOKEN.json`` is what an agent reads (a secret is in it), ``orders/TOKEN.sh`` how it is started;
- ``batches/NAME`` has the tokens of a native job, one a line: those of its array's tasks 1, 2 and so on;
- ``ended/HANDLE`` is written by a job itself when it ends, and is there when the scheduler has forgotten the job;
- ``cancelled/HANDLE`` is there if the job was to be ended by us;
- ``nodes/ID`` is where an agent lives. When it left by itself, only its ``agent.log`` stays.
"""

from __future__ import annotations

import io
import shlex
import tarfile
import time
from typing import Mapping, Sequence

from turnout.plugin.provider import Launch
from turnout.plugin.pythons import CHOOSE, NONE, to_try

#: What a job says of its end when it was told to end.
WARNED = "warned"
#: What a job does. A signal that warns of its end (TERM and, of some schedulers, others) becomes a TERM of the agent,
#: which gives back what it has; its order is then kept, for the job may be started again. Some schedulers tell every
#: process, and the agent may be gone before this shell hears of it: hence the second at the end. A `wait` that a signal
#: interrupts does not say how the agent ended; if that is gone by then, one more does, or gives 127 if that was said
#: before. A job that is started again elsewhere while this one is still there has the same node: who came last says so
#: in ``job``.
_SCRIPT = """\
#!/bin/sh
{directives}
umask 077
cd {root} || exit 1
task={task} pid= warned=
token=$(sed -n "${{task:-1}}p" {tokens})
ended=ended/{identity}
end() {{ echo "$token $1 $2" > "$ended.new" && mv "$ended.new" "$ended"; exit "$1"; }}
warn() {{ warned=warned; [ -n "$pid" ] || end 143 warned; kill -TERM "$pid" 2>/dev/null; }}
tidy() {{
    [ "$(cat "$node/job")" = "$me" ] || return
    chmod -R u+w "$node"
    find "$node" -mindepth 1 -maxdepth 1 ! -name agent.log -exec rm -rf {{}} +
}}
trap warn TERM USR1 USR2 XCPU
rm -f "$ended"
[ -e "orders/$token.sh" ] || end 1 "its order is gone"
. "./orders/$token.sh"
mkdir -p "$node" && exec >> "$node/agent.log" 2>&1 || end 1 "cannot write into $node"
me="$$ on $(uname -n)"
echo "$me" > "$node/job"
{setup}{choose}
[ -n "$python" ] || end 127 "{none}"
(trap '' USR1 USR2 XCPU; PYTHONPATH="$PWD/$program" exec "$python" -m turnout.agent < "orders/$token.json") & pid=$!
while wait "$pid"; code=$?; kill -0 "$pid" 2>/dev/null; do :; done
wait "$pid" 2>/dev/null; late=$?
[ "$late" -eq 127 ] || code=$late
sleep 1
[ -n "$warned" ] || {{ rm -f "orders/$token.json" "orders/$token.sh"; [ "$code" -ne 0 ] || tidy; }}
end "$code" "$warned"
"""


def script(directives: Sequence[str], root: str, task: str, batch: str, identity: str, setup: Sequence[str]) -> str:
    """`task` and `identity` are shell words: in a job, the number of its task ("" if it is no array), and its handle,
    which may be told by that ``$task``."""
    return _SCRIPT.format(
        directives="\n".join(directives), root=shlex.quote(root), task=task, tokens=f"batches/{batch}",
        identity=identity, setup="".join(f"{line}\n" for line in setup), choose=CHOOSE, none=NONE,
    )  # fmt: skip


def start_lines(launch: Launch, program: str) -> str:
    """What a job's shell has to know of a launch."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in launch.env.items()]
    lines += [f"node={shlex.quote(launch.directory)} program={program}", f"set -- {shlex.join(to_try(launch.python))}"]
    return "".join(f"{line}\n" for line in lines)


def pack(files: Mapping[str, bytes]) -> bytes:
    """An archive of files that only their owner may read."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), 0o600, int(time.time())
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()
