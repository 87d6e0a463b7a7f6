"""What a run printed, piece by piece, as long as there is more to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import urlencode

from turnout.errors import NotFound
from turnout.model.state import TERMINAL
from turnout.wire.http import Answer

_WAIT = 20.0


class OutputStream(Iterator[bytes]):
    """The exact bytes, in order; `skipped` says how many lie before the first piece. See `Client.output`."""

    def __init__(
        self, ask: Callable[[str, float], Answer], name: str,
        *, follow: bool, attempt: int | None, offset: int, tail: int | None,
    ) -> None:  # fmt: skip
        self.skipped = 0
        self._ask = ask
        self._name = name
        self._follow = follow
        self._attempt = attempt
        self._offset = offset
        self._tail = tail
        self._pieces = self._read()

    def __next__(self) -> bytes:
        return next(self._pieces)

    def _read(self) -> Iterator[bytes]:
        asked = self._attempt
        while True:
            query: dict[str, float] = {"offset": self._offset, "seconds": _WAIT if self._follow else 0}
            query |= {} if asked is None else {"attempt": asked}
            query |= {} if self._tail is None else {"tail": self._tail}
            answer = self._ask(urlencode(query), _WAIT + 30)
            content, headers = answer.read(), answer.headers
            shown, latest = int(headers["turnout-attempt"]), int(headers["turnout-attempts"])
            if self._attempt is not None and self._attempt > latest:
                raise NotFound(f"{self._name} has no attempt {self._attempt}", hint=f"it has had {latest} so far")
            if content:
                begin = int(headers["turnout-offset"])
                self.skipped = begin if self._tail is not None else self.skipped
                self._offset, self._tail = begin + len(content), None
                asked = shown if shown else asked
                yield content
            elif not self._follow:
                return
            elif self._attempt is None and asked is not None and latest > asked:
                asked, self._offset = latest, 0
            elif headers["turnout-state"] in TERMINAL:
                return
