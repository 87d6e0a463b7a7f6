"""What a client can do with the results of searches: take them out, bring others in, ask what mattered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from turnout.client.encoding import encode
from turnout.wire.http import Body

if TYPE_CHECKING:
    from turnout.client.studied import Studied

View = dict[str, Any]
_LONG = 600.0


class Results(ABC):
    """A part of `Client`."""

    @abstractmethod
    def _json(
        self, method: str, path: str, body: Body = None, *, headers: dict[str, str] | None = None, timeout: float = 60.0
    ) -> Any: ...

    @abstractmethod
    def _job(self, name: str, part: str = "") -> str: ...

    @abstractmethod
    def search(self, job: str) -> View: ...

    @abstractmethod
    def tried(self, job: str) -> list[View]: ...

    def studied(self, job: str) -> Studied:
        """The search and all it has tried. Conflict for a job that is none."""
        from turnout.client.studied import studied

        return studied(self.search(job), self.tried(job))

    def results(self, job: str) -> list[View]:
        """One for each run of a search, and for what was brought in: ``number``, ``run``, ``state``, ``params``,
        ``metrics`` (of the objectives), ``started``, ``ended``, ``duration`` in seconds, ``target``."""
        from turnout.client.result_tables import as_views

        return as_views(self.studied(job))

    def importance(self, job: str, metric: str | None = None) -> View:
        """How much the parameters matter for an objective, the first if none is named: ``shares`` add up to 1,
        ``explained`` (0 to 1) tells what they are worth; both None where results are too few."""
        study = self.studied(job)
        objective = study.objective(metric)
        found = study.importance(objective)
        return {
            "job": study.job, "metric": study.aims[objective].metric, "runs": len(study.measured(objective)),
            "shares": found and found.shares, "explained": found and found.explained,
        }  # fmt: skip

    def import_results(self, job: str, rows: Sequence[View]) -> View:
        """Results from elsewhere, ``{"params": {...}, "metrics": {...}}``, that the sampler is told: all, or none, with
        InvalidInput for what does not fit the search. Those that were brought in before are left out."""
        return dict(self._json("POST", self._job(job, "search/results"), encode({"rows": list(rows)}), timeout=_LONG))

    def import_results_file(self, job: str, path: str | Path) -> View:
        """The same from a file, CSV or JSON; InvalidInput names the lines that are wrong. ``left_out`` are rows that
        have no result."""
        from turnout.client.result_files import read

        found = read(Path(path), self.studied(job))
        answer = self.import_results(job, found.rows) if found.rows else {"job": job, "added": 0, "known": 0}
        return {**answer, "left_out": found.left_out}

    def results_to_optuna(
        self, job: str, url: str, study: str | None = None, *, told: Callable[[int, int], None] | None = None
    ) -> View:
        """Writes what is over into a study in a storage of Optuna; runs that are in it already are not written again.
        ``added`` and ``known`` tell how many there were. `told` hears of trials done and in all."""
        from turnout.client.to_optuna import write

        return write(self.studied(job), url, study, told)
