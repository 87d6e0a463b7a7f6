"""Samplers and stoppers between two processes, as `turnout.plugin.remote` has it for providers.

Every call tells how many came before it, as who calls knows them. A process that was started anew does not know them:
the call is refused (`Forgotten`), and all that is known has to be told again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

from turnout.plugin.provider import Failure
from turnout.plugin.remote import Method
from turnout.plugin.sampler import Outcome, Proposal, Result
from turnout.plugin.stopper import Point

#: What a failure is called whose instance was not the one that was told.
FORGOTTEN = "forgotten"

Adopted = Tuple[int, Proposal]
Ended = Tuple[int, List[Point], Outcome]


@dataclass(frozen=True)
class Searcher:
    """A ``sampler`` or ``stopper`` (`kind`) by its `path`, ``[DIRECTORY/]package.module:Class``, the directory as it is
    among the project's files. `task` is what an instance is made for: the space as it is kept, ``objectives`` as pairs
    of metric and goal, ``seed`` and ``options``. `number` tells it from others that are made for the same."""

    kind: str
    path: str
    number: str
    task: Mapping[str, Any]


class Forgotten(Failure):
    def __init__(self) -> None:
        super().__init__("its process is another than before", kind=FORGOTTEN)


@dataclass(frozen=True)
class Manners:
    """What the class says of itself: `ahead` of a sampler, `every` of a stopper."""

    ahead: int = 1
    every: Optional[float] = None


@dataclass(frozen=True)
class Asked:
    """What a sampler answered: nothing for now, or, when it is exhausted, for ever."""

    proposal: Optional[Proposal] = None
    exhausted: bool = False


def _proposal(raw: Dict[str, Any]) -> Proposal:
    return Proposal(**raw)


def _asked(raw: Dict[str, Any]) -> Asked:
    return Asked(None if raw["proposal"] is None else _proposal(raw["proposal"]), raw["exhausted"])


def _results(raw: List[Any]) -> List[Result]:
    return [
        Result(each["index"], _proposal(each["proposal"]), Outcome(each["outcome"]), tuple(each["values"]))
        for each in raw
    ]


def _adopted(raw: List[Any]) -> List[Adopted]:
    return [(index, _proposal(proposal)) for index, proposal in raw]


def _points(raw: List[Any]) -> List[Point]:
    return [Point(*each) for each in raw]


def _ended(raw: List[Any]) -> List[Ended]:
    return [(run, _points(points), Outcome(outcome)) for run, points, outcome in raw]


def _as_it_is(raw: Any) -> Any:
    return raw


METHODS = {
    "introduce": Method((), lambda raw: Manners(**raw)),
    "ask": Method((_as_it_is, _as_it_is), _asked),
    "tell": Method((_as_it_is, _results)),
    "adopt": Method((_as_it_is, _adopted)),
    "judge": Method((_as_it_is, _as_it_is, _points, _as_it_is)),
    "ended": Method((_as_it_is, _ended)),
}
