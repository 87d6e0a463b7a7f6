"""What comes to another machine by standard input, over a connection that may break in the middle of it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from turnout.plugin.job_directory import JobDirectory
from turnout.plugin.provider import Failure, Launch
from turnout.plugin.transport import Broken, Shell, Told
from turnout.providers.slurm import SlurmProvider
from turnout.providers.ssh import SshProvider

PROGRAM = b"print('an agent')\n" * 1000


class Frail(Shell):
    """A way there that breaks when so much of what is given went over. `told` is how the script ended, which nobody
    hears."""

    most: int | None = None
    told: Sequence[Told] = ()

    def ask(self, script: str, *args: str, given: bytes = b"") -> Told:
        told = super().ask(script, *args, given=given[: self.most])
        if self.most is None or len(given) <= self.most:
            return told
        self.told = [*self.told, told]
        raise Broken("the connection was lost")


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    program = tmp_path / "agent.pyz"
    program.write_bytes(PROGRAM)
    return Launch("token", "node", "nodes/1", (), b"{}", program=str(program), python=sys.executable)


@pytest.fixture
def there(tmp_path: Path) -> Frail:
    return Frail(str(tmp_path / "there"))


def box(there: Frail) -> SshProvider:
    provider = SshProvider({})
    provider._over = there
    return provider


def name_of(program: bytes) -> str:
    return f"agent-{hashlib.sha256(program).hexdigest()[:16]}.pyz"


@pytest.mark.parametrize("most", [0, 1, len(PROGRAM) - 1])
def test_a_part_of_the_agent_is_never_taken_for_it(there: Frail, launch: Launch, most: int) -> None:
    there.most = most
    (answer,) = box(there).submit([launch])
    assert isinstance(answer, Failure) and there.told
    assert list(Path(there.root).glob("agent-*")) == []
    there.most = None
    box(there).submit([launch])
    assert (Path(there.root) / name_of(PROGRAM)).read_bytes() == PROGRAM


def test_an_agent_of_another_length_is_brought_again(there: Frail, launch: Launch) -> None:
    path = Path(there.enter()) / name_of(PROGRAM)
    path.write_bytes(PROGRAM[:100])
    box(there).submit([launch])
    assert path.read_bytes() == PROGRAM


def test_an_agent_that_is_there_is_not_brought_again(there: Frail, launch: Launch) -> None:
    box(there).submit([launch])
    there.most = 100
    box(there).submit([launch])
    assert there.told == ()


def test_a_part_of_a_command_is_not_run(there: Frail, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half the id of a job may be that of another."""
    command, calls = tmp_path / "bin" / "scancel", tmp_path / "calls"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    provider = SlurmProvider({})
    provider.transport, provider._directory = there, JobDirectory(there)
    for there.most in range(len("scancel 12345 67890")):
        with pytest.raises(Broken):
            provider.cancel(["12345", "67890"])
    assert not calls.exists() and all(told.code != 0 for told in there.told)
    assert {path.name for path in Path(there.root).glob("cancelled/*")} == {"12345", "67890"}
    there.most = None
    provider.cancel(["12345", "67890"])
    assert calls.read_text() == "12345 67890\n"
