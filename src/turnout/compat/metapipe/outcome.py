"""How a pipeline went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnout.errors import TurnoutError

_MOST_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Aliases. `failed` are jobs, or commands whose jobs could not be made; `skipped` were never submitted, for they
    depend on such; `why` says it of the failed. `ticks` are how often the queue was looked after."""

    complete: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    why: Mapping[str, str] = field(default_factory=dict)
    ticks: int = 0

    @property
    def is_well(self) -> bool:
        return not self.failed and not self.skipped


class PipelineFailed(TurnoutError, RuntimeError):
    """Not all jobs were complete; `outcome` has which."""

    code = "pipeline_failed"

    def __init__(self, outcome: Outcome) -> None:
        lines = [f"{alias} failed: {outcome.why.get(alias) or 'it says no more'}" for alias in outcome.failed]
        if len(lines) > _MOST_SHOWN:
            lines[_MOST_SHOWN:] = [f"… and {len(lines) - _MOST_SHOWN} more failed"]
        if outcome.skipped:
            shown = ", ".join(outcome.skipped[:_MOST_SHOWN])
            more = f" and {len(outcome.skipped) - _MOST_SHOWN} more" if len(outcome.skipped) > _MOST_SHOWN else ""
            lines.append(f"not submitted, for what they depend on is not complete: {shown}{more}")
        super().__init__("\n".join(lines), hint="run() again submits what is not complete")
        self.outcome = outcome
