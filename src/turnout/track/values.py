"""What users hand over, as JSON text. Wrong types are the caller's mistake and raise; nothing here does IO."""

from __future__ import annotations

from _operator import index  # operator.index, without the module around it

# Not imported when first needed: a child forked while a thread imports waits for that import for ever.
try:
    from _json import encode_basestring as _quoted  # json's own, without the twenty modules around it
except ImportError:
    from json.encoder import encode_basestring as _quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterable, List, Mapping, Tuple, Union

_EXACT = 1 << 53  # integers up to here are exact as a 64-bit float
_STEP_LIMIT = 1 << 62  # what the hub takes
_NAME_LENGTH = 256


def number(name: str, value: object, what: str = "metric") -> Union[int, float, str]:
    """`value` as a number whose str() is JSON. A metric is a 64-bit float, so a larger integer is rounded to one.

    Raises TypeError, naming the metric, for what is not one number (text, None, a list, a tensor of several).
    """
    kind = type(value)
    if isinstance(value, int) and -_EXACT <= value <= _EXACT:
        return int(value)
    if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise TypeError(f"{what} {name!r} must be a number, not {kind.__name__}")
    try:
        real = float(value)  # type: ignore[arg-type]
    except OverflowError:
        real = float("inf") if value > 0 else float("-inf")  # type: ignore[operator]
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError is what torch raises for many elements
        raise TypeError(f"{what} {name!r} must be one number, not {kind.__name__}: {error}") from error
    if real - real:  # NaN or infinite: what Python's json writes and reads
        return "NaN" if real != real else "Infinity" if real > 0 else "-Infinity"
    return real


def whole_step(value: object) -> int:
    """`value` as a step. Raises TypeError when it is no whole number, ValueError when it has more than 62 bits."""
    if type(value) is int and -_STEP_LIMIT < value < _STEP_LIMIT:
        return value
    try:
        step = index(value)  # type: ignore[arg-type]
    except TypeError:
        real = number("step", value, "argument")
        if isinstance(real, str) or real != int(real):
            raise TypeError(f"step must be a whole number, not {value!r}") from None
        step = int(real)
    if not -_STEP_LIMIT < step < _STEP_LIMIT:
        raise ValueError(f"step must have at most 62 bits, {step} has more")
    return step


def merge(what: str, mappings: Iterable[Mapping[str, object]], named: Mapping[str, object]) -> Dict[str, object]:
    """All of them as one dict. Raises TypeError for what is no mapping from names, ValueError for an odd name."""
    merged: Dict[str, object] = {}
    for mapping in mappings:
        try:
            merged.update(mapping)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{what} are name=value, or a dict, not {mapping!r}") from error
    merged.update(named)
    for name in merged:
        if not isinstance(name, str):
            raise TypeError(f"{what}: a name must be text, not {name!r}")
    return merged


def checked_name(what: str, name: str) -> str:
    """`name`. Raises ValueError when it is empty or too long to be shown."""
    if not 0 < len(name) <= _NAME_LENGTH:
        raise ValueError(f"the name of a {what} has 1 to {_NAME_LENGTH} characters, not {len(name)}")
    return name


def tags(given: Mapping[str, object]) -> Dict[str, str]:
    """Tags as text. Raises ValueError for a name, TypeError for a value that cannot be one."""
    import re

    checked: Dict[str, str] = {}
    for name, value in given.items():
        if not re.match(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z", name):
            raise ValueError(
                f"tag {name!r}: a name is 1 to 64 letters, digits, '.', '_', '-', and begins with a letter"
            )
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"tag {name!r} must be text or a number, not {type(value).__name__}")
        checked[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return checked


def text(value: object) -> str:
    """`value` as compact JSON that is always valid UTF-8. Raises TypeError for what JSON cannot hold."""
    import json

    return _unicode(json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=_plain))


def fields(what: str, values: Mapping[str, object]) -> str:
    """A JSON object. Raises TypeError naming the field that cannot be written, ValueError for an odd name."""
    parts: List[str] = []
    for name, value in values.items():
        try:
            parts.append(f"{text(checked_name(what, name))}:{text(value)}")
        except TypeError as error:
            raise TypeError(f"{what} {name!r} cannot be recorded: {error}") from error
    return "{" + ",".join(parts) + "}"


def form(names: Tuple[str, ...]) -> str:
    """A metrics record as a ``%`` format for the time, the step and each value; made once per set of names."""
    parts = ",".join(_unicode(_quoted(checked_name("metric", name))).replace("%", "%%") + ":%s" for name in names)
    return '{"t":%s%s,"m":{' + parts + "}}"


def _unicode(written: str) -> str:
    return written.encode("utf-8", "replace").decode()  # a lone surrogate (of an odd file name) becomes "?"


def _plain(value: object) -> object:
    kind = type(value)
    if hasattr(kind, "tolist"):  # numpy and torch, scalars and arrays
        return value.tolist()  # type: ignore[attr-defined]
    if hasattr(kind, "__fspath__"):
        return value.__fspath__()  # type: ignore[attr-defined]
    raise TypeError(f"{kind.__name__} is not a JSON type")
