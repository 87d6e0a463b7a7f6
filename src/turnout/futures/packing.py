"""Calls and what comes of them as bytes for another process: pickles, with large buffers apart."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

# Not imported: a worker is ready sooner without `concurrent.futures` and `cloudpickle`, and may never need them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent import futures

LARGE = 1 << 16
"""bytes from which on a buffer goes apart"""
RETURNED, RAISED = range(2)
_PLAIN = frozenset({int, float, bool, str, bytes, type(None)})

#: What a value becomes: its pickle, and the large buffers that it refers to.
Packed = tuple[bytes, list[pickle.PickleBuffer]]


class Awaits(Exception):
    """What was to be packed has futures in it that have no outcome yet."""

    def __init__(self, these: list[futures.Future[Any]]) -> None:
        super().__init__()
        self.these = these


def pack(value: Any, *, keeps_all: bool = False) -> Packed:
    """Whatever cannot be imported elsewhere goes by value; futures, as what came of them: raises the error of one that
    failed, CancelledError, or Awaits. Raises whatever else keeps it from being pickled. With `keeps_all`, nothing goes
    apart."""
    from turnout.futures.pickler import CallPickler

    file = io.BytesIO()
    pickler = CallPickler(file, keeps_all)
    pickler.dump(value)
    if pickler.awaited:
        raise Awaits(pickler.awaited)
    return file.getvalue(), pickler.apart


def pack_arguments(args: Sequence[Any], kwargs: dict[str, Any], *, keeps_all: bool = False) -> Packed:
    """As `pack`."""
    if not kwargs and is_plain(args):
        return pickle.dumps((args, kwargs), 5), []
    return pack((args, kwargs), keeps_all=keeps_all)


def is_plain(args: Sequence[Any]) -> bool:
    """Whether they are such that nothing special can come of them; quick."""
    return all(map(_PLAIN.__contains__, map(type, args)))


def make(
    function: Any, args: Sequence[Any], kwargs: dict[str, Any], *, keeps_all: bool = False
) -> tuple[int, bytes, list[pickle.PickleBuffer]]:
    """Makes a call; how it ended, with what. Raises nothing."""
    try:
        return RETURNED, *_pack_result(function(*args, **kwargs), keeps_all)
    except BaseException as error:
        return RAISED, pack_error(error), []


def unpack(ended: int, data: bytes | memoryview, buffers: Iterable[Any]) -> Any:
    """What the call returned; raises what it raised, with the traceback of there as its cause."""
    value = pickle.loads(data, buffers=buffers)
    if ended == RETURNED:
        return value
    from turnout.futures.errors import RemoteTraceback

    error, trace = value
    error.__cause__ = RemoteTraceback(trace)
    raise error


def pack_error(error: BaseException) -> bytes:
    """For `unpack`. What cannot be pickled, or not be unpickled again, goes as a RuntimeError that says the same."""
    import traceback

    trace = "".join(traceback.format_exception(error))
    if not isinstance(error, Exception):
        error = _ended_itself(error)
    try:
        data, _ = pack((error, trace))
        pickle.loads(data)
    except Exception:
        return pickle.dumps((RuntimeError(said(error)), trace), 5)
    return data


def said(error: BaseException) -> str:
    """What it is, and what it says; some cannot."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return f"{type(error).__name__}, which cannot say what it is"


def keeps_inside(buffer: pickle.PickleBuffer, apart: list[pickle.PickleBuffer]) -> bool:
    """For a pickler: a small buffer, or one that is not in one piece, stays in the pickle."""
    try:
        if buffer.raw().nbytes < LARGE:
            return True
    except BufferError:
        return True
    apart.append(buffer)
    return False


def _pack_result(value: Any, keeps_all: bool) -> Packed:
    apart: list[pickle.PickleBuffer] = []
    try:
        if keeps_all or type(value) in _PLAIN:
            return pickle.dumps(value, 5), apart
        return pickle.dumps(value, 5, buffer_callback=lambda buffer: keeps_inside(buffer, apart)), apart
    except Exception:  # something in it has no name to be imported by
        return pack(value, keeps_all=keeps_all)


def _ended_itself(error: BaseException) -> Exception:
    """Where the call is asked for, it must not end that process: `sys.exit` means the one it is called in."""
    from turnout.futures.errors import WorkerDied

    how = f"sys.exit({error.code!r})" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return WorkerDied(f"the function ended itself: {how}", hint="return, or raise an Exception instead")
