"""A machine that ssh reaches: an agent there is a detached process of the user it logs in as.

The system's own OpenSSH does it, with the user's configuration, keys and jump hosts. There is one connection to a box,
which stays and brings the hub's socket for agents over to it; so the box needs Python and no open port. When that
connection is lost the agents go on, and it is made again with the next look at them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from turnout.plugin.examining import examine
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider
from turnout.plugin.pythons import REQUIRE, to_try
from turnout.plugin.settings import text
from turnout.plugin.transport import Broken, SshSettings, Transport, transport

# Each is one line, for the login shell over there may be one that takes no other.
#: $1 = the digest of the agents' program, which comes by standard input if it is not there, $2 = its length: to who
#: reads, a connection that breaks is the end of a file.
_HAS = '[ "$(wc -c 2>/dev/null < "agent-$1.pyz" || echo -1)" -eq "$2" ] && echo here || echo missing'
_BRING = (
    'fresh="agent-$1.pyz.$$"; cat > "$fresh" && [ "$(wc -c < "$fresh")" -eq "$2" ] && mv "$fresh" "agent-$1.pyz" || '
    '{ rm -f "$fresh"; exit 1; }'
)
#: $1 = the digest, $2 = where the agent lives, $3 = its launch's token, $4 and $5 = how many processors and kilobytes
#: of memory it needs, the rest = Pythons to try; its order by standard input, which a shell's own `printf` passes on:
#: no list of processes and no file ever has it. The handle is told by the process that becomes the agent, when it
#: stands in a file: so what was started is found again, whatever breaks.
_START = (
    'program="$PWD/agent-$1.pyz"; node="$2"; token="$3"; cpus=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo "$4"); '
    '[ "$4" -le "$cpus" ] || { echo "$4 processors are needed, and there are $cpus" >&2; exit 4; }; '
    """memory=$(sed -n 's/^MemTotal: *\\([0-9]*\\) kB/\\1/p' /proc/meminfo 2>/dev/null); memory=${memory:-$5}; """
    '[ "$5" -le "$memory" ] || { echo "$5 kB of memory are needed, and there are $memory" >&2; exit 4; }; '
    f"shift 5; order=$(cat); {REQUIRE}; "
    'mkdir -p "$node" || exit 1; detach=$(command -v setsid || command -v nohup); '
    'printf %s "$order" | PYTHONPATH="$program" "$detach" sh -c \'read -r stat 2>/dev/null < "/proc/$$/stat"; '
    'name="$0" node="$1" token="$2"; set -- $stat; me="$$:${22}"; '
    'echo "$token $me" > "$node/launch.$$" && mv "$node/launch.$$" "$node/launch" || exit 1; echo "$me"; '
    'exec "$name" -m turnout.agent >> "$node/agent.log" 2>&1\' "$python" "$node" "$token" &'
)
#: The handles that are alive, of those given.
_LOOK = (
    """for each in "$@"; do stat=$(sed 's/.*) //' "/proc/${each%%:*}/stat" 2>/dev/null) || continue; """
    """case "$stat" in [ZX]*) continue ;; esac; """
    """[ "$(echo "$stat" | cut -d' ' -f20)" = "${each#*:}" ] && echo "$each"; done; true"""
)
_TELL = "cat nodes/*/launch 2>/dev/null; true"
#: An agent leads a group of its own, if there was something to detach it with.
_END = 'for each in "$@"; do kill -- "-${each%%:*}" 2>/dev/null || kill "${each%%:*}" 2>/dev/null; done; true'
#: Ends what runs in directories of agents that are gone, and removes everything. The arguments are Pythons to try.
_CLEAR = (
    "program=$(ls -t agent-*.pyz 2>/dev/null | head -n 1); for node in nodes/*; do "
    '[ -n "$(ls -A "$node/runs" 2>/dev/null)" ] || continue; for each in "$@"; do '
    """printf '{"directory": "%s", "clear": true}' "$node" | PYTHONPATH="$PWD/$program" "$each" -m turnout.agent"""
    ' >/dev/null 2>&1 && break; done; done; here="$PWD"; cd / && chmod -R u+w "$here" && rm -rf "$here"'
)


class SshProvider(Provider):
    """Handles are ``pid:start time`` over there."""

    name = "ssh"
    Settings = SshSettings
    capabilities = Capabilities(launches="agents", same_host=False)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self._over: Transport = transport(settings, "boxes")

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        return [self._start(launch) for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        alive = self._over.run(_LOOK, *handles).split() if handles else []
        return {handle: Observation(Phase.ACTIVE) for handle in alive}

    def cancel(self, handles: Sequence[Handle]) -> None:
        alive = list(self.observe(handles))
        if alive:
            self._over.run(_END, *alive)

    def find(self, token: str) -> Handle | None:
        """By what it wrote down before it became an agent."""
        records = (line.partition(" ") for line in self._over.run(_TELL).splitlines())
        handles = [handle for each, _, handle in records if each == token]
        return next(iter(self.observe(handles)), None)

    def rest(self) -> None:
        self._over.close()

    def check(self) -> list[Finding]:
        return examine(self._over, text(self.settings, "python"))

    def clear(self) -> None:
        """What agents left running there ends, and their directory goes."""
        self._over.run(_CLEAR, *to_try(text(self.settings, "python")))
        self._over.close()

    def _start(self, launch: Launch) -> Handle | Failure:
        try:
            with open(launch.program, "rb") as file:
                program = file.read()
            digest = hashlib.sha256(program).hexdigest()[:16]
            whole = digest, str(len(program))
            if self._over.run(_HAS, *whole).strip() == "missing":
                self._over.run(_BRING, *whole, given=program)
        except Failure as error:
            return Failure(error.message, kind=error.kind)
        except OSError as error:
            return Failure(f"the agent could not be started: {error}")
        try:
            need = (str(launch.need.cpus or 0), str((launch.need.memory or 0) >> 10))
            words = (digest, launch.directory, launch.token, *need, *to_try(launch.python))
            told = self._over.ask(_START, *words, given=launch.stdin)
        except Broken:
            raise
        except Failure as error:
            return error
        if told.code != 0:
            return Failure(told.complaint, kind="rejected")
        return told.out.strip() or Failure(f"no agent began there: {told.complaint}")
