"""What a search may vary: each parameter with the values it can take.

A `Choice` is discrete. A `Range` or a `Normal` may be drawn as it is, by order of magnitude (`log`), or rounded to
multiples of `step`. A `Branch` among the values of a choice brings parameters of its own, which exist only where it is
chosen; such a value is then written ``{"_name": name, parameter: value, ...}``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple, Union


@dataclass(frozen=True)
class Branch:
    """One value of a `Choice`, with parameters that only it has."""

    name: str
    space: Mapping[str, "Parameter"] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """One of these: values that JSON can hold, or branches. Never empty; one value = it does not vary."""

    values: Tuple[object, ...]


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included. `whole`: integers only. `log` needs `low` > 0. `step`: rounded to the
    nearest multiple of it, and then brought back between the two."""

    low: float
    high: float
    log: bool = False
    step: Optional[float] = None
    whole: bool = False


@dataclass(frozen=True)
class Normal:
    """Around `mean`, without bounds; `log`: that is the distribution of its logarithm."""

    mean: float
    deviation: float
    log: bool = False
    step: Optional[float] = None


Parameter = Union[Choice, Range, Normal]
Space = Mapping[str, Parameter]
Params = Dict[str, object]
