"""Pickling what cannot be imported elsewhere by value, and futures as what came of them."""

from __future__ import annotations

import io
import operator
import pickle
from concurrent import futures
from typing import Any

from cloudpickle import Pickler

from turnout.futures.packing import keeps_inside


class CallPickler(Pickler):  # type: ignore[misc]
    """After `dump`, `apart` are the large buffers, and `awaited` the futures that have no outcome yet; what was written
    is of no use if there are any. `dump` raises the error of one that failed, or CancelledError."""

    def __init__(self, file: io.BytesIO, keeps_all: bool) -> None:
        self.apart: list[pickle.PickleBuffer] = []
        self.awaited: list[futures.Future[Any]] = []
        super().__init__(file, 5, None if keeps_all else lambda buffer: keeps_inside(buffer, self.apart))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, futures.Future):
            if obj.done():
                return operator.getitem, ((obj.result(),), 0)
            self.awaited.append(obj)
            return operator.getitem, ((None,), 0)
        return super().reducer_override(obj)
