"""What doctor makes of what a machine tells of itself."""

from __future__ import annotations

import pytest

from turnout.plugin.examining import advice, judge, told
from turnout.plugin.provider import Failure
from turnout.plugin.transport import Shell, Ssh, SshSettings

WELL = """\
host=far
system=Linux 6.1
time=1000
where=/home/ada/.turnout/boxes/x
disk=/dev/sda1 100 50 5000000 1% /home
inodes=/dev/sda1 100 50 50 50% /home
python=3.11.2 /usr/bin/python3
"""


def findings(text: str, now: float = 1000.4) -> dict[str, str]:
    return {each.what: each.level for each in judge(told(text), "far", ["python3"], now - 0.2, now)}


def test_all_is_well() -> None:
    found = findings(WELL)
    assert set(found.values()) == {"ok"}
    for what in ("far answers: far, Linux 6.1", "Python 3.11.2, /usr/bin/python3", "clock agrees", "4882 MB free"):
        assert any(what in each for each in found)


@pytest.mark.parametrize(
    ("written", "instead", "level", "what"),
    [
        ("python=3.11.2 /usr/bin/python3\n", "", "problem", "no Python 3.9 or newer, tried python3"),
        ("time=1000", "time=1075", "warning", "its clock is 75 s ahead of the one here"),
        ("time=1000", "time=900", "warning", "its clock is 99 s behind the one here"),
        ("5000000", "500000", "warning", "488 MB free"),
        ("5000000", "10", "problem", "0 MB free"),
        ("50 50% ", "0 100% ", "problem", "its disk takes no more files"),
    ],
)
def test_what_is_wrong_is_named(written: str, instead: str, level: str, what: str) -> None:
    found = findings(WELL.replace(written, instead))
    assert found[f"far: {what}"] == level


@pytest.mark.parametrize("text", ["", "nonsense\n", "time=soon\ndisk=none\n"])
def test_a_machine_that_tells_little_is_judged_by_that(text: str) -> None:
    assert any(level == "problem" for level in findings(text).values())


@pytest.mark.parametrize(
    ("message", "kind", "hint"),
    [
        ("Host key verification failed.", "login", "turnout box add"),
        ("Permission denied (publickey).", "login", "ssh-copy-id"),
        ("Could not resolve hostname far", "transient", "address"),
        ("Connection refused", "transient", "try it yourself: ssh -p 2222 -i 'my key' ada@far"),
        ("the directory ~/x cannot be used", "rejected", "name another `directory`"),
    ],
)
def test_each_failure_has_its_advice(message: str, kind: str, hint: str) -> None:
    over = Ssh("~/x", "", SshSettings("ada@far", 2222, ["-i", "my key"]))
    assert hint in advice(over, Failure(message, kind=kind))


def test_on_this_machine_it_is_the_directory() -> None:
    assert "name another `directory`" in advice(Shell("~/x"), Failure("cannot be used", kind="rejected"))
