"""Every error turnout raises on purpose.

::

    TurnoutError
    ├── InvalidInput        what the user gave is wrong; nothing was done          (exit 2, HTTP 422)
    │   └── SnapshotRefused the working directory holds something not to be taken
    ├── NotFound            no such run, job, target, file                         (exit 3, HTTP 404)
    ├── Conflict            the thing is in a state that forbids it                (exit 4, HTTP 409)
    │   └── StaleAttempt    a write from an attempt that is no longer the current one
    ├── Denied              no or wrong credentials                                (exit 5, HTTP 403)
    ├── Unavailable         could not be reached or is busy; trying again may help (exit 6, HTTP 503)
    │   └── HubUnreachable  no hub answers and none could be started
    ├── ProviderError       a compute provider said no                             (exit 7, HTTP 502)
    ├── RunFailed, PipelineFailed: of what was waited for, in `turnout.client`
    ├── WorkerDied, TaskTimeout, EngineLost, MissingExtra: of calls, in `turnout.futures.errors`
    └── Internal            a fault of turnout itself; please report it            (exit 70, HTTP 500)

An error says what is wrong and where in its message, and what to type next in its hint. `code` is stable and is
what programs compare; `retryable` tells whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class TurnoutError(Exception):
    """Base of all; never raised itself."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.key: str | None = None
        """which of the things that a file says of a job it is about, for who knows where that is written; "" = none"""

    def as_dict(self) -> dict[str, object]:
        """The stable JSON form, the same on the wire and under ``--json``."""
        return {"error": self.code, "message": self.message, "hint": self.hint, "retryable": self.retryable}


class InvalidInput(TurnoutError):
    code = "invalid_input"
    status = 422
    exit_code = 2


class SnapshotRefused(InvalidInput):
    code = "snapshot_refused"


class NotFound(TurnoutError):
    code = "not_found"
    status = 404
    exit_code = 3


class Conflict(TurnoutError):
    code = "conflict"
    status = 409
    exit_code = 4


class StaleAttempt(Conflict):
    code = "stale_attempt"


class Denied(TurnoutError):
    code = "denied"
    status = 403
    exit_code = 5


class Unavailable(TurnoutError):
    code = "unavailable"
    status = 503
    exit_code = 6
    retryable = True


class HubUnreachable(Unavailable):
    code = "hub_unreachable"


class ProviderError(TurnoutError):
    code = "provider_error"
    status = 502
    exit_code = 7


class Internal(TurnoutError):
    code = "internal"
    status = 500
    exit_code = 70


_ALL: tuple[type[TurnoutError], ...] = (
    InvalidInput, SnapshotRefused, NotFound, Conflict, StaleAttempt, Denied, Unavailable, HubUnreachable,
    ProviderError, Internal,
)  # fmt: skip
_BY_CODE = {kind.code: kind for kind in _ALL}


def from_dict(body: dict[str, object]) -> TurnoutError:
    """The error that :meth:`TurnoutError.as_dict` described; an unknown code becomes :class:`Internal`."""
    kind = _BY_CODE.get(str(body.get("error")), Internal)
    return kind(str(body.get("message", "")), hint=str(body.get("hint", "")))


@contextmanager
def about(key: str) -> Iterator[None]:
    """What is raised here is about this key of a job, unless it is said already to be about another."""
    try:
        yield
    except TurnoutError as error:
        if error.key is None:
            error.key = key
        raise
