"""Looking for jobs whose submit was not answered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from turnout.plugin.transport import Told
from turnout.providers.slurm import SlurmProvider

TOKENS = [f"{number:032x}" for number in range(50)]
COLUMNS = "JOBID|STATE|EXIT_CODE|RESTARTS|REASON|NODELIST|NAME|"


class Slurm(SlurmProvider):
    """One whose scheduler has a job of each of these names; `asked` counts the commands."""

    def __init__(self, root: Path, *names: str) -> None:
        super().__init__({"directory": str(root)})
        self.names = names
        self.asked = 0

    def _run(self, argv: Sequence[str]) -> Told:
        self.asked += 1
        rows = [f"{7 + at}_1|RUNNING|0|0|None|n1|{name}|" for at, name in enumerate(self.names)]
        return Told(0, "\n".join([COLUMNS, *rows]) + "\n", "")


def write_batch(slurm: Slurm, name: str) -> None:
    batches = Path(slurm.transport.enter()) / "batches"
    batches.mkdir(exist_ok=True)
    (batches / name).write_text("".join(f"{token}\n" for token in TOKENS))


def test_an_array_is_asked_for_once_however_many_tasks_are_looked_for(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path, "turnout-x")
    write_batch(slurm, "turnout-x")
    assert [slurm.find(token) for token in TOKENS] == [f"7_{number}" for number in range(1, 51)]
    assert slurm.asked == 1


def test_one_that_was_not_there_is_asked_for_again(tmp_path: Path) -> None:
    slurm = Slurm(tmp_path)
    write_batch(slurm, "turnout-x")
    assert slurm.find(TOKENS[0]) is None
    slurm.names = ("turnout-x",)
    assert slurm.find(TOKENS[0]) == "7_1"
