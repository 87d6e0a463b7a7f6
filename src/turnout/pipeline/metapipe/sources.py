"""What a name in braces stands for: files of the project, or what other commands leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.pipeline.metapipe.file import Command, Entry, File, Inputs, Item, Spot
from turnout.pipeline.metapipe.patterns import is_pattern, may_meet, plain
from turnout.pipeline.metapipe.problem import place, problem, shown
from turnout.pipeline.metapipe.template import Declared, Given, Leaving, Made, Matching, Named, Source, outputs_of
from turnout.pipeline.native.paths import clean

_MADE = re.compile(r"([0-9]{1,9})\.(?:([0-9]{1,9})|\*)(?:-([0-9]{1,9}))?")
_ALIAS = re.compile(r"[A-Za-z0-9]+")
_OURS = re.compile(r"mp\.([0-9]{1,9})\.([0-9]{1,9})(?:-[0-9]{1,9})?\.output.*", re.DOTALL)


class Sources:
    """Looks names up. `glob` gives the files of the project that match, sorted. `outputs` are what each step leaves;
    `notes` and `problems` grow with what was looked up."""

    def __init__(self, file: File, glob: Callable[[str], Sequence[str]]) -> None:
        self._file = file
        self._glob = glob
        self._used: set[str] = set()
        self.notes: list[str] = list(file.notes)
        self.problems: list[InvalidInput] = []
        self.outputs: dict[str, tuple[Leaving, ...]] = {
            str(command.number): outputs_of(file, command) for command in file.commands
        }
        self._declared: dict[str, list[str]] = {}  # a path or pattern -> the steps that say they leave it
        for step, output in self.declarations():
            self._declared.setdefault(output.pattern, []).append(step)
        self._guesses = {pattern: steps for pattern, steps in self._declared.items() if is_pattern(pattern)}

    def look_up(self, command: Command, inputs: Inputs, item: Item) -> Source:
        """What `item` of the command's `inputs` is. When it is nothing, that is one of `problems`."""
        try:
            return self._look_up(command, inputs, item)
        except InvalidInput as error:
            self.problems.append(error)
            return Given(())

    def note_unused(self) -> None:
        """Files that nothing reads need not be there; who wrote them may like to know."""
        for alias, entry in self._file.files.items():
            if alias not in self._used and not self._glob(entry.value):
                where = place(self._file.name, entry.spot)
                self.notes.append(f"{where}: {shown(entry.value)} does not exist; no command reads it")

    def declarations(self) -> Iterator[tuple[str, Declared]]:
        """What commands name themselves that they leave, each with its step."""
        for step, outputs in self.outputs.items():
            yield from ((step, output) for output in outputs if isinstance(output, Declared))

    def makers(self, path: str) -> Sequence[str]:
        """The steps that say they leave it: those one of whose runs gives it such a name, else those that name it."""
        named = self._named(path, "")
        return [named.step] if named is not None else self._declared.get(path, ())

    def _look_up(self, command: Command, inputs: Inputs, item: Item) -> Source:
        entry = self._file.files.get(item.text)
        if entry is not None:
            self._used.add(item.text)
            found = self._path(command, entry.value, entry.spot)
            if found is None:
                raise self._no_file(entry)
            return found
        made = _MADE.fullmatch(item.text)
        if made is not None:
            return self._made(item, int(made[1]), made[2], made[3])
        found = self._path(command, item.text, item.spot)
        if found is None:
            raise self._nothing(inputs, item)
        return found

    def _path(self, command: Command, path: str, spot: Spot) -> Source | None:
        own, where = str(command.number), place(self._file.name, spot)
        tidy = clean(path)
        written = tuple(step for step in self._declared.get(tidy, ()) if step != own)
        if written:
            return Matching(where, tidy if is_pattern(path) else path, written)  # a name stays as it is written
        named = self._named(path, where)
        if named is not None:
            return named
        found = self._given(path)
        may_leave = self._declarers(path)
        if not found and is_pattern(path):
            may_leave |= self._namers(path)
        makers = tuple(sorted(may_leave - {own}, key=int))
        if found and makers:
            self.notes.append(
                f"{where}: {shown(path)} is taken from the project, though command {makers[0]} may leave it, too;"
                f" write {{{makers[0]}.*}} for what that leaves"
            )
        if found:
            return Given(found, is_pattern(path))
        return Matching(where, path, makers) if makers else None

    def _given(self, path: str) -> tuple[str, ...]:
        """Files of the project. Patterns do not find those that are called as outputs are: they are left from an
        earlier time. What has an absolute path is read where it is, and not looked for before."""
        if path.startswith("/") and not is_pattern(path):
            return (plain(path),)
        found = self._glob(path)
        if is_pattern(path):
            found = [each for each in found if not _OURS.match(plain(each))]
        return tuple(found)

    def _named(self, path: str, where: str) -> Made | None:
        """The output of a run that has this name."""
        ours = _OURS.fullmatch(plain(path))
        if ours is None or is_pattern(path):
            return None
        step, run = ours[1], int(ours[2])
        for output in self.outputs.get(step, ()):
            if isinstance(output, Named) and output.of(run) == plain(path):
                return Made(where, step, run, output.pattern)
        return None

    def _declarers(self, path: str) -> set[str]:
        """The steps that say they leave files like this. A plain name is found among those that are written."""
        declared = self._declared if is_pattern(path) else self._guesses
        return {step for pattern, steps in declared.items() if may_meet(path, pattern) for step in steps}

    def _namers(self, pattern: str) -> set[str]:
        """The steps whose runs name outputs like this."""
        return {
            step
            for step, outputs in self.outputs.items()
            if any(isinstance(output, Named) and may_meet(pattern, output.pattern) for output in outputs)
        }

    def _made(self, item: Item, number: int, run: str | None, output: str | None) -> Made:
        where, step = place(self._file.name, item.spot), str(number)
        count = len(self._file.commands)
        if not 1 <= number <= count:
            known = "there is only command 1" if count == 1 else f"commands are 1 to {count}"
            raise problem(where, f"there is no command {number}", f"{known}; a file of that name is ./{item.text}")
        outputs = self.outputs[step]
        if not outputs:
            hint = "mark what it leaves, with > {o}, or with #{o:PATTERN} at its end"
            raise problem(where, f"command {number} has no output", hint)
        if output is not None and not 1 <= int(output) <= len(outputs):
            known = "one output" if len(outputs) == 1 else f"{len(outputs)} outputs"
            hint = f"the last is {number}.{run or '*'}-{len(outputs)}"
            raise problem(where, f"command {number} has {known}, and no {item.text}", hint)
        pattern = outputs[int(output) - 1].pattern if output is not None else ""
        return Made(where, step, None if run is None else int(run), pattern)

    def _no_file(self, entry: Entry) -> InvalidInput:
        what = "no file matches {}" if is_pattern(entry.value) else "there is no file {}"
        where = place(self._file.name, entry.spot)
        hint = "give its absolute path" if entry.value.startswith("../") else "bring it here"
        return problem(where, what.format(shown(entry.value)), f"{hint}, or correct this line of [FILES]")

    def _nothing(self, inputs: Inputs, item: Item) -> InvalidInput:
        where, text = place(self._file.name, item.spot), shown(item.text)
        doubled = f"braces of the command itself are doubled: {{{inputs.written}}}"
        if _ALIAS.fullmatch(item.text):
            near = nearest(item.text, self._file.files) if not item.text.isdigit() else None
            hint = f"did you mean {near}?" if near else f"add a line to [FILES]: {text}. PATH"
            return problem(where, f"{text} is no alias of [FILES], and no file", f"{hint}; {doubled}")
        what = f"no file matches {text}" if is_pattern(item.text) else f"there is no file {text}"
        hint = f"a command that leaves it says so: #{{o:{text}}}; {doubled}"
        if item.text.startswith(("/", "../")):
            is_absolute = item.text[0] == "/"
            hint = f"{'check the path' if is_absolute else 'give its absolute path, or bring it here'}; {doubled}"
        return problem(where, f"{what}, and no command leaves it", hint)
