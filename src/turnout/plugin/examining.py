"""What ``turnout doctor`` wants to know of a machine that a transport reaches: one short script there tells it all."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from typing import Dict, List, Mapping, Sequence

from turnout.plugin.provider import Failure, Finding
from turnout.plugin.pythons import CHOOSE, to_try
from turnout.plugin.transport import Ssh, Transport

_SKEW = 10.0
_LEAST_FREE, _TIGHT = 100 << 10, 1 << 20  # kilobytes
#: The arguments are Pythons to try. A line each: name=value.
_ASK = (
    'echo "host=$(hostname 2>/dev/null || uname -n)"; echo "system=$(uname -sr)"; echo "time=$(date +%s)"; '
    'echo "where=$PWD"; echo "disk=$(df -Pk . 2>/dev/null | tail -n 1)"; '
    'echo "inodes=$(df -Pi . 2>/dev/null | tail -n 1)"; '
    f'{CHOOSE}; [ -z "$python" ] || '
    """echo "python=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3], sys.executable)')"; """
    'for each in agent-*.pyz; do [ -e "$each" ] && echo agent=yes; done; true'
)


def examine(over: Transport, python: str = "", name: str = "") -> List[Finding]:
    """How the machine is, for one that is to run agents with that `python`. Never raises a Failure."""
    called = name or over.place
    tried = to_try(python)
    findings = [_client()] if isinstance(over, Ssh) else []
    before = time.time()
    try:
        text = over.run(_ASK, *tried)
    except Failure as failure:
        what = f"{called} cannot be used: {failure.message}"
        return [*findings, Finding("problem", what, advice(over, failure, name))]
    return [*findings, *judge(told(text), called, tried, before, time.time())]


def examine_shared(over: Transport) -> List[Finding]:
    """How the directory is that other machines share with the one where a transport leads to, and how that is. Never
    raises a Failure."""
    findings = [_client()] if isinstance(over, Ssh) else []
    before = time.time()
    try:
        facts = told(over.run(_ASK))
    except Failure as failure:
        what = f"{over.place} cannot be used: {failure.message}"
        return [*findings, Finding("problem", what, advice(over, failure))]
    if isinstance(over, Ssh):
        findings += [_answer(facts, over.place, time.time() - before)]
        findings += _clock(facts, over.place, before, time.time())
    return [*findings, *_disk(facts, over.place)]


def told(text: str) -> Dict[str, str]:
    """The named lines of what the script printed."""
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def judge(facts: Mapping[str, str], name: str, tried: Sequence[str], before: float, after: float) -> List[Finding]:
    """What these facts, which came between two moments by the clock here, mean. Pure."""
    found = [_answer(facts, name, after - before), _python(facts, name, tried)]
    found += _clock(facts, name, before, after)
    found += _disk(facts, name)
    brought = "the agent is there" if "agent" in facts else "the agent is brought with the first run"
    return [*found, Finding("ok", f"{name}: {brought}, in {facts.get('where', '?')}")]


def advice(over: Transport, failure: Failure, name: str = "") -> str:
    """What to type after this failure."""
    if not isinstance(over, Ssh) or failure.kind == "rejected":
        return "name another `directory`, one that you can write"
    by_hand = shlex.join(["ssh", *over.options, over.place])
    if "HAS CHANGED" in failure.message or "has changed" in failure.message:
        return f"if the machine was set up anew: ssh-keygen -R {over.place}, then `turnout box add` or ssh it once"
    if "Host key verification" in failure.message or "host key" in failure.message:
        return f"look at its key and accept it: {by_hand} (or `turnout box add {name or 'NAME'} {over.place}`)"
    if failure.kind == "login":
        return f"let your key in: ssh-copy-id {over.place}; then this must work without a question: {by_hand} true"
    if "resolve" in failure.message:
        return "check the name in `address`, and ~/.ssh/config"
    return f"try it yourself: {by_hand}"


def _answer(facts: Mapping[str, str], name: str, seconds: float) -> Finding:
    said = f"{name} answers: {facts.get('host', 'a machine')}, {facts.get('system', 'an unknown system')}"
    return Finding("ok", f"{said}, within {seconds:.2f} s; its host key is the one on record")


def _client() -> Finding:
    if shutil.which("ssh") is None:
        return Finding("problem", "no ssh on this machine", "install OpenSSH's client")
    done = subprocess.run(["ssh", "-V"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return Finding("ok", f"ssh here is {os.fsdecode(done.stderr).strip().partition(',')[0]}")


def _python(facts: Mapping[str, str], name: str, tried: Sequence[str]) -> Finding:
    if "python" in facts:
        version, _, path = facts["python"].partition(" ")
        return Finding("ok", f"{name}: Python {version}, {path}")
    hint = "install Python 3.9 or newer there, or name one in its entry: `python: /path/to/python3`"
    return Finding("problem", f"{name}: no Python 3.9 or newer, tried {', '.join(tried)}", hint)


def _clock(facts: Mapping[str, str], name: str, before: float, after: float) -> List[Finding]:
    try:
        there = float(facts["time"])
    except (KeyError, ValueError):
        return []
    ahead = there - after if there > after else min(0.0, there + 1 - before)
    if abs(ahead) <= _SKEW:
        return [Finding("ok", f"{name}: its clock agrees with the one here")]
    way = "ahead of" if ahead > 0 else "behind"
    what = f"{name}: its clock is {abs(ahead):.0f} s {way} the one here"
    hint = "set it by NTP (`sudo timedatectl set-ntp true` there); nothing is lost by it, but times mislead"
    return [Finding("warning", what, hint)]


def _disk(facts: Mapping[str, str], name: str) -> List[Finding]:
    found = []
    hint = f"free some space there; what turnout keeps is in {facts.get('where', '~/.turnout')}"
    free = _available(facts.get("disk", ""))
    if free is not None:
        level = "problem" if free < _LEAST_FREE else "warning" if free < _TIGHT else "ok"
        found.append(Finding(level, f"{name}: {free >> 10} MB free", "" if level == "ok" else hint))
    if _available(facts.get("inodes", "")) == 0 and facts.get("inodes", "").split()[1:2] != ["0"]:
        found.append(Finding("problem", f"{name}: its disk takes no more files", hint))
    return found


def _available(line: str) -> "int | None":
    """The fourth column of a line of ``df -P``."""
    words = line.split()
    return int(words[3]) if len(words) > 3 and words[3].isdigit() else None
