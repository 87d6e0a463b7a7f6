"""``from xtlib.run import Run``: what a script logs through XT's `Run`, it logs as a run of turnout."""

from __future__ import annotations

import os
from typing import Any

import turnout

__all__ = ["Run"]


class Run:
    """Outside a run, the same calls check what they are given and drop it. Arguments that tell XT where to log to are
    taken and mean nothing."""

    def __init__(self, *_arguments: object, **_options: object) -> None:
        self.run_name = os.environ.get("TURNOUT_RUN_NAME")

    def is_resuming(self) -> bool:
        """Whether an earlier attempt of this run was begun."""
        return turnout.is_restart()

    def log_hparam(self, name: str, value: object) -> None:
        turnout.params({name: value})

    def log_hparams(self, hp_dict: dict[str, object]) -> None:
        turnout.params(hp_dict)

    def log_metric(self, name: str, value: object, step_name: str | None = None, stage: str | None = None) -> None:
        self.log_metrics({name: value}, step_name, stage)

    def log_metrics(self, data_dict: dict[str, Any], step_name: str | None = None, stage: str | None = None) -> None:
        """`step_name` is the metric that counts the steps; `stage` goes in front of the others' names."""
        step = data_dict.get(step_name) if step_name else None
        prefix = f"{stage}-" if stage else ""
        metrics = {f"{prefix}{name}": value for name, value in data_dict.items() if name != step_name}
        turnout.log(metrics, step=None if step is None else int(step))

    def tag_run(self, tag_dict: dict[str, object]) -> None:
        turnout.tag(tag_dict)

    def close(self) -> None:
        """Nothing is left to do."""
