"""From words typed to a specification: sizes, times, pairs, scripts, lines of a file."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from turnout.client.layout import Layout
from turnout.errors import InvalidInput, NotFound, TurnoutError, about
from turnout.model.ids import check_env_key, check_tag_key
from turnout.model.measures import parse_seconds, parse_size
from turnout.model.spec import CommandKind, Retry, RunSpec
from turnout.pipeline.plan import CALL

N = TypeVar("N", int, float)
_ARGUMENTS = "$RUN_ARGS$"
#: The program that calls a function. It is not imported: it is sent to where that is called.
_CALLING = Path(__file__).parents[1] / "track" / "call.py"
_BELL = "bell"


def size(text: str) -> int:
    """The bytes that ``--memory`` names."""
    return _positive(_read(parse_size, "--memory", text, "write 500M or 4G"), "--memory", text)


def seconds(text: str) -> float:
    """The seconds that ``--time`` names."""
    return _positive(_read(parse_seconds, "--time", text, "write 90s, 15m, 2h or 1:30:00"), "--time", text)


def _read(parse: Callable[[str], N], option: str, text: str, hint: str) -> N:
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {error}", hint=hint) from error


def _positive(number: N, option: str, text: str) -> N:
    if number <= 0:
        raise InvalidInput(f"{option} {text!r} is nothing", hint=f"give more, or leave {option} out for no limit")
    return number


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """``["a=1", "b=2"]`` of --tag or --env; a bare --env NAME takes the value of this environment."""
    check = check_tag_key if option == "--tag" else check_env_key
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        check(key)
        if not equals and option == "--env":
            if key not in os.environ:
                raise InvalidInput(f"--env {key}: no such variable here", hint=f"write --env {key}=VALUE")
            value = os.environ[key]
        found[key] = value
    return found


def retry(text: str) -> Retry:
    """A number, or ``never``: at most once, whatever happens."""
    if text == "never":
        return Retry(failures=0, losses=0)
    if not (text.isascii() and text.isdigit()):
        raise InvalidInput(f"--retry {text!r} is neither a number nor 'never'", hint="write --retry 2 or --retry never")
    return Retry(failures=int(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class What:
    """What is to be executed: `kind`, the run script if there is one, and the runs."""

    kind: CommandKind
    display: tuple[str, ...]
    runs: tuple[RunSpec, ...]
    script: str | None = None
    script_path: str | None = None


def understand(
    command: list[str],
    multi: Path | None,
    here: Layout,
    listed: Sequence[str] = (),
    several: Sequence[Sequence[str]] = (),
) -> What:
    """Script, Python file or command; with a `multi` file a run per line: whole commands, or arguments of `command`.

    `listed` are the lines that the settings have for when nothing is asked for here; `several` are commands that were
    given as lists, a run each.
    """
    if several and several[0][0] == CALL:
        return _called(several, here)
    if several:
        with about("command"):
            return _whole(dict(enumerate(map(list, several), 1)), "commands" if len(several) > 1 else "", here)
    if command and multi is None:
        return _single(command, [command[1:]], here)
    if multi is None and not listed:
        hint = "write `turnout run COMMAND [ARGS…]`, give a file with --multi, or list `commands:` in turnout.yaml"
        raise InvalidInput("no command", hint=hint)
    source = "commands" if multi is None else str(multi)
    lines = _lines(multi) if multi is not None else _split("\n".join(listed), source)
    if command:
        return _single(command, [[*command[1:], *line] for line in lines.values()], here)
    first = {line[0] for line in lines.values()}
    if len(first) == 1 and _is_script(next(iter(first))):
        return _single([next(iter(first))], [line[1:] for line in lines.values()], here)
    return _whole(lines, source, here)


def _whole(lines: dict[int, list[str]], source: str, here: Layout) -> What:
    """Each line is a command of its own. Errors say which of the `source`, if that is something people know."""
    whole = []
    programs: set[str] = set()  # that were looked for already
    for number, line in lines.items():
        try:
            whole.append(RunSpec(argv=tuple(line if line[0] in programs else _as_command(line, here))))
        except TurnoutError as error:
            where = f"{source}:{number}: " if source else ""
            raise type(error)(f"{where}{error.message}", hint=error.hint) from error
        if tuple(line) == whole[-1].argv:
            programs.add(line[0])
    return What(kind=CommandKind.COMMAND, display=("--multi", source), runs=tuple(whole))


def _single(command: list[str], arguments: list[list[str]], here: Layout) -> What:
    name = command[0]
    if name == CALL:
        return _called([[name, *each] for each in arguments], here)
    display = tuple(command)
    runs = tuple(RunSpec(argv=tuple(each)) for each in arguments)
    if name.endswith(".sh"):
        path = here.in_tree(name)
        return What(kind=CommandKind.SCRIPT, display=display, runs=runs, script=_text(name, here), script_path=path)
    if name.endswith(".py"):
        return What(kind=CommandKind.PYTHON, display=display, runs=runs, script=python_script(name, here))
    if name.endswith(".bat"):
        if not here.is_windows:
            what = f"{name} is a Windows script, and this target is not Windows"
            raise InvalidInput(what, hint="write a .sh run script")
        start = ("cmd", "/c", here.from_working_dir(here.in_tree(name)))
        batch = tuple(RunSpec(argv=(*start, *run.argv)) for run in runs)
        return What(kind=CommandKind.COMMAND, display=display, runs=batch)
    argv = _as_command(command, here)
    return What(
        kind=CommandKind.COMMAND, display=display, runs=tuple(RunSpec(argv=(argv[0], *run.argv)) for run in runs)
    )


def _called(calls: Sequence[Sequence[str]], here: Layout) -> What:
    """Functions, by a run script that has the program which calls them."""
    program = _CALLING.read_text(encoding="utf-8")
    return What(
        kind=CommandKind.PYTHON, display=(_python(here), *(calls[0] if len(calls) == 1 else calls[0][:2])),
        runs=tuple(RunSpec(argv=tuple(each)) for each in calls),
        script=_script("call a function", f"-c {shlex.quote(program)}", here),
    )  # fmt: skip


def parent_script(name: str | None, here: Layout) -> tuple[str | None, str | None]:
    """The text of a parent script and where it lies (None: made by us); neither when there is none."""
    if name is None:
        return None, None
    if name.endswith(".sh"):
        path = here.in_tree(name)
        return _text(name, here), path
    if name.endswith(".py"):
        return python_script(name, here), None
    raise InvalidInput(f"{name} is neither a .sh nor a .py file", hint="give a script with --parent-script")


def _is_script(name: str) -> bool:
    return name.endswith((".sh", ".py"))


def _as_command(line: list[str], here: Layout) -> list[str]:
    """An argv whose program exists: found now, so that a typing error is told at once and not by a failed run."""
    name = line[0]
    if not name:
        raise InvalidInput("an empty command", hint="write `turnout run COMMAND [ARGS…]`")
    if name.endswith(".py"):
        return [_python(here), "-u", here.from_working_dir(here.in_tree(name)), *line[1:]]
    if name.endswith(".sh"):
        return _as_bash(here.from_working_dir(here.in_tree(name)), _text(name, here), line[1:])
    if not here.has_programs:
        return line
    if "/" in name:
        if not (here.cwd / name).exists():
            raise NotFound(f"no program {name!r} in {here.cwd}", hint="check the path")
    elif shutil.which(name) is None:
        near = f"; did you mean ./{name}?" if (here.cwd / name).exists() else ""
        raise NotFound(
            f"no command {name!r}{near}", hint="check the spelling, or give the path of a script in this directory"
        )
    return line


def _as_bash(path: str, text: str, arguments: list[str]) -> list[str]:
    """A run script among other commands: what would be filled in when it is put in place is filled in here."""
    if _ARGUMENTS not in text:
        return ["bash", path, *arguments]
    return ["bash", "-c", text.replace(f'"{_ARGUMENTS}"', '"$@"').replace(_ARGUMENTS, '"$@"'), path, *arguments]


def _text(name: str, here: Layout) -> str:
    try:
        return (here.cwd / name).read_text(encoding="utf-8")
    except UnicodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 text", hint="save it as UTF-8, or run it as: bash " + name) from error
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}", hint="make it readable (chmod u+r)") from error


def python_script(name: str, here: Layout) -> str:
    """The run script for a Python file: its environment, then ``python -u``."""
    path = here.in_tree(name)
    return _script(f"run {path}", shlex.quote(here.from_working_dir(path)), here)


def _script(purpose: str, program: str, here: Layout) -> str:
    lines = ["#!/usr/bin/env bash", f"# made by turnout to {purpose}", *here.activation]
    lines.append(f"exec {_python(here)} -u {program} {_ARGUMENTS}")
    return "\n".join(lines) + "\n"


def _python(here: Layout) -> str:
    if here.python is not None:
        return here.python
    if shutil.which(python_here()) is None:
        raise NotFound("no python here", hint="activate an environment that has one")
    return python_here()


def python_here() -> str:
    """The command that starts Python in this shell."""
    return "python" if shutil.which("python") else "python3"


def _lines(path: Path) -> dict[int, list[str]]:
    """The lines of a --multi file by their number, split as a shell would; empty ones and comments left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidInput(f"--multi {path}: {why}", hint="give a text file with one command per line") from error
    return _split(text, str(path))


def _split(text: str, path: str) -> dict[int, list[str]]:
    lines: dict[int, list[str]] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if "\0" in line:
            raise InvalidInput(f"{path}:{number}: a NUL byte", hint="give a text file with one command per line")
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InvalidInput(f"{path}:{number}: {str(error).lower()}", hint="quote it as in a shell") from error
        if words:
            lines[number] = words
    if not lines:
        raise InvalidInput(f"{path} has no commands", hint="write one command per line")
    return lines


def notice(text: str | None) -> str | None:
    """What is to happen when the job is over. InvalidInput for a word that is nearly ``bell``, and no command."""
    if text is None or text == _BELL:
        return text
    import difflib  # only who has something run pays for it

    if difflib.get_close_matches(text.lower(), [_BELL]) and shutil.which(text) is None:
        hint = "write --notify bell; a command is found on your PATH, or has a path: ./ring"
        raise InvalidInput(f"--notify {text}: there is no such command; did you mean bell?", hint=hint)
    return text
