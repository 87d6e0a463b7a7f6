"""Ctrl-C, where half of something would be worse than all of it."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # that of `signal` costs more, and this is done with each call
import threading
from types import FrameType
from typing import Any

_SIGINT = 2


class Unbroken:
    """``with Unbroken():`` what is in it is done to its end before Ctrl-C is heeded, which then does what it always
    does. A second one is heeded at once."""

    __slots__ = ("_heed", "_is_due")

    def __enter__(self) -> None:
        self._heed: Any = None
        self._is_due = False
        if threading.get_ident() != threading.main_thread().ident:  # elsewhere nobody hears it
            return
        found = _signal.getsignal(_SIGINT)
        if callable(found):
            self._heed = found
            _signal.signal(_SIGINT, self._put_off)

    def __exit__(self, *_: object) -> None:
        if self._heed is None:
            return
        if _signal.getsignal(_SIGINT) == self._put_off:
            _signal.signal(_SIGINT, self._heed)
        if self._is_due:
            self._heed(_SIGINT, None)

    def _put_off(self, number: int, frame: FrameType | None) -> None:
        if self._is_due:
            self._heed(number, frame)
        self._is_due = True
