"""A pipeline as it is written, before anybody knows what its runs will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnout.pipeline.native.problems import Locate
from turnout.pipeline.plan import Value

#: Files of a step: one after the other, or by names (``{inputs.ref}``). Each is a path with places, or a pattern.
Files = tuple[str, ...] | Mapping[str, str]

#: What places are called that are no values of a matrix.
RESERVED = ("input", "inputs", "output", "outputs", "file", "name", "stem", "step")

MOST_RUNS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step. It has a `command`, text for a shell or an argv, or a `function` with its `args`.

    `matrix` has rows of names and their values: a row stands for all combinations in it. `each` is a step, or a pattern
    of files. `when` is kept as it is written, and `job` is all that is said of the job and not of the graph.
    """

    name: str
    command: str | tuple[str, ...] | None = None
    function: str | None = None
    args: Mapping[str, object] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    matrix: tuple[Mapping[str, tuple[Value, ...]], ...] = ()
    each: str | None = None
    collect: tuple[str, ...] = ()
    inputs: Files = ()
    outputs: Files = ()
    when: str | None = None
    job: Mapping[str, object] = field(default_factory=dict)

    @property
    def own_names(self) -> tuple[str, ...]:
        """Of the values in its matrix, whose rows all have the same."""
        return tuple(self.matrix[0]) if self.matrix else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """Steps in the order in which they are written, no two of the same name. `where` is how errors begin: a file, of
    which `locate` knows the lines."""

    steps: tuple[Step, ...]
    where: str = ""
    locate: Locate | None = field(default=None, compare=False)


def by_name(files: Files) -> dict[str, str]:
    """Files of a list are called 0, 1, and so on."""
    if not files:
        return {}
    return dict(files) if isinstance(files, Mapping) else {str(number): each for number, each in enumerate(files)}
