"""A sampler or stopper whose class lives in a plugin host, because it comes by its path from somebody's project.

Its process may end at any time. Then another instance is made there, and told all that is known, as after a restart of
the hub; so what is told is kept here as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from turnout.engine.host import Host, PluginFailure, in_full
from turnout.plugin.sampler import BadOption, Exhausted, Outcome, Proposal, Result, Sampler, Task
from turnout.plugin.searching import FORGOTTEN, Adopted, Ended, Manners, Searcher
from turnout.plugin.stopper import Point, Stopper, Watch
from turnout.search.stoppers.ranking import KEPT

_numbers = count(1)
#: How often one call may find that the process ended before it.
_TRIES = 3


class _Line:
    """The calls of one instance. `retell` tells a new one what is known."""

    def __init__(self, host: Host, kind: str, path: str, task: Mapping[str, Any], retell: Callable[[], None]) -> None:
        self._host = host
        self._kind, self._path, self._task = kind, path, task
        self._retell = retell
        self._searcher = self._fresh()
        self._calls = 0

    def introduce(self) -> Manners:
        """BadOption when the class cannot be used."""
        try:
            found = self._host.call(self._searcher, "introduce")
        except PluginFailure as error:
            raise BadOption(in_full(error)) from error
        assert isinstance(found, Manners)
        return found

    def call(self, method: str, *arguments: object) -> Any:
        """What it answers. PluginFailure with what it raised."""
        for left in reversed(range(_TRIES)):
            try:
                return self._call(method, *arguments)
            except PluginFailure as error:
                if error.kind != FORGOTTEN or not left:
                    raise
            self._searcher, self._calls = self._fresh(), 0
            self._retell()
        raise AssertionError("not reached")

    def tell_anew(self, method: str, *arguments: object) -> None:
        """To an instance that was told nothing yet. PluginFailure when it ends as well."""
        self._call(method, *arguments)

    def _call(self, method: str, *arguments: object) -> Any:
        answer = self._host.call(self._searcher, method, self._calls, *arguments)
        self._calls += 1
        return answer

    def _fresh(self) -> Searcher:
        return Searcher(self._kind, self._path, str(next(_numbers)), self._task)


class HostedSampler(Sampler):
    """`space` is the task's as it is kept."""

    def __init__(self, task: Task, path: str, host: Host, space: Mapping[str, Any]) -> None:
        super().__init__(task)
        self._results: list[Result] = []
        self._open: dict[int, Proposal] = {}
        made_for = {"space": space, "objectives": _pairs(task), "seed": task.seed, "options": task.options}
        self._line = _Line(host, "sampler", path, made_for, self._retell)
        self.ahead = self._line.introduce().ahead  # type: ignore[misc]

    def ask(self, index: int) -> Proposal | None:
        if index in self._open:
            return self._open[index]
        asked = self._line.call("ask", index)
        if asked.exhausted:
            raise Exhausted
        found: Proposal | None = asked.proposal
        if found is not None:
            self._open[index] = found
        return found

    def tell(self, result: Result) -> None:
        self._line.call("tell", [result])
        self._results.append(result)
        if result.index is not None:
            self._open.pop(result.index, None)

    def adopt(self, index: int, proposal: Proposal) -> None:
        self._line.call("adopt", [(index, proposal)])
        self._open[index] = proposal

    def _retell(self) -> None:
        adopted: list[Adopted] = list(self._open.items())
        self._line.tell_anew("tell", self._results)
        self._line.tell_anew("adopt", adopted)


class HostedStopper(Stopper):
    """Of the runs that are over, the last are kept here, as many as our own stoppers remember."""

    def __init__(self, watch: Watch, path: str, host: Host) -> None:
        super().__init__(watch)
        self._over: deque[Ended] = deque(maxlen=KEPT)
        made_for = {"objectives": [(watch.objective.metric, watch.objective.goal.value)], "options": watch.options}
        self._line = _Line(host, "stopper", path, made_for, self._retell)
        self.every = self._line.introduce().every  # type: ignore[misc]

    def judge(self, run: int, points: Sequence[Point], seconds: float) -> str | None:
        why: str | None = self._line.call("judge", run, points, seconds)
        return why

    def ended(self, run: int, points: Sequence[Point], outcome: Outcome) -> None:
        self._line.call("ended", [(run, points, outcome)])
        self._over.append((run, list(points), outcome))

    def _retell(self) -> None:
        self._line.tell_anew("ended", list(self._over))


def _pairs(task: Task) -> list[tuple[str, str]]:
    return [(each.metric, each.goal.value) for each in task.objectives]
