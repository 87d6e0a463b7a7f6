"""NVIDIA's GPUs by the driver's library, where its program is not there (in many images of containers)."""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional

from turnout.agent.gpu_sources import CannotLook, Computing, Device, Sight, Source
from turnout.wire.gpus import GpuFacts

_LIBRARY = "libnvidia-ml.so.1"
_NOT_TOLD = (1 << 64) - 1
_TEXT, _MOST_PROCESSES = 96, 1024


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    """As the first version of the call has it, which later libraries still offer under its old name."""

    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong)]


def find_library() -> Optional[Any]:
    """The library, if it is on this machine."""
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


class Nvml(Source):
    """A part of a GPU (MIG) is not seen this way: such a GPU counts as one."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def devices(self) -> List[Device]:
        with self._open():
            return [
                Device(GpuFacts(str(index), self._text("UUID", each), self._text("Name", each), self._memory(each)[0]))
                for index, each in enumerate(self._each())
            ]

    def look(self) -> Sight:
        used: Dict[str, int] = {}
        processes: List[Computing] = []
        with self._open():
            for each in self._each():
                uuid = self._text("UUID", each)
                used[uuid] = self._memory(each)[1]
                processes += self._processes(uuid, each)
        return Sight(used, processes)

    @contextmanager
    def _open(self) -> Iterator[None]:
        self._call("nvmlInit_v2")
        try:
            yield
        finally:
            self._library.nvmlShutdown()

    def _each(self) -> Iterator[ctypes.c_void_p]:
        count = ctypes.c_uint()
        self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        for index in range(count.value):
            device = ctypes.c_void_p()
            self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
            yield device

    def _text(self, what: str, device: ctypes.c_void_p) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        self._call(f"nvmlDeviceGet{what}", device, text, _TEXT)
        return text.value.decode("utf-8", "replace")

    def _memory(self, device: ctypes.c_void_p) -> "tuple[int, int]":
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return memory.total, memory.used

    def _processes(self, uuid: str, device: ctypes.c_void_p) -> List[Computing]:
        count, found = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
        self._call("nvmlDeviceGetComputeRunningProcesses", device, ctypes.byref(count), found)
        return [
            Computing(uuid, each.pid, None if each.used == _NOT_TOLD else each.used) for each in found[: count.value]
        ]

    def _call(self, name: str, *args: Any) -> None:
        try:
            code = getattr(self._library, name)(*args)
        except AttributeError as error:
            raise CannotLook(f"{_LIBRARY} has no {name}") from error
        if code != 0:
            raise CannotLook(f"{name}: error {code}")
