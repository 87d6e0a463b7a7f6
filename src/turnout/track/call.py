"""The program of a step that is a function: ``python -c THIS turnout-call module:name '{"x": 1}'``.

Arguments that are too long for that lie in a file: ``@PATH``.

It is executed as text, on machines where nothing of ours is installed. The module is found from where the run began. A
function gets the arguments that are given; beside those, of the run's parameters, the ones that it has names for. What
it returns: the numbers of a mapping are metrics of the run, all else is printed. When it raises, that is shown as from
a script, without what is in between, and the exit code is 1.
"""

import inspect
import json
import os
import sys
import traceback
from typing import Any, Dict


def main(path: str, given: str) -> None:
    sys.argv[:] = [path]
    sys.path.insert(0, os.getcwd())  # also when the function goes to another directory
    try:
        _tell(_call(path, json.loads(_read(given[1:]) if given.startswith("@") else given)))
    except Exception as error:
        trace = error.__traceback__
        while trace is not None and _is_between(trace.tb_frame.f_globals):
            trace = trace.tb_next
        sys.stdout.flush()
        traceback.print_exception(type(error), error, trace)
        sys.exit(1)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _is_between(names: Dict[str, Any]) -> bool:
    return names is globals() or str(names.get("__name__")).startswith("asyncio.")


def _call(path: str, given: Dict[str, Any]) -> object:
    module, _, name = path.partition(":")
    __import__(module)  # which leaves no trace of itself, unlike importlib
    function: Any = sys.modules[module]
    for part in name.split("."):
        function = getattr(function, part)
    result = function(**{**_fitting(function), **given})
    return _awaited(result) if inspect.isawaitable(result) else result


def _awaited(result: Any) -> object:
    import asyncio  # only who needs it pays for it

    async def wait() -> object:
        return await result

    return asyncio.run(wait())


def _fitting(function: Any) -> Dict[str, Any]:
    """Of the run's parameters, those that the function names."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it is not written in Python
        return {}
    params = json.loads(os.environ.get("TURNOUT_PARAMS") or "{}")
    names = [each.name for each in known if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    return {name: params[name] for name in names if name in params}


def _tell(result: object) -> None:
    if isinstance(result, dict):
        numbers = {name: value for name, value in result.items() if isinstance(name, str) and _is_number(value)}
        if _log(numbers) and len(numbers) == len(result):
            return
    if result is not None:
        print(result if isinstance(result, str) else _text(result))


def _is_number(value: Any) -> bool:
    """Also one of numpy or torch."""
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        return False
    try:
        float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # there are several in it
        return False
    return True


def _log(numbers: Dict[str, Any]) -> bool:
    """Whether they are metrics now."""
    if not numbers:
        return True
    try:
        found = __import__("turnout")  # whichever the run finds
    except ImportError:  # it has a PYTHONPATH of its own
        return False
    found.log(numbers)
    return True


def _text(result: object) -> str:
    try:
        return json.dumps(result, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return repr(result)


def _plain(value: Any) -> object:
    return value.tolist() if hasattr(value, "tolist") else str(value)


if __name__ == "__main__":
    main(sys.argv[2], sys.argv[3])
