"""What a compute worker has for the one task it is at, in OpenFF's words."""

from __future__ import annotations

import copy
import json
import re
from enum import Enum, StrEnum
from typing import Any, Self, TypeVar

from turnout.errors import InvalidInput
from turnout.model.measures import parse_size

E = TypeVar("E", bound=Enum)
_CLOCK = re.compile(r"(\d{1,4}):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


class WrongResources(InvalidInput, ValueError):
    """Such a worker cannot be."""


class ComputeResources:
    """A value: equal to another of the same type with the same fields. WrongResources for what cannot be.

    The names of toolkits and precisions are text too, so that OpenFF's own code can look them up among its names."""

    class GPUToolkit(StrEnum):
        CUDA = "CUDA"
        OpenCL = "OpenCL"
        auto = "auto"

    class GPUPrecision(StrEnum):
        single = "single"
        mixed = "mixed"
        double = "double"

    _FIELDS: tuple[str, ...] = (
        "number_of_threads", "number_of_gpus", "preferred_gpu_toolkit", "preferred_gpu_precision",
    )  # fmt: skip

    def __init__(
        self, number_of_threads: int = 1, number_of_gpus: int = 0,
        preferred_gpu_toolkit: GPUToolkit | str | None = GPUToolkit.auto,
        preferred_gpu_precision: GPUPrecision | str | None = GPUPrecision.mixed,
    ) -> None:  # fmt: skip
        self._number_of_threads = _count("number_of_threads", number_of_threads)
        self._number_of_gpus = _count("number_of_gpus", number_of_gpus)
        self._preferred_gpu_toolkit = _choice(self.GPUToolkit, "preferred_gpu_toolkit", preferred_gpu_toolkit)
        self._preferred_gpu_precision = _choice(self.GPUPrecision, "preferred_gpu_precision", preferred_gpu_precision)
        self._gpu_device_indices: str | None = None
        if number_of_threads == number_of_gpus == 0:
            raise WrongResources(
                "number_of_threads and number_of_gpus are both 0: a worker has to have something",
                hint="give at least 1 of either",
            )
        if number_of_gpus and self._preferred_gpu_toolkit is None:
            raise WrongResources(
                "preferred_gpu_toolkit: one has to be said for a worker with GPUs", hint="CUDA, OpenCL or auto"
            )

    @property
    def number_of_threads(self) -> int:
        return self._number_of_threads

    @property
    def number_of_gpus(self) -> int:
        return self._number_of_gpus

    @property
    def preferred_gpu_toolkit(self) -> GPUToolkit | None:
        return self._preferred_gpu_toolkit

    @property
    def preferred_gpu_precision(self) -> GPUPrecision | None:
        return self._preferred_gpu_precision

    @property
    def gpu_device_indices(self) -> str | None:
        """Which of the GPUs that the worker sees are its own, such as ``"0,1"``; None elsewhere, and without GPUs. Not
        compared."""
        return self._gpu_device_indices

    def on_worker(self) -> Self:
        """The same, as a task is given it: a worker sees no other GPUs than its own."""
        there = copy.copy(self)
        there._gpu_device_indices = ",".join(map(str, range(self.number_of_gpus))) or None
        return there

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them."""
        values = {name: getattr(self, name) for name in self._FIELDS}
        return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """WrongResources for fields that there are not."""
        unknown = sorted(fields.keys() - set(cls._FIELDS))
        if unknown:
            raise WrongResources(f"{cls.__name__} has no {unknown[0]}", hint=f"known: {', '.join(cls._FIELDS)}")
        return cls(**fields)

    def json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def parse_json(cls, text: str) -> Self:
        """What `json` wrote. WrongResources for what is no object of JSON."""
        try:
            fields = json.loads(text)
        except ValueError as error:
            raise WrongResources(f"this is no JSON: {error}") from error
        if not isinstance(fields, dict):
            raise WrongResources(f"an object is needed, and this is {text[:50]}")
        return cls.from_dict(fields)

    def _compared(self) -> tuple[Any, ...]:
        return tuple(self.to_dict().values())

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((type(self), *self._compared()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


class QueueWorkerResources(ComputeResources):
    """Of a worker that a scheduler starts. `per_thread_memory_limit`: bytes, ``"2G"``, or a quantity of pint's; a
    worker has as much for *each* of its threads. `wallclock_time_limit`: ``HH:MM``, or ``HH:MM:SS``."""

    _FIELDS = (*ComputeResources._FIELDS, "per_thread_memory_limit", "wallclock_time_limit")

    def __init__(
        self, number_of_threads: int = 1, number_of_gpus: int = 0,
        preferred_gpu_toolkit: ComputeResources.GPUToolkit | str | None = ComputeResources.GPUToolkit.auto,
        preferred_gpu_precision: ComputeResources.GPUPrecision | str | None = ComputeResources.GPUPrecision.mixed,
        per_thread_memory_limit: Any = 1_000_000_000, wallclock_time_limit: str = "01:00",
    ) -> None:  # fmt: skip
        super().__init__(number_of_threads, number_of_gpus, preferred_gpu_toolkit, preferred_gpu_precision)
        self._per_thread_memory_limit = per_thread_memory_limit
        self._wallclock_time_limit = wallclock_time_limit
        self._bytes_per_thread = _bytes(per_thread_memory_limit)
        self._seconds = _clock(wallclock_time_limit)

    @property
    def per_thread_memory_limit(self) -> Any:
        """As it was given."""
        return self._per_thread_memory_limit

    @property
    def wallclock_time_limit(self) -> str:
        """As it was given."""
        return self._wallclock_time_limit

    @property
    def memory(self) -> int:
        """Bytes that a worker has in all."""
        return self._bytes_per_thread * max(1, self.number_of_threads)

    @property
    def seconds(self) -> int:
        """How long a worker may be there."""
        return self._seconds

    def to_dict(self) -> dict[str, Any]:
        """All fields, as JSON has them: memory in bytes."""
        return {**super().to_dict(), "per_thread_memory_limit": self._bytes_per_thread}

    def _compared(self) -> tuple[Any, ...]:
        return *super()._compared()[:-1], self._seconds


def ours(given: Any) -> ComputeResources:
    """The same in our words: a program may have its resources from OpenFF itself. WrongResources for what is none."""
    if isinstance(given, ComputeResources):
        return given
    kind = QueueWorkerResources if hasattr(given, "wallclock_time_limit") else ComputeResources
    try:
        return kind(**{name: getattr(given, name) for name in kind._FIELDS})
    except AttributeError:
        raise WrongResources(f"resources_per_worker: {given!r} cannot be", hint="give ComputeResources") from None


def _count(name: str, given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise WrongResources(f"{name}: {given!r} cannot be", hint="give a whole number, at least 0")
    return given


def _choice(kind: type[E], name: str, given: Any) -> E | None:
    if given is None or isinstance(given, kind):
        return given
    try:
        return kind(getattr(given, "value", given))  # also one of another class with the same names
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise WrongResources(f"{name}: {given!r} is not known", hint=f"known: {known}") from None


def _bytes(given: Any) -> int:
    hint = "give bytes, or a size such as 2G, or a quantity of bytes"
    try:
        if isinstance(given, str):
            found = parse_size(given)
        elif hasattr(given, "m_as"):  # pint
            found = int(given.m_as("byte"))
        elif isinstance(given, (int, float)) and not isinstance(given, bool):
            found = int(given)
        else:
            raise TypeError(f"{given!r} is not a size")
    except Exception as error:  # whatever a library of units raises for what is no size
        raise WrongResources(f"per_thread_memory_limit: {error}", hint=hint) from error
    if found <= 0:
        raise WrongResources(f"per_thread_memory_limit: {given!r} cannot be", hint="give more than 0 bytes")
    return found


def _clock(given: Any) -> int:
    found = _CLOCK.fullmatch(given) if isinstance(given, str) else None
    hours, minutes, seconds = (int(part or 0) for part in found.groups()) if found else (0, 0, 0)
    whole = hours * 3600 + minutes * 60 + seconds
    if not whole:
        hint = "write hours and minutes, such as 05:59 or 120:00"
        raise WrongResources(f"wallclock_time_limit: {given!r} is not a time that a worker could have", hint=hint)
    return whole
