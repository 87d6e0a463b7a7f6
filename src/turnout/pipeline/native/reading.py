"""Steps, from names and values as YAML has them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping

from turnout.model.likeness import nearest
from turnout.pipeline.native import shapes
from turnout.pipeline.native.model import Pipeline, Step
from turnout.pipeline.native.problems import Locate, Problems

#: The keys of a step that say what its runs are; all others are its job's.
KEYS = ("command", "function", "args", "needs", "matrix", "each", "collect", "inputs", "outputs", "when")
#: What of a job is said in its step alone.
_OF_STEP = ("command", "search")
#: What is no step's own: why, and what to do instead.
_OF_PIPELINE = {
    "name": ("a step is called by its key", "leave `name:` out"),
    "code": ("code is for all steps alike", "say it for the pipeline: beside `pipeline:`, or to Pipeline(…)"),
}
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_SLIP = 0.8  # two keys that are as like as this are the same, misspelt


def read(
    content: Mapping[str, object], where: str, job_keys: Collection[str] | None = None, locate: Locate | None = None
) -> Pipeline:
    """What is written below ``pipeline:``. `where` is what errors begin with, the name of the file.

    `job_keys` are what a step may say of its job; None = anything that is not nearly a key of ours. InvalidInput has
    all that is wrong, one line for each.
    """
    problems = Problems(where, locate)
    for key in content:
        if job_keys is not None and key in job_keys and key not in _OF_STEP:
            problems.add(str(key), "stands beside `pipeline:`, not in it", "move it up; a step may have its own")
        elif key != "steps":
            instead = "type --fail-fast" if key == "fail-fast" else "write `steps:`, and the steps below it"
            problems.add(str(key), "nothing is called so", instead)
    steps = _read_steps(content.get("steps"), job_keys, problems)
    problems.check()
    return Pipeline(steps=steps, where=where, locate=locate)


def _read_steps(content: object, job_keys: Collection[str] | None, problems: Problems) -> tuple[Step, ...]:
    if not isinstance(content, Mapping) or not content:
        what = "there are none" if not content else "are no block of names and values"
        problems.add("steps", what, "write `NAME:` below it, and `command: …` below that")
        return ()
    steps: dict[str, Step] = {}
    for key, value in content.items():
        if check_name(key, steps, problems):
            steps[str(key)] = read_step(str(key), value, job_keys, problems)
    return tuple(steps.values())


def check_name(key: object, others: Collection[str], problems: Problems) -> bool:
    """Whether a step can be called so."""
    if isinstance(key, bool) or not isinstance(key, str | int) or not _NAME.fullmatch(str(key)):
        problems.add("steps", f"{shapes.shown(key)} is no name of a step", "use letters, digits, `_` and `-`")
        return False
    if str(key) in others:
        problems.add("steps", f"there are two of the name {key}", "give each its own")
        return False
    return True


def read_step(name: str, content: object, job_keys: Collection[str] | None, problems: Problems) -> Step:
    """The step, as far as there is no problem with it."""
    place = f"steps.{name}"
    if not isinstance(content, Mapping):
        problems.add(place, "is no block of names and values", "write `command: …` below it")
        return Step(name=name)
    own = {key: value for key, value in content.items() if key in KEYS and value is not None}
    job = {str(key): value for key, value in content.items() if key not in KEYS}
    _check_keys(place, job, job_keys, problems)
    shape = shapes.Shapes(place, own, problems)
    step = Step(
        name=name, command=shape.command(), function=shape.text("function"), args=shape.args(),
        needs=shape.texts("needs"), matrix=shape.matrix(), each=shape.text("each"), collect=shape.texts("collect"),
        inputs=shape.files("inputs"), outputs=shape.files("outputs"), when=shape.condition(), job=job,
    )  # fmt: skip
    _check_work(place, own, step, problems)
    return step


def _check_keys(place: str, job: Mapping[str, object], known: Collection[str] | None, problems: Problems) -> None:
    for key in job:
        if known is not None and key in _OF_PIPELINE:
            problems.add(place, *_OF_PIPELINE[key])
            continue
        if known is None:
            slips = difflib.get_close_matches(key, KEYS, 1, _SLIP)
            instead = f"did you mean `{slips[0]}`?" if slips else None
        elif key not in known:
            names = [name for name in dict.fromkeys((*KEYS, *known)) if name not in _OF_PIPELINE]
            near = nearest(key, names)
            instead = f"did you mean `{near}`?" if near else f"known: {', '.join(names)}"
        else:
            instead = None
        if instead is not None:
            problems.add(place, f"nothing is called {key}", instead)


def _check_work(place: str, own: Mapping[str, object], step: Step, problems: Problems) -> None:
    if "command" not in own and "function" not in own:
        problems.add(place, "there is nothing to do", "write `command: …` or `function: module:name`")
    if "command" in own and "function" in own:
        problems.add(place, "there are a command and a function", "make two steps of it")
    if step.function is not None and not _FUNCTION.fullmatch(step.function):
        what = f"{step.function!r} is no function of a module"
        problems.add(f"{place}.function", what, "write `module:name`")
    if "args" in own and "function" not in own:
        problems.add(f"{place}.args", "are for a function", "write what the command gets into the command")
