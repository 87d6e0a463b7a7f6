"""What a target has done on a node around all runs there: its prolog before the first, its epilog at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections import deque
from typing import Deque, List, Sequence

from turnout.agent.leash import Leash
from turnout.agent.log import say

_PROLOG_SECONDS, _EPILOG_SECONDS = 3600.0, 600.0
_SHOWN_LINES = 5


class PrologFailed(Exception):
    """No run may begin on this node; the message ends with what it said last."""


def run_prolog(root: str, lines: Sequence[str], node: str) -> None:
    """Executes the lines, one after the other, unless an earlier agent of this directory has. PrologFailed when one of
    them fails. What they print goes to the agent's log. They are ended with this agent: the next one begins anew."""
    mark = os.path.join(root, "prolog.done")
    if not lines or os.path.exists(mark):
        return
    say(f"prolog: {len(lines)} lines")
    with Leash() as leash:
        code, last = _execute("prolog", [leash.line, *lines], node, _PROLOG_SECONDS, leash.stdin)
    if code != 0:
        raise PrologFailed("; ".join([f"its prolog failed on {node} (exit code {code})", *last]))
    os.close(os.open(mark, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def run_epilog(lines: Sequence[str], node: str) -> None:
    """Executes the lines; a failure is only said. They, too, are ended with this agent: who ends it ends them."""
    if not lines:
        return
    say(f"epilog: {len(lines)} lines")
    with Leash() as leash:
        code, _ = _execute("epilog", [leash.line, *lines], node, _EPILOG_SECONDS, leash.stdin)
    if code != 0:
        say(f"the epilog failed: exit code {code}")


def _execute(what: str, lines: Sequence[str], node: str, seconds: float, stdin: int) -> "tuple[int, List[str]]":
    """The exit code of the first line that failed, or 0, and the last lines printed. What they leave running stays, and
    is not waited for: so they print to a file, whose end nobody can keep away."""
    script = "\n".join(["set -e", *lines])
    with tempfile.TemporaryFile() as printed:
        try:
            child = subprocess.Popen(
                [shutil.which("bash") or "/bin/sh", "-c", script, what], stdin=stdin, stdout=printed,
                stderr=subprocess.STDOUT, env={**os.environ, "TURNOUT_NODE": node}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return 127, [str(error)]
        code = _wait(child, seconds)
        printed.seek(0)
        last: Deque[str] = deque(maxlen=_SHOWN_LINES)
        for raw in printed:
            line = raw.decode("utf-8", "replace").rstrip()
            say(f"{what}: {line}")
            last.append(line)
    return code, list(last)


def _wait(child: "subprocess.Popen[bytes]", seconds: float) -> int:
    """Its exit code; when it takes longer, it is ended with all it started."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        say(f"ended after {seconds:g} s")
        os.killpg(child.pid, signal.SIGKILL)
        return child.wait()
