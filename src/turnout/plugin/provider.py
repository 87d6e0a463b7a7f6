"""The contract of a compute provider: one class that starts agents somewhere and tells how they are.

A provider sees launches and handles, never users, the store or the screen. Its constructor does no IO. It never
prints, sleeps, polls, retries or leaves a thread behind when it returns: the core owns time. Its methods are called
from several threads, one call at a time per instance.
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
    """What a provider can do, as data.

    `launches`: ``agents`` (one launch is one agent that pulls runs) or ``runs`` (one launch is one run, see `Work`).
    `same_host`: what it starts is on this machine, and asking it never takes long. `elastic`: it can have any number of
    agents at a time, so several are started where many runs wait; otherwise one, or one for each of its `seats`.
    `containers`: it puts runs into their containers itself. `wall_time`: what it starts is ended after `Need.seconds`.
    `records`: it tells how a launch ended, also when the native system has forgotten it.
    """

    launches: str = "agents"
    same_host: bool = False
    elastic: bool = False
    containers: bool = False
    wall_time: bool = False
    records: bool = False


@dataclass(frozen=True)
class Need:
    """What a launch has to be given: `memory` in bytes, `seconds` of wall time. None = as the site does by itself."""

    cpus: Optional[int] = None
    memory: Optional[int] = None
    gpus: Optional[int] = None
    seconds: Optional[float] = None


@dataclass(frozen=True)
class Work:
    """The run that a launch is, for a provider that launches runs.

    `argv` is what has to be executed, in a copy of the directory `files`, with `env` besides what is there: it reports
    to the hub if that can be reached from there, and is `command` otherwise. `job` holds what all launches of a job
    have in common. `options` are those of ``turnout run`` as they were given, `params` the run's own parameters;
    `search`: its job is a search.
    """

    job: str
    run: str
    attempt: int
    workspace: str
    experiment: str
    argv: Sequence[str]
    command: Sequence[str]
    files: str
    repeat: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    params: Mapping[str, object] = field(default_factory=dict)
    search: bool = False


@dataclass(frozen=True)
class Launch:
    """One agent to start: `argv` with `stdin` on its standard input (a token is in it: never in argv or env, and in no
    file that others can read).

    `token` travels into the native job (its name, say), so that `find` can answer after a lost reply. `directory` is
    where the agent lives, for the provider to make; what the agent prints is kept in ``agent.log`` there. On this host
    `env` is its whole environment. What `need` asks for and the site cannot give is a Failure; nothing starts with
    less. On another host there is nothing yet: its `argv` is empty, and it is the module
    ``turnout.agent`` of the file `program`, which has to be brought there, run by `python` (or the first that is new
    enough), in a directory of the provider's choice to which `directory` and all paths in `stdin` are relative, and
    where the hub's socket for agents is ``agent.sock``.

    `seat` is one of the provider's `seats`, if it has any; `work` is the run, where it launches runs.
    """

    token: str
    node: str
    directory: str
    argv: Sequence[str]
    stdin: bytes
    env: Mapping[str, str] = field(default_factory=dict)
    program: str = ""
    python: str = ""
    need: Need = Need()
    seat: str = ""
    work: Optional[Work] = None


#: What a native system calls the launch; text the provider understands, kept by the core.
Handle = str


class Phase(Enum):
    """`UNKNOWN`: the native system does not tell. It never goes back from ACTIVE to PENDING, or on after GONE."""

    PENDING = "pending"
    ACTIVE = "active"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Observation:
    """How a launch is. `detail` is for people: why it waits, how it ended. `native` is the native system's own word for
    its state, `id` what people there call it, `url` where they can look at it, `host` the machine it is on.

    UNKNOWN with the reason node_lost means that the system has no such launch any more: it is lost, unless it tells of
    itself. Of what is gone, `exit_code` and `reason`, if they are known: exit_code, signal, timeout, oom, preempted,
    node_lost, cancelled, stopped (because it was not worth going on), rejected.
    """

    phase: Phase
    detail: str = ""
    reason: str = ""
    exit_code: Optional[int] = None
    native: str = ""
    id: str = ""
    url: str = ""
    host: str = ""


@dataclass(frozen=True)
class Finding:
    """One line of ``turnout doctor``. `level`: ok | warning | problem."""

    level: str
    what: str
    hint: str = ""


class Provider(ABC):
    """`Settings` is a dataclass of the keys its services and targets take (`doc` in a field's metadata says what one
    is for), or None: then whatever is written there is handed over as it is.

    Beside those keys, `settings` has: ``nodes_directory`` (where agents on this machine live; the same for all targets
    of a hub, so it tells hubs apart), ``sockets_directory`` (private, with a short path), ``agent_socket`` (the hub's
    socket for agents), ``python`` (what agents start with there, if that was said), and, where they have a ``relay``,
    ``identity`` (a file with the hub's key and certificate).
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    Settings: ClassVar[Optional[type]] = None

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.settings = settings

    @abstractmethod
    def submit(self, launches: Sequence[Launch]) -> List[Union[Handle, Failure]]:
        """Starts each launch; one answer per launch, in order. Returning a handle (a line of text, which another
        instance understands after a restart) means the native system has it, and that `find` finds it from now on. One
        launch that fails is a Failure in its place, and harms no other. Raising means that nothing is known of any: the
        core asks `find` before it tries again."""

    @abstractmethod
    def observe(self, handles: Sequence[Handle]) -> Dict[Handle, Observation]:
        """How they are, by one native query. A handle left out is gone; one that was never there is no error. Raising
        means: could not look. An answer of the native system that is empty or makes no sense is that, too."""

    @abstractmethod
    def cancel(self, handles: Sequence[Handle]) -> None:
        """Asks for their end, and for that of all processes in their sessions. Idempotent; unknown handles are no
        error, and save no others; returning does not mean they are gone."""

    @abstractmethod
    def find(self, token: str) -> Optional[Handle]:
        """The handle of the launch with that token, if the native system has it, or had it and remembers."""

    @abstractmethod
    def check(self) -> List[Finding]:
        """What a person should know before using this target, also that it cannot be reached; a problem comes with a
        hint. Never raises."""

    def seats(self) -> Sequence[str]:
        """The names of its machines, each of which takes one agent; () where it has none of its own. No IO."""
        return ()

    def seat_max_runs(self, seat: str) -> Optional[int]:
        """How many runs that machine takes at once, if that was said of it; None = as its target says. No IO."""
        return None

    def clear(self) -> None:  # noqa: B027 - most keep nothing there
        """This target is not used any more: none of its launches is there, and what was put there for them is removed.
        Idempotent. Failure when the place cannot be reached."""

    def rest(self) -> None:  # noqa: B027 - most have nothing to do
        """None of its launches is there any more: what was kept open to reach them may be closed. May be repeated."""


class Seated(ABC):
    """What a provider with `seats` may be besides, so that one machine which does not answer harms no other."""

    @abstractmethod
    def find_at(self, seat: str, token: str) -> Optional[Handle]:
        """As `find`, of a launch that was for this seat: the others are not asked. Also after a restart."""
