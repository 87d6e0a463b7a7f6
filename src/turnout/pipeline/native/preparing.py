"""A step made ready: its texts taken apart, its places known, so that its runs are made quickly."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.pipeline.native import braces, conditions
from turnout.pipeline.native.braces import Filler, Piece, Slot
from turnout.pipeline.native.commands import Command, FunctionCall, ListCommand, ShellCommand, is_of_files
from turnout.pipeline.native.conditions import Condition
from turnout.pipeline.native.model import Files, Step, by_name
from turnout.pipeline.native.paths import ANY, clean, escape, is_pattern
from turnout.pipeline.native.problems import Problems

#: Places of a run that is done to a file.
OF_FILE = ("file", "name", "stem")


class Entry:
    """One of the inputs or outputs of a step, as it is written in `text`, or the clean path of all its runs. `guess` is
    a pattern of all that it may come to, from what is known of the values: see `Prepared.guesses`."""

    def __init__(self, name: str, text: str, step: str, guesses: Mapping[str, str]) -> None:
        pieces = _pieces(text, step)
        self.name = name
        self.is_pattern = any(is_pattern(piece) for piece in pieces if isinstance(piece, str))
        self.has_places = bool(braces.slots(pieces))
        self.guess = clean("".join(self._guess(piece, guesses) for piece in pieces))
        self._filler = Filler(pieces)
        self.text = text if self.has_places else clean(self._filler.fill({}))

    def fill(self, texts: Mapping[str, str]) -> str:
        """The clean path, or pattern, of a run: of patterns, the values are what they are and nothing else."""
        if not self.has_places:
            return self.text
        if self.is_pattern:
            texts = {name: escape(text) for name, text in texts.items()}
        return clean(self._filler.fill(texts))

    def _guess(self, piece: Piece, guesses: Mapping[str, str]) -> str:
        if isinstance(piece, Slot):
            return guesses.get(piece.name, ANY)
        return piece if self.is_pattern else escape(piece)


@dataclass(frozen=True, slots=True)
class Prepared:
    """`guesses` are patterns of what its values may be, by their names; `through` are the steps whose files are its
    inputs, if it does not say itself which these are; `beside` those whose files it asks for by their names besides.
    `asks` are the places in its command."""

    step: Step
    guesses: Mapping[str, str]
    through: tuple[str, ...]
    beside: tuple[str, ...]
    inputs: tuple[Entry, ...]
    outputs: tuple[Entry, ...]
    command: Command
    asks: frozenset[str]
    places_of_files: tuple[str, ...]
    has_own_files: bool
    """It is done to files, and not to what a step is done to."""
    notes: tuple[str, ...]
    condition: Condition | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of its values."""
        return tuple(self.guesses)

    @property
    def asks_for_inputs(self) -> bool:
        return any(place.startswith("input") for place in self.places_of_files)


def entries(step: str, files: Files, guesses: Mapping[str, str]) -> tuple[Entry, ...]:
    guesses = {"name": "*", "stem": "*", **guesses}
    return tuple(Entry(name, text, step, guesses) for name, text in by_name(files).items())


def prepare(step: Step, guesses: Mapping[str, str], steps: Collection[str], problems: Problems) -> Prepared:
    """`steps` are all there are. What is wrong with the places of this one is among the problems."""
    return _Preparation(step, guesses, steps, problems).done()


def _pieces(text: str, step: str) -> tuple[Piece, ...]:
    return braces.with_step(braces.parse(text), step)


class _Preparation:
    def __init__(self, step: Step, guesses: Mapping[str, str], steps: Collection[str], problems: Problems) -> None:
        self._step = step
        self._guesses = guesses
        self._steps = steps
        self._place = f"steps.{step.name}"
        self._problems = problems
        self._asked: set[str] = set()
        self._notes: list[str] = []
        self._inputs: tuple[Entry, ...] = ()
        self._outputs: tuple[Entry, ...] = ()
        self._through = step.needs if step.each is None else ()
        if step.collect or step.each in steps:
            fans = (step.each,) if step.each is not None and step.each in steps else ()
            self._through = tuple(dict.fromkeys((*fans, *step.collect)))

    def done(self) -> Prepared:
        step = self._step
        self._inputs, self._outputs = self._entries("inputs", step.inputs), self._entries("outputs", step.outputs)
        command = self._command()
        self._check_outputs(self._outputs)
        return Prepared(
            step=step, guesses=self._guesses, through=self._through, beside=self._beside(), inputs=self._inputs,
            outputs=self._outputs,
            command=command, asks=frozenset(self._asked),
            places_of_files=tuple(sorted(filter(is_of_files, self._asked))) if self._asked else (),
            has_own_files="file" in self._guesses and step.each not in self._steps, notes=tuple(self._notes),
            condition=self._condition(),
        )  # fmt: skip

    @cached_property
    def _values(self) -> tuple[str, ...]:
        return (*self._guesses, *(OF_FILE if "file" in self._guesses else ()), "step")

    @cached_property
    def _places(self) -> tuple[str, ...]:
        """All that there are in its command."""
        return (*self._values, *self._places_of_inputs(self._inputs), *self._places_of_outputs(self._outputs))

    def _beside(self) -> tuple[str, ...]:
        if not self._asked:
            return ()
        own = {entry.name for entry in self._inputs} if self._inputs else {*self._through}
        steps = dict.fromkeys((*self._through, *self._step.needs))
        return tuple(each for each in steps if each not in own and f"inputs.{each}" in self._asked)

    def _entries(self, key: str, files: Files) -> tuple[Entry, ...]:
        if not files:
            return ()
        for text in by_name(files).values():
            self._check(key, text, braces.parse(text))
        return entries(self._step.name, files, self._guesses)

    def _condition(self) -> Condition | None:
        if self._step.when is None:
            return None
        place = f"{self._place}.when"
        try:
            condition = conditions.read(self._step.when, self._steps)
        except InvalidInput as error:
            self._problems.add(place, error.message, error.hint)
            return None
        for name in condition.values:
            if name not in self._values:
                self._problems.add(place, f"{name} is no value of it", conditions.instead_of(name, self._values))
        return condition

    def _command(self) -> Command:
        step = self._step
        if isinstance(step.command, str):
            shell = ShellCommand(self._read("command", step.command))
            for name in shell.escaped:
                instead = f"leave it out, or write {{{{{name}}}}} if it is text"
                self._problems.add(f"{self._place}.command", f"a backslash stands before {{{name}}}", instead)
            return shell
        if step.command is not None:
            return ListCommand([self._read("command", each) for each in step.command])
        single = {"input", "output", *(f"outputs.{entry.name}" for entry in self._outputs)}
        single.update(f"inputs.{entry.name}" for entry in self._inputs if not entry.is_pattern)
        many = [place for place in self._places if is_of_files(place) and place not in single]
        return FunctionCall(step.function or "", step.args, lambda text: self._read("args", text), many)

    def _read(self, key: str, text: str) -> tuple[Piece, ...]:
        pieces = braces.parse(text)
        if "{" in text:
            self._check(key, text, pieces)
            pieces = braces.with_step(pieces, self._step.name)
            self._asked.update(braces.slots(pieces))
        return pieces

    def _check(self, key: str, text: str, pieces: tuple[Piece, ...]) -> None:
        place, is_file = f"{self._place}.{key}", key in ("inputs", "outputs")
        known = self._values if is_file else self._places
        for name in braces.slots(pieces):
            if name not in known and not self._is_number_of_input(name, known):
                self._problems.add(place, *_objection(name, known, is_file=is_file))
        for name in braces.variables(text) if "${" in text else ():
            if name in known:
                self._notes.append(f"{place}: ${{{name}}} is a variable of the shell; the value is {{{name}}}")

    def _is_number_of_input(self, name: str, known: tuple[str, ...]) -> bool:
        """Inputs that are not listed have numbers, too."""
        return not self._step.inputs and "inputs" in known and name.removeprefix("inputs.").isdecimal()

    def _places_of_inputs(self, inputs: tuple[Entry, ...]) -> Iterator[str]:
        if inputs or self._through or "file" in self._guesses:
            yield from ("input", "inputs")
        named = (*(entry.name for entry in inputs), *self._through, *self._step.needs)
        yield from dict.fromkeys(f"inputs.{each}" for each in named)

    def _places_of_outputs(self, outputs: tuple[Entry, ...]) -> Iterator[str]:
        if outputs:
            yield from ("output", "outputs", *(f"outputs.{entry.name}" for entry in outputs))

    def _check_outputs(self, outputs: tuple[Entry, ...]) -> None:
        if not outputs:
            return
        place = f"{self._place}.{'args' if self._step.command is None else 'command'}"
        if "output" in self._asked and len(outputs) > 1:
            what = f"{{output}} is one file, and there are {len(outputs)}"
            self._problems.add(place, what, f"write {{outputs}}, or {{outputs.{outputs[0].name}}}")
        for entry in outputs:
            asked = {"output", "outputs", f"outputs.{entry.name}"} & self._asked
            if entry.is_pattern and asked:
                what = f"{{{min(asked)}}} is a pattern, and no file"
                self._problems.add(place, what, "write into the command which files it makes")


def _objection(name: str, known: Collection[str], *, is_file: bool) -> tuple[str, str]:
    """What is wrong with a place that is not known, and what to write instead."""
    missing = _MISSING.get(name)
    if missing is not None and not is_file:
        return f"there is nothing for {{{name}}}", missing
    near = nearest(name, known)
    meant = f"did you mean {{{near}}}?" if near else f"known: {', '.join(f'{{{each}}}' for each in known)}."
    return f"{{{name}}} is not known here", f"{meant} If it is text, write {{{{{name}}}}}"


_MISSING = {
    **dict.fromkeys(("input", "inputs"), "write `inputs: PATH`, or `each: STEP`"),
    **dict.fromkeys(("output", "outputs"), "write `outputs: PATH`"),
    **dict.fromkeys(OF_FILE, "write `each:` with a pattern of files"),
}
