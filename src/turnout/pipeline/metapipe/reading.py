"""The sections of a file, and what their lines are."""

from __future__ import annotations

import re

from turnout.errors import InvalidInput
from turnout.model.likeness import nearest
from turnout.pipeline.metapipe.file import Command, Entry, File, Spot
from turnout.pipeline.metapipe.problem import place, problem, shown, together
from turnout.pipeline.metapipe.statement import Statement

_SECTIONS = ("commands", "paths", "files", "job_options", "options")
# `[ -f x ] && …` and `[ x ]` are commands: a shell needs the blanks, and only sections we know may have them.
_HEADER = re.compile(r"\[(\s*)([A-Za-z_]+)(\s*)\]\s*(?:#.*)?")
_HALF = re.compile(rf"\[(?:{'|'.join(_SECTIONS)})(?:\]|\s*\Z)", re.IGNORECASE)
_GOES_ON = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")
_NEARLY = re.compile(r"(?<!\\)(?:\\\\)*\\[ \t]+\Z")


def parse(text: str, name: str) -> File:
    """The file that `text` is; `name` is what messages call it. Raises InvalidInput that names every problem, each as
    ``name:line:column: expected …``."""
    at = text.find("\0")
    if at >= 0:
        spot = Spot(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        raise problem(place(name, spot), "expected text, found a NUL character", "take it out")
    return _Reading(name, text).file()


class _Reading:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
        self._at = 0
        self._section: str | None = None
        self._headers: dict[str, Spot] = {}
        self._comments: list[str] = []
        self._count = 0
        self._commands: list[Command] = []
        self._entries: dict[str, dict[str, Entry]] = {"files": {}, "paths": {}}
        self._options: dict[str, list[str]] = {"job_options": [], "options": []}
        self._notes: list[str] = []
        self._problems: list[InvalidInput] = []

    def file(self) -> File:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            try:
                self._line(line)
            except InvalidInput as error:
                self._problems.append(error)
        if not self._count and not self._problems:
            self._problems.append(self._no_command())
        if self._problems:
            raise together(self._problems)
        return File(
            name=self._name, commands=tuple(self._commands), files=self._entries["files"], paths=self._entries["paths"],
            job_options=tuple(self._options["job_options"]), options=tuple(self._options["options"]),
            notes=tuple(self._notes),
        )  # fmt: skip

    def _line(self, line: str) -> None:
        bare = line.strip()
        spot = Spot(self._at, len(line) - len(line.lstrip()) + 1)
        header = _section_of(bare)
        if header is not None:
            self._begin(header, spot)
        elif _HALF.match(bare):
            self._half(bare, spot)
        elif bare and self._section in self._options:
            self._options[self._section].append(line)
        elif bare.startswith("#"):
            self._comments += [bare] * (self._section == "commands")
        elif bare:
            self._statement(Statement(self._name, spot, line.lstrip()))

    def _statement(self, statement: Statement) -> None:
        if self._section == "commands":
            self._command(self._whole(statement))
        elif self._section in self._entries:
            self._entry(self._section, statement)
        elif self._section is None:
            self._section = "preamble"  # said once
            hint = "begin with a line [COMMANDS]"
            raise statement.problem(0, f"expected a section, found {shown(statement.text.split()[0])}", hint)

    def _begin(self, section: str, spot: Spot) -> None:
        where = place(self._name, spot)
        if section not in _SECTIONS:
            near = nearest(section, _SECTIONS)
            meant = f"; did you mean [{near.upper()}]?" if near else ""
            self._notes.append(f"{where}: section [{shown(section)}] is not known, and left out{meant}")
        elif section in self._headers:
            first = self._headers[section].line
            self._notes.append(f"{where}: [{section.upper()}] goes on from line {first}; Metapipe would drop that part")
        self._headers.setdefault(section, spot)
        self._section = section

    def _half(self, bare: str, spot: Spot) -> None:
        name, bracket, rest = bare.partition("]")
        at = Spot(spot.line, spot.column + (len(bare) - len(rest.lstrip()) if bracket else len(name)))
        expected = "the end of the line" if bracket else "]"
        found = shown(rest.split()[0]) if bracket else "the end of the line"
        what = f"expected {expected}, found {found}"
        raise problem(place(self._name, at), what, f"write {name}] in a line of its own")

    def _command(self, statement: Statement) -> None:
        self._count += 1
        comments, self._comments = tuple(self._comments), []
        if _NEARLY.search(statement.text):
            self._notes.append(
                f"{place(self._name, statement.spot)}: there are blanks behind the last \\, so the line does not go on"
            )
        parts = statement.command()
        self._commands.append(Command(number=self._count, spot=statement.spot, parts=parts, comments=comments))

    def _whole(self, statement: Statement) -> Statement:
        """The statement with the lines that continue it."""
        lines = [statement.text]
        while _GOES_ON.search(lines[-1]):
            following = self._lines[self._at] if self._at < len(self._lines) else ""
            if not following.strip() or _section_of(following.strip()) is not None:
                at = len("\n".join(lines)) - 1
                raise statement.problem(at, "expected the rest of the command behind \\", "take the \\ out")
            lines.append(following)
            self._at += 1
        return Statement(self._name, statement.spot, "\n".join(lines))

    def _entry(self, section: str, statement: Statement) -> None:
        alias, entry = statement.file() if section == "files" else statement.path()
        first = self._entries[section].setdefault(alias, entry)
        if first is not entry:
            hint = "keep one of the two lines" if section == "paths" else "give each file an alias of its own"
            raise statement.problem(0, f"{shown(alias)} is there already, in line {first.spot.line}", hint)

    def _no_command(self) -> InvalidInput:
        spot = self._headers.get("commands", Spot(1, 1))
        what = "a command in [COMMANDS]" if "commands" in self._headers else "a section [COMMANDS]"
        hint = (
            "write commands below it, one in a line" if "commands" in self._headers else "add it, with commands in it"
        )
        return problem(place(self._name, spot), f"expected {what}", hint)


def _section_of(bare: str) -> str | None:
    """The section that a line begins, in small letters; None when it is no header."""
    header = _HEADER.fullmatch(bare)
    if header is None:
        return None
    section = header[2].lower()
    return section if section in _SECTIONS or not header[1] + header[3] else None
