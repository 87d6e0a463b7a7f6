"""What a provider may do besides launching runs, where behind it is a whole system with ways of its own.

A provider that is `Foreign` too is asked before a job is stored, shows its own status, and cancels in its own words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import List, Mapping, Optional, Sequence


@dataclass(frozen=True)
class DraftRun:
    """A run as it is about to be stored. `before` are lines for the shell that come before `command`, `env` what is set
    for it besides, `repeat` how many children it is planned to have."""

    run: str
    workspace: str
    experiment: str
    node: str
    command: Sequence[str]
    before: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    repeat: int = 1


@dataclass(frozen=True)
class Draft:
    """A job as it is about to be stored. `files` is a directory with a copy of what its runs will be given. `search`:
    its runs will have parameters that are not known yet."""

    job: str
    workspace: str
    experiment: str
    files: str
    runs: Sequence[DraftRun]
    options: Mapping[str, object] = field(default_factory=dict)
    search: bool = False


@dataclass(frozen=True)
class StatusQuery:
    """What ``turnout status`` was asked. `monitor`: again and again, for `seconds`, or without end. `stages` are some
    of ``queued``, ``active``, ``completed``; none of them = all."""

    run: Optional[str] = None
    workspace: str = ""
    job: Optional[str] = None
    monitor: bool = False
    seconds: Optional[float] = None
    start: bool = False
    stages: Sequence[str] = ()
    state: Optional[str] = None
    most_finished: Optional[int] = None


@dataclass(frozen=True)
class Ended:
    """What a cancel did to a run, as the other system tells it: whether it was `killed`, its state then and before."""

    run: str
    workspace: str = ""
    experiment: str = ""
    killed: bool = False
    state: str = ""
    before: str = ""
    node: str = ""


class Foreign(ABC):
    """Failure from any method means that it could not be done."""

    @abstractmethod
    def adjust(self, draft: Draft) -> Draft:
        """The job as it shall be stored: the same runs, with commands, lines and variables as they are wanted there. It
        may change files below `draft.files`. May be called again for the same job, under another name, when an answer
        was lost."""

    @abstractmethod
    def status(self, query: StatusQuery) -> None:
        """Prints, to the standard output, how its runs are. With `monitor` it may go on; it is ended when nobody reads
        any more."""

    @abstractmethod
    def cancel_runs(self, workspace: str, runs: Sequence[str], node: str) -> List[Ended]:
        """Ends these runs of a node; those that are over are no error."""

    @abstractmethod
    def cancel_job(self, job: str, runs: Sequence[DraftRun]) -> List[Ended]:
        """Ends all runs of a job."""

    @abstractmethod
    def cancel_user(self, node: str) -> List[Ended]:
        """Ends all that this user has on a node."""
