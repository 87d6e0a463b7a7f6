"""Changing one entry of a settings file that a person wrote: every other byte of it, comments too, stays.

What is written is read again before it takes the file's place; a file whose form is too unusual to be changed is left
as it is, and the person told what to write.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turnout.config import document
from turnout.config.document import Document, Node, Table
from turnout.errors import Conflict, InvalidInput, Unavailable

Entry = Mapping[str, object]


def put(file: Path, section: str, name: str, entry: Entry) -> None:
    """The named entry of the section is this one from now on, on the disk; Conflict when there is one already."""
    _change(file, section, name, lambda text: with_entry(text, section, name, entry))


def remove(file: Path, section: str, name: str) -> None:
    """There is no such entry in the section any more. Conflict where that cannot be done."""
    _change(file, section, name, lambda text: without_entry(text, section, name))


def with_entry(text: str, section: str, name: str, entry: Entry) -> str:
    """The text with that entry at the end of the section, which is added at the end where there is none."""
    said = f"{_written(name)}: {_written(dict(entry))}"
    found = _section(text, section)
    if found is None:
        start = text if not text or text.endswith("\n") else text + "\n"
        return f"{start}{section}:\n  {said}\n"
    _, value = found
    if not hasattr(value, "flow_style"):  # nothing, or a word for it
        lines = text.splitlines(keepends=True)
        title = lines[value.end_mark.line].replace(value.value, "", 1) if value.value else lines[value.end_mark.line]
        lines[value.end_mark.line] = f"{title.rstrip()}\n  {said}\n"
        return "".join(lines)
    if value.flow_style:
        end = value.end_mark.index - 1
        before = text[:end].rstrip()
        return f"{before}{'' if before.endswith(('{', ',')) else ', '}{said}{text[end:]}"
    lines = text.splitlines(keepends=True)
    after = _last_line(value) + 1
    if not lines[after - 1].endswith("\n"):
        lines[after - 1] += "\n"
    lines.insert(after, " " * value.start_mark.column + said + "\n")
    return "".join(lines)


def without_entry(text: str, section: str, name: str) -> str:
    """The text without that entry, and without the section if nothing else is in it. KeyError when it is not there."""
    found = _section(text, section)
    pairs = found[1].value if found is not None and hasattr(found[1], "flow_style") else []
    number = next((at for at, (key, _) in enumerate(pairs) if key.value == name), None)
    if found is None or number is None:
        raise KeyError(name)
    title, value = found
    lines = text.splitlines(keepends=True)
    if len(pairs) == 1:
        first, last = title.start_mark.line, _last_line(value)
        return "".join(
            lines[:first] + [each for each in lines[first + 1 : last] if _is_comment(each)] + lines[last + 1 :]
        )
    if not value.flow_style:
        key, entry = pairs[number]
        return "".join(lines[: key.start_mark.line] + lines[_last_line(entry) + 1 :])
    start, end = pairs[number][0].start_mark.index, pairs[number][1].end_mark.index
    if number + 1 < len(pairs):
        end = pairs[number + 1][0].start_mark.index
    else:
        start = pairs[number - 1][1].end_mark.index
    return text[:start] + text[end:]


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _section(text: str, section: str) -> tuple[Any, Any] | None:
    """The nodes of its title and its value, which know where they stand."""
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None  # nothing that is there can be recognised; who compares afterwards refuses
    return next(((key, value) for key, value in getattr(root, "value", ()) if key.value == section), None)


def _last_line(node: Any) -> int:
    """The last on which something of it stands. A block ends where the next thing begins, so its parts are asked."""
    if isinstance(node.value, list) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    mark = node.end_mark
    return int(mark.line if mark.column or mark.line == node.start_mark.line else mark.line - 1)


def _written(value: object) -> str:
    import yaml

    text = str(yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=1 << 20))
    return text.removesuffix("\n").removesuffix("\n...")


def _change(file: Path, section: str, name: str, edit: Callable[[str], str]) -> None:
    try:
        target = file.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent):
            before = target.read_text(encoding="utf-8") if target.exists() else ""
            after = _edited(file, before, section, name, edit)
            _replace(target, after)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text", hint="save it as UTF-8") from error
    except OSError as error:
        hint = "make it a file that you can write"
        raise Unavailable(f"{file} cannot be written: {error.strerror}", hint=hint) from error


def _edited(file: Path, before: str, section: str, name: str, edit: Callable[[str], str]) -> str:
    """What the file is to be, if all else in it is as it was."""
    by_hand = f"change {section}.{name} in {file} by hand"
    old = document.parse(str(file), before)
    if old.problems:
        raise InvalidInput(f"{old.problems[0]}", hint="`turnout config check` tells all that is wrong")
    is_there = name in _entries(old, section)
    try:
        after = edit(before)
    except KeyError as error:
        raise Conflict(
            f"no {section}.{name} in {file}", hint="`turnout config show --origin` tells where it is"
        ) from error
    new = document.parse(str(file), after)
    if is_there and name in _entries(new, section):
        raise Conflict(f"{section}.{name} is there already, in {file}", hint="remove it first, or choose another name")
    if new.problems or _shape(new, section, name) != _shape(old, section, name):
        raise Conflict(f"{file} is written in a way that cannot be changed safely", hint=by_hand)
    return after


def _entries(found: Document, section: str) -> Mapping[str, Node]:
    table = found.root.entries.get(section)
    return table.entries if isinstance(table, Table) else {}


def _shape(found: Document, section: str, name: str) -> object:
    """All of it but this entry, and without lines."""
    rest = {each: _plain(node) for each, node in found.root.entries.items() if each != section}
    return rest, {each: _plain(node) for each, node in _entries(found, section).items() if each != name}


def _plain(node: Node) -> object:
    if isinstance(node, Table):
        return {name: _plain(each) for name, each in node.entries.items()}
    return [_plain(each) for each in node.items] if isinstance(node, document.Items) else (node.text, node.plain)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two that change a file there at once do so one after the other."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _replace(target: Path, text: str) -> None:
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o600
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, target)
    finally:
        fresh.unlink(missing_ok=True)
