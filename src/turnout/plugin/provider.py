"""The contract of a compute provider: one class that starts agents somewhere and tells how they are.

A provider sees launches and handles, never runs, users, the store or the screen. Its constructor does no IO. It never
prints, sleeps, starts threads, polls or retries: the core owns time. Its methods are called from several threads, one
call at a time per instance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Dict, List, Mapping, Optional, Sequence, Union


class Failure(Exception):
    """A provider could not do it.

    `kind`: ``rejected`` (never will), ``transient`` (try again), ``throttled`` (after `retry_after` seconds), ``login``
    (a person must log in), ``unsupported`` (the site cannot do what was asked).
    """

    def __init__(self, message: str, *, kind: str = "transient", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.retry_after = retry_after


@dataclass(frozen=True)
class Capabilities:
    """What a provider can do, as data. `launches`: ``agents`` (one launch is one agent that pulls runs) or ``runs``."""

    launches: str = "agents"
    same_host: bool = False


@dataclass(frozen=True)
class Launch:
    """One agent to start: `argv` with `stdin` on its standard input (a token is in it: never in argv, env or files).

    `token` travels into the native job (its name, say), so that `find` can answer after a lost reply. `directory` is
    where the agent lives. On another host there is nothing yet: its `argv` is empty, and it is the module
    ``turnout.agent`` of the file `program`, which has to be brought there, run by `python` (or the first that is new
    enough), in a directory of the provider's choice to which `directory` and all paths in `stdin` are relative, and
    where the hub's socket for agents is ``agent.sock``.
    """

    token: str
    node: str
    directory: str
    argv: Sequence[str]
    stdin: bytes
    env: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    python: str = ""


#: What a native system calls the launch; text the provider understands, kept by the core.
Handle = str


class Phase(Enum):
    PENDING = "pending"
    ACTIVE = "active"
    GONE = "gone"


@dataclass(frozen=True)
class Observation:
    phase: Phase
    detail: str = ""


@dataclass(frozen=True)
class Finding:
    """One line of ``turnout doctor``. `level`: ok | warning | problem."""

    level: str
    what: str
    hint: str = ""


class Provider(ABC):
    """`Settings` is a dataclass of the keys its services and targets take (`doc` in a field's metadata says what one
    is for), or None: then whatever is written there is handed over as it is."""

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    Settings: ClassVar[Optional[type]] = None

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.settings = settings

    @abstractmethod
    def submit(self, launches: Sequence[Launch]) -> List[Union[Handle, Failure]]:
        """Starts each launch; one answer per launch, in order. Returning a handle means the native system has it.
        Raising means that nothing is known of any: the core asks `find` before it tries again."""

    @abstractmethod
    def observe(self, handles: Sequence[Handle]) -> Dict[Handle, Observation]:
        """How they are, by one native query. A handle left out is gone. Raising means: could not look."""

    @abstractmethod
    def cancel(self, handles: Sequence[Handle]) -> None:
        """Asks for their end. Idempotent; unknown handles are no error; returning does not mean they are gone."""

    @abstractmethod
    def find(self, token: str) -> Optional[Handle]:
        """The handle of the launch with that token, if the native system has it."""

    def rest(self) -> None:  # noqa: B027 - most have nothing to do
        """None of its launches is there any more: what was kept open to reach them may be closed. May be repeated."""

    @abstractmethod
    def check(self) -> List[Finding]:
        """What a person should know before using this target."""
