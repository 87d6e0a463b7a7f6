"""A pipeline in Python, by plain calls.

::

    p = Builder()
    fetch = p.step("fetch", "./fetch.sh {sample} > {output}", matrix={"sample": ["a", "b"]}, outputs="raw/{sample}.fq")
    trim = p.step("trim", ["./trim", "{input}", "{output}"], each=fetch, outputs="trimmed/{sample}.fq", cpus=4)
    p.step("report", make_report, args={"files": "{inputs}"}, collect=trim, outputs="report.txt")
    p.pipeline()
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import ModuleType

from turnout.errors import InvalidInput
from turnout.pipeline.native.model import Pipeline, Step
from turnout.pipeline.native.plain import PathLike, plain
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.native.reading import check_name, read_step

Named = Step | str
Matrix = Mapping[str, object]
"""Of each name a value, or whatever has several"""
Path = str | PathLike
Function = Callable[..., object]
#: What has parts, and is one value, or none.
_NO_SEVERAL = (str, bytes, Mapping)


class Builder:
    """Gathers steps. What is wrong with one is said where it is added; what is wrong with all, by `plan`. `job_keys` as
    for `read`."""

    def __init__(self, job_keys: Collection[str] | None = None) -> None:
        self._job_keys = job_keys
        self._steps: dict[str, Step] = {}

    def step(
        self,
        name: str,
        command: str | Sequence[object] | Function | None = None,
        *,
        function: str | Function | None = None,
        args: Mapping[str, object] | None = None,
        needs: Named | Sequence[Named] = (),
        matrix: Matrix | Sequence[Matrix] | None = None,
        each: Named | PathLike | None = None,
        collect: Named | Sequence[Named] = (),
        inputs: Path | Sequence[Path] | Mapping[str, Path] | None = None,
        outputs: Path | Sequence[Path] | Mapping[str, Path] | None = None,
        when: str | None = None,
        **job: object,
    ) -> Step:
        """A step, as a file has it; steps may be named, or be given themselves. `function` is ``module:name``, or the
        function if it can be imported from where it is defined; that may stand in the place of the command, too. In
        names of options of the job, ``_`` is ``-``: ``gpu_memory="16G"``. Paths, and numbers and arrays of numpy's, are
        what they are as `plain` has it. InvalidInput."""
        if callable(command) and function is None:
            command, function = None, command
        content: dict[str, object] = {key.replace("_", "-"): value for key, value in job.items()}
        content.update(
            command=command, args=args, needs=_names(needs), collect=_names(collect), inputs=inputs, outputs=outputs,
            when=when, function=self._path_of(function) if callable(function) else function,
            each=each.name if isinstance(each, Step) else each,
            matrix=_rows(matrix) if matrix else None,
        )  # fmt: skip
        problems = Problems("")
        check_name(name, self._steps, problems)
        step = read_step(name, {key: plain(value) for key, value in content.items()}, self._job_keys, problems)
        problems.check()
        self._check(step)
        self._steps[name] = step
        return step

    def _check(self, step: Step) -> None:
        """For who knows more of what a step may say. InvalidInput."""

    def _path_of(self, function: Function) -> str:
        """``module:name``. InvalidInput for one that cannot be imported under such a name."""
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
        owner = getattr(function, "__self__", None)  # of a method
        is_free = owner is None or isinstance(owner, type | ModuleType)
        if not module or module == "__main__" or not name or "<" in name or not is_free:
            raise InvalidInput(
                f"{name or function!r} cannot be imported from where it is defined",
                hint="put it into a module of the project, beside the script",
            )
        return f"{module}:{name}"

    def pipeline(self) -> Pipeline:
        """All steps so far. InvalidInput if there are none."""
        if not self._steps:
            raise InvalidInput("a pipeline without steps", hint="add one with `step(NAME, COMMAND)`")
        return Pipeline(steps=tuple(self._steps.values()))


def _names(steps: Named | Sequence[Named]) -> list[str]:
    given = [steps] if isinstance(steps, str | Step) else steps
    return [each.name if isinstance(each, Step) else each for each in given]


def _rows(matrix: object) -> list[object]:
    """What is no row stays as it is, and is refused where a file's would be."""
    rows = list(matrix) if isinstance(matrix, Iterable) and not isinstance(matrix, Mapping | str) else [matrix]
    return [_row(row) if isinstance(row, Mapping) else row for row in rows]


def _row(matrix: Matrix) -> dict[str, object]:
    """Of a range, or whatever else has values, the values."""
    return {
        name: list(values) if isinstance(values, Iterable) and not isinstance(values, _NO_SEVERAL) else values
        for name, values in ((name, plain(given)) for name, given in matrix.items())
    }
