"""What a run says about itself: ``turnout.log(loss=0.3, step=4)`` and its siblings.

Inside a run each call appends one record to a file beside the run's directory (`spool`): no network, no thread, a few
microseconds. Outside a run the same calls check what they are given and drop it. A disk that fails never fails the
experiment: the loss is counted, and said once on stderr. A wrong type does raise: it is a mistake in the script.

Every call may come from any thread, signal handler or forked child.
"""

from __future__ import annotations

import os
from time import time

from . import values
from .spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Dict, Mapping, Optional, Tuple, Union

__all__ = ["artifact", "is_restart", "log", "lost", "output_dir", "params", "tag"]

_spool: Optional[Spool] = Spool(os.environ["TURNOUT_SPOOL"]) if os.environ.get("TURNOUT_SPOOL") else None
_forms: Dict[Tuple[str, ...], str] = {}
_recorded: Dict[str, object] = {}

if _spool is not None and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spool.after_fork)


def log(*metrics: Mapping[str, object], step: Optional[object] = None, **named: object) -> None:
    """Records metrics: ``log(loss=0.3, step=4)``, or ``log({"val/loss": 0.3}, step=4)`` for other names.

    A value is a number, or what turns into one by float() (numpy and torch scalars); NaN and infinities are kept.
    Without `step` the hub numbers the values of each metric in the order they were logged.
    Raises TypeError, naming the metric, for anything else.
    """
    if metrics or not named:
        named = values.merge("metrics", metrics, named)
        if not named:
            return
    numbers = tuple(named.values())
    for value in numbers:
        if type(value) is not float or value - value:  # not a finite float
            numbers = tuple([values.number(name, value) for name, value in named.items()])
            break
    names = tuple(named)
    form = _forms.get(names) or _new_form(names)
    record = form % (time(), "" if step is None else f',"s":{values.whole_step(step)}', *numbers)
    if _spool is not None:
        _spool.append(record.encode())


def params(*mappings: Mapping[str, object], **named: object) -> Dict[str, object]:
    """This run's hyperparameters: those it was submitted with and those recorded here, as a new dict.

    ``params(lr=0.1)`` or ``params({"lr": 0.1})`` records first; a later value of a name replaces an earlier one.
    Raises TypeError, naming the parameter, for a value that JSON cannot hold (paths and numpy values are fine).
    """
    new = values.merge("params", mappings, named)
    if new:
        _record("p", values.fields("param", new))
        _recorded.update(new)
    return {**_submitted(), **_recorded}


def tag(*tags: Union[str, Mapping[str, object]], **named: object) -> None:
    """Tags this run: ``tag("keep")``, ``tag(stage="final")``. A value is text or a number, kept as text.

    Raises TypeError for another value, ValueError for a name that is not 1 to 64 letters, digits, ``.``, ``_``, ``-``.
    """
    given = values.merge("tags", [{one: ""} if isinstance(one, str) else one for one in tags], named)
    if given:
        _record("g", values.fields("tag", values.tags(given)))


def artifact(path: Union[str, os.PathLike[str]]) -> None:
    """Marks a file (or directory) of this run to be kept when it ends; it need not exist yet.

    `path` is relative to the current directory, or absolute. Raises ValueError when it lies, or a link leads, outside
    the run's directory, or its name is not Unicode. Outside a run nothing is checked.
    """
    given = os.fsdecode(path)
    if _spool is not None:
        kept = _inside(_work_dir(), given)
        kept.encode()  # UnicodeEncodeError is a ValueError: no other name could be sent in its place
        _record("a", values.text(kept))


def output_dir() -> Path:
    """The directory whose files are kept when the run ends; made if it is not there. Outside a run: ``output``.

    Raises OSError when it cannot be made: what follows could not be saved.
    """
    from pathlib import Path

    directory = Path(os.environ.get("TURNOUT_OUTPUT_DIR") or "output")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def is_restart() -> bool:
    """Whether an earlier attempt of this run was begun; its output directory was then copied into this one's."""
    attempt = os.environ.get("TURNOUT_ATTEMPT", "")
    return attempt.isdigit() and int(attempt) > 1


def lost() -> int:
    """How many records of this process could not be written."""
    return 0 if _spool is None else _spool.lost


def _new_form(names: Tuple[str, ...]) -> str:
    if len(_forms) >= 1024:  # names made up as it goes must not fill the memory
        _forms.clear()
    form = _forms[names] = values.form(names)
    return form


def _record(key: str, written: str) -> None:
    if _spool is not None:
        _spool.append(f'{{"t":{time()!r},"{key}":{written}}}'.encode())


def _submitted() -> Dict[str, object]:
    given = os.environ.get("TURNOUT_PARAMS")
    if not given:
        return {}
    import json

    try:
        read = json.loads(given)
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {}


def _work_dir() -> str:
    """The run's own directory; the output directory is made right inside it."""
    output = os.environ.get("TURNOUT_OUTPUT_DIR")
    return os.environ.get("TURNOUT_WORK_DIR") or (os.path.dirname(os.path.abspath(output)) if output else os.getcwd())


def _inside(top: str, path: str) -> str:
    """`path` relative to `top`, with forward slashes. ValueError unless it and what it links to are inside."""
    top = os.path.realpath(top)
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    for location in (place, os.path.realpath(path)):
        if not location.startswith(top.rstrip(os.sep) + os.sep):
            raise ValueError(f"artifact {path!r} is not inside the run's directory {top!r}")
    return os.path.relpath(place, top).replace(os.sep, "/")
