"""What NNI's library and a run of it say to each other, by files: parameters go in, metrics come out.

The library finds its files by variables of the environment, and reads those once, when it is imported. Beside a run
lies a directory: ``parameter.cfg`` is one JSON object, ``.nni/metrics`` grows by records, each ``ME``, the length of
the rest in six digits, and a line of JSON whose ``value`` is JSON again, inside a string.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

#: Below the directory: what the library reads, and what it writes.
PARAMETERS = "parameter.cfg"
METRICS = ".nni/metrics"
#: What the second is called among the streams of an attempt.
STREAM = "nni"
#: The metric that a plain number is, and the one that counts of several.
OBJECTIVE = "default"
#: The longest record there can be, with its head.
LONGEST = 1_000_008

_HEAD = re.compile(rb"ME([0-9]{6})(?=\{)")
_LARGEST_STEP = 2**62
_ARRAY = "__ndarray__"


def environment(directory: str, *, experiment: str, run: str, number: int, code: str) -> Dict[str, str]:
    """The variables of a run: `directory` is the one of these files, `number` its place among its siblings, from 1.

    NNI_OUTPUT_DIR is where a script may put what is to be kept: the caller's to set. With REUSE_MODE set, and not to
    ``true``, what the script prints stays on its standard output; otherwise the library diverts it."""
    return {
        "NNI_PLATFORM": "local", "REUSE_MODE": "false", "NNI_SYS_DIR": directory, "NNI_CODE_DIR": code,
        "NNI_EXP_ID": experiment, "NNI_TRIAL_JOB_ID": run, "NNI_TRIAL_SEQ_ID": str(number - 1),
    }  # fmt: skip


#: What must not come from elsewhere: the library would speak by another channel, or take itself for another program.
UNSET = ("NNI_TRIAL_COMMAND_CHANNEL", "MULTI_PHASE", "SDK_PROCESS")


def parameters(number: int, params: Mapping[str, object]) -> bytes:
    """The content of `PARAMETERS`. It has to be there as a whole at once: the library takes what it finds."""
    told = {"parameter_id": number - 1, "parameter_source": "algorithm", "parameters": params, "parameter_index": 0}
    return json.dumps(told).encode()


def records(content: bytes, when: float) -> Tuple[List[Dict[str, Any]], int]:
    """The records ``{"t", "s"?, "m": {name: value}}`` in a part of `METRICS` that begins where the last one ended, and
    how many bytes they take; what follows is not whole yet. A part of at least `LONGEST` bytes always gets on. What is
    no record is passed over."""
    end = content.rfind(b"\n") + 1
    found = [each for line in content[:end].split(b"\n") if (each := record(_told(line), when)) is not None]
    return found, max(end, len(content) - LONGEST)


def record(told: Mapping[str, Any], when: float) -> Optional[Dict[str, Any]]:
    """The record of what the library tells, once it is taken out of its line; None for what is no metric. An
    intermediate result has its number as its step, a final one none."""
    kind = told.get("type")
    if kind not in ("PERIODICAL", "FINAL"):
        return None
    value = told.get("value")
    values = numbers(decoded(value) if isinstance(value, str) else value)
    if not values:
        return None
    step = told.get("sequence")
    if kind == "PERIODICAL" and type(step) is int and 0 <= step < _LARGEST_STEP:
        return {"t": when, "s": step, "m": values}
    return {"t": when, "m": values}


def decoded(text: Union[str, bytes, bytearray]) -> Any:
    """What that JSON says; None for what is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def numbers(told: Any) -> Dict[str, float]:
    """The metrics in a value that a script reported: a number is the one that counts, an object has several. Entries
    that are no number are passed over."""
    if isinstance(told, dict) and _ARRAY not in told:
        named = {str(name): _number(value) for name, value in told.items()}
        return {name: number for name, number in named.items() if number is not None}
    number = _number(told)
    return {} if number is None else {OBJECTIVE: number}


def _told(line: bytes) -> Dict[str, Any]:
    """What a line says. One that was begun before, and never ended (its process was killed), may stand in front."""
    heads = [head for head in _HEAD.finditer(line) if int(head[1]) == len(line) - head.end() + 1]
    for head in heads[:1] + heads[1:][-1:]:
        told = decoded(line[head.end() :])
        if isinstance(told, dict):
            return told
    return {}


def _number(told: Any) -> Optional[float]:
    if isinstance(told, dict):  # an array without dimensions
        told = told.get(_ARRAY)
    if not isinstance(told, (int, float)):
        return None
    try:
        return float(told)
    except OverflowError:
        return None
