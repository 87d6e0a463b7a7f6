"""A step whose files are known only when others are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from turnout.pipeline.metapipe.filling import Found, runs_of, whole
from turnout.pipeline.metapipe.patterns import is_pattern, matcher
from turnout.pipeline.metapipe.problem import problem, shown
from turnout.pipeline.metapipe.quoting import Quotes
from turnout.pipeline.metapipe.template import Declared, Given, Hole, Leaving, Made, Matching, Named, Source, Template
from turnout.pipeline.plan import Left, Look, Place, StepPlan


@dataclass(frozen=True, slots=True)
class LateStep:
    """`plain` writes it down, `late_from` reads that. Its runs have no gates."""

    template: Template

    @property
    def has_condition(self) -> bool:
        return False

    @property
    def fills(self) -> bool:
        return False

    def make(self, left: Mapping[str, Sequence[Left]]) -> StepPlan:
        """See `turnout.pipeline.plan.Late`."""
        runs = runs_of(self.template, partial(_find, left))
        return StepPlan(name=self.template.step, runs=runs, needs=whole(self.template))

    def at_gate(self, left: Mapping[str, Sequence[Left]]) -> Look:
        """See `turnout.pipeline.plan.Late`."""
        return lambda values: ()

    def plain(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "language": "metapipe",
            "step": self.template.step,
            "head": self.template.head,
            "parts": [_plain_part(part) for part in self.template.parts],
            "outputs": [_plain_output(output) for output in self.template.outputs],
        }


def late_from(plain: Mapping[str, Any]) -> LateStep:
    """What `LateStep.plain` wrote."""
    return LateStep(
        Template(
            step=plain["step"],
            head=plain["head"],
            parts=tuple(map(_part, plain["parts"])),
            outputs=tuple(map(_output, plain["outputs"])),
        )
    )


def _find(left: Mapping[str, Sequence[Left]], source: Source) -> list[Found]:
    if isinstance(source, Given):
        return [Found(path) for path in source.paths]
    if isinstance(source, Made):
        return _find_made(left.get(source.step, ()), source)
    if not is_pattern(source.pattern):
        return [Found(source.pattern)]
    matches = matcher(source.pattern)
    places = {
        path: place for step in source.steps for path, place in _places(step, left.get(step, ())) if matches(path)
    }
    if not places:
        commands = f"command {source.steps[0]}" if len(source.steps) == 1 else f"commands {', '.join(source.steps)}"
        what = f"{commands} left no file that matches {shown(source.pattern)}"
        raise problem(source.where, what, "look at its output, and correct the pattern")
    return [Found(path, places[path]) for path in sorted(places)]


def _places(step: str, runs: Sequence[Left]) -> list[tuple[str, Place]]:
    """The files that they left, or will leave, and who does."""
    return [(path, Place(step, number)) for number, run in enumerate(runs) for path in run.files]


def _find_made(runs: Sequence[Left], source: Made) -> list[Found]:
    places = _places(source.step, runs)
    if source.run is not None:
        label = f"{source.step}.{source.run}"
        chosen = [number for number, run in enumerate(runs) if run.label == label]
        if not chosen:
            what = f"command {source.step} came to {len(runs)} run{'s' * (len(runs) != 1)}, and there is no {label}"
            raise problem(source.where, what, f"write {{{source.step}.*}} for all of them")
        places = [(path, place) for path, place in places if place.run in chosen]
    matches = matcher(source.pattern) if source.pattern else bool
    found = {path: place for path, place in places if matches(path)}
    if not found:
        what = f"command {source.step} left no file"
        what += f" that matches {shown(source.pattern)}" if source.pattern else " of those that it declares"
        raise problem(source.where, what, "look at its output, and correct the pattern of its {o:…}")
    return [Found(path, place) for path, place in found.items()]


def _plain_part(part: str | Hole | Named) -> Any:
    if isinstance(part, str):
        return part
    if isinstance(part, Named):
        return {"named": list(part)}
    return {
        "where": part.where,
        "written": part.written,
        "groups": [[_plain_source(source) for source in group] for group in part.groups],
        "each": part.each,
        "quotes": part.quotes.value,
    }


def _part(plain: Any) -> str | Hole | Named:
    if isinstance(plain, str):
        return plain
    if "named" in plain:
        return Named(*plain["named"])
    groups = tuple(tuple(map(_source, group)) for group in plain["groups"])
    return Hole(plain["where"], plain["written"], groups, plain["each"], Quotes(plain["quotes"]))


def _plain_source(source: Source) -> dict[str, Any]:
    if isinstance(source, Given):
        return {"given": list(source.paths), "is_several": source.is_several}
    if isinstance(source, Made):
        return {"made": source.step, "run": source.run, "pattern": source.pattern, "where": source.where}
    return {"matching": source.pattern, "steps": list(source.steps), "where": source.where}


def _source(plain: Mapping[str, Any]) -> Source:
    if "given" in plain:
        return Given(tuple(plain["given"]), plain["is_several"])
    if "made" in plain:
        return Made(plain["where"], plain["made"], plain["run"], plain["pattern"])
    return Matching(plain["where"], plain["matching"], tuple(plain["steps"]))


def _plain_output(output: Leaving) -> dict[str, Any]:
    return {"named": list(output)} if isinstance(output, Named) else {"declared": list(output)}


def _output(plain: Mapping[str, Any]) -> Leaving:
    return Named(*plain["named"]) if "named" in plain else Declared(*plain["declared"])
