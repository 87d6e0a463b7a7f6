"""What is left to decide of a step when others are over: which runs it has, and at the gate of each, if it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from turnout.pipeline.native import braces, looking, making
from turnout.pipeline.native.model import Files, Step
from turnout.pipeline.native.problems import Problems
from turnout.pipeline.plan import Left, Look, RunPlan, StepPlan, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class LateStep:
    """All that is known of the step before: the names of its values, those by which it is joined with each step that it
    names, the `files` of the project that it may read; and in `fan`, if its `each` is a pattern and it is known what
    that matches, these files. `where` is how errors begin. With `fills`, which files its command names is decided at
    the gate. `instead` stands for the first word of its command, if who submits knows better how that is executed."""

    step: Step
    where: str
    names: tuple[str, ...]
    joins: Mapping[str, tuple[str, ...]]
    files: tuple[str, ...] = ()
    fan: tuple[str, ...] | None = None
    fills: bool = False
    instead: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Its command as it is written, if that is a list which begins with a word that is known."""
        command = self.step.command
        is_known = isinstance(command, tuple) and not braces.slots(braces.parse(command[0]))
        return command if isinstance(command, tuple) and is_known else ()

    @property
    def has_condition(self) -> bool:
        return self.step.when is not None

    def make(self, left: Mapping[str, Sequence[Left]]) -> StepPlan:
        """InvalidInput: nothing matches, an input is missing, two runs leave the same file, or there are too many."""
        problems = Problems(self.where)
        made = making.make(self, left, problems)
        problems.check()
        return replace(made, runs=tuple(replace(run, argv=self._executed(run)) for run in made.runs))

    def at_gate(self, left: Mapping[str, Sequence[Left]]) -> Look:
        """InvalidInput: an input is missing, or the condition asks for what nobody told."""
        looker = looking.Looker(self, left)

        def look(values: Mapping[str, Value]) -> tuple[str, ...]:
            run = looker.look(values)
            return self._executed(run) if run is not None else ()

        return look

    def plain(self) -> dict[str, Any]:
        """As JSON holds it; see `late_from`."""
        found = _plain(asdict(self))
        del found["step"]["job"]
        return {"language": "native", **found}

    def _executed(self, run: RunPlan) -> tuple[str, ...]:
        return run.argv if self.instead is None or not run.argv else (*self.instead, *run.argv[1:])


def late_from(plain: Mapping[str, Any]) -> LateStep:
    """What `LateStep.plain` wrote, and JSON may have made lists of."""
    step = plain["step"]
    command = step["command"]
    return LateStep(
        step=Step(
            name=step["name"], command=tuple(command) if isinstance(command, list | tuple) else command,
            function=step["function"], args=step["args"], needs=tuple(step["needs"]), each=step["each"],
            collect=tuple(step["collect"]), inputs=_files(step["inputs"]), outputs=_files(step["outputs"]),
            matrix=tuple({name: tuple(values) for name, values in row.items()} for row in step["matrix"]),
            when=step["when"],
        ),
        where=plain["where"], names=tuple(plain["names"]), files=tuple(plain["files"]),
        joins={name: tuple(names) for name, names in plain["joins"].items()},
        fan=None if plain["fan"] is None else tuple(plain["fan"]), fills=bool(plain.get("fills", True)),
        instead=tuple(plain["instead"]) if plain.get("instead") is not None else None,
    )  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _files(plain: Any) -> Files:
    return dict(plain) if isinstance(plain, Mapping) else tuple(plain)
