"""What the client lists, and what it does to many at once.

Names may be ranges, wildcards, jobs, labels, experiments or ``$lastrun``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from turnout.client.encoding import encode

View = dict[str, Any]
_PAGE = 10_000


class Lists(ABC):
    """The part of the client that lists."""

    @abstractmethod
    def _json(self, method: str, path: str, body: bytes | None = None) -> Any: ...

    @abstractmethod
    def stands_for(self, name: str) -> str:
        """``$lastrun`` and ``$lastjob`` as what they stand for."""

    def runs(
        self, filters: Sequence[str] = (), *, names: Sequence[str] = (), sort: str = "", reverse: bool = False,
        limit: int = 100, offset: int = 0, from_end: bool = False,
    ) -> list[View]:  # fmt: skip
        """Runs that have one of `names` (if any are given) and fit all `filters`, newest first or by `sort`.

        At most `limit` of them after `offset`; with `from_end`, both count from the end of that order.
        """
        return self._find("runs", filters, names, sort, reverse=reverse, limit=limit, offset=offset, from_end=from_end)

    def jobs(
        self, filters: Sequence[str] = (), *, names: Sequence[str] = (), sort: str = "", reverse: bool = False,
        limit: int = 100, offset: int = 0, from_end: bool = False,
    ) -> list[View]:  # fmt: skip
        return self._find("jobs", filters, names, sort, reverse=reverse, limit=limit, offset=offset, from_end=from_end)

    def experiments(self) -> list[View]:
        return list(self._json("GET", "/api/experiments"))

    def workspaces(self) -> list[View]:
        return list(self._json("GET", "/api/workspaces"))

    def nodes(self, *, gone: bool = False) -> list[View]:
        """Those that work now; with `gone`, also those that did."""
        return list(self._json("GET", f"/api/nodes?gone={str(gone).lower()}"))

    def queues(self) -> list[View]:
        """The targets, with how many runs each has."""
        return list(self._json("GET", "/api/queues"))

    def recorded_names(self) -> dict[str, list[str]]:
        """The names of metrics, params and tags that any run has."""
        return dict(self._json("GET", "/api/columns"))

    def run_names(self, names: Sequence[str]) -> list[str]:
        """The runs that `names` mean, each by its own name, run2 before run10. NotFound for a name nothing has."""
        return list(self._json("POST", "/api/runs/names", encode(self._named(names))))

    def set_tags(self, names: Sequence[str], tags: Mapping[str, str]) -> View:
        """Tags runs; of a job named, the job and all its runs. ``{"runs": […], "jobs": […]}``. All or nothing."""
        return dict(self._json("POST", "/api/tags", encode({"names": self._named(names), "set": dict(tags)})))

    def clear_tags(self, names: Sequence[str], tags: Sequence[str]) -> View:
        """Removes tags by name. The runs given are those that had one. Idempotent."""
        return dict(self._json("POST", "/api/tags", encode({"names": self._named(names), "clear": list(tags)})))

    def _find(
        self, kind: str, filters: Sequence[str], names: Sequence[str], sort: str, **rest: int | bool
    ) -> list[View]:
        body = {"filters": list(filters), "names": self._named(names), "sort": sort, **rest}
        return list(self._json("POST", f"/api/{kind}/find", encode(body)))

    def _named(self, names: Sequence[str]) -> list[str]:
        return [self.stands_for(name) for name in names]


def each_page(find: Callable[..., list[View]], filters: Sequence[str], **how: Any) -> Iterator[View]:
    """All that `find` (`Client.runs` or `jobs`) finds, however many. What is submitted meanwhile moves the rest, so a
    row may come twice: it is given once."""
    seen: set[str] = set()
    offset = 0
    while True:
        page = find(filters, limit=_PAGE, offset=offset, **how)
        yield from (view for view in page if view["name"] not in seen)
        seen.update(view["name"] for view in page)
        offset += len(page)
        if len(page) < _PAGE:
            return
