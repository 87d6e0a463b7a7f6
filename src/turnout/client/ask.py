"""From words typed to a specification: sizes, times, pairs, scripts, lines of a file."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from turnout.errors import InvalidInput, NotFound, TurnoutError
from turnout.model.ids import check_env_key, check_tag_key
from turnout.model.spec import CommandKind, Retry, RunSpec

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\Z", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)\Z")
_CLOCK = re.compile(r"(?:(\d+)-)?(\d+):(\d{1,2})(?::(\d{1,2}))?\Z")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
N = TypeVar("N", int, float)
_ARGUMENTS = "$RUN_ARGS$"
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def size(text: str) -> int:
    """``500M``, ``4G``, ``4GiB``: bytes."""
    found = _SIZE.match(text.strip())
    if not found:
        raise InvalidInput(f"--memory {text!r} is not a size", hint="write 500M or 4G")
    return _positive(int(float(found[1]) * _UNITS[found[2].upper()]), "--memory", text)


def seconds(text: str) -> float:
    """``90s``, ``15m``, ``2h``, ``90``, ``1:30:00``, ``1-12:00:00``: seconds."""
    found = _SPAN.match(text.strip())
    if found:
        return _positive(float(found[1]) * _SECONDS[found[2]], "--time", text)
    clock = _CLOCK.match(text.strip())
    if not clock:
        raise InvalidInput(f"--time {text!r} is not a time", hint="write 90s, 15m, 2h or 1:30:00")
    days, first, second, third = (int(part or 0) for part in clock.groups())
    whole = first * 3600 + second * 60 + third if clock[4] is not None else first * 60 + second
    return _positive(float(days * 86400 + whole), "--time", text)


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


def understand(command: list[str], multi: Path | None, cwd: Path) -> What:
    """Script, Python file or command; with a `multi` file a run per line: whole commands, or arguments of `command`."""
    if not command and multi is None:
        raise InvalidInput("no command", hint="write `turnout run COMMAND [ARGS…]`, or give a file with --multi")
    if multi is None:
        return _single(command, [command[1:]], cwd)
    lines = _lines(multi)
    if command:
        return _single(command, [[*command[1:], *line] for line in lines.values()], cwd)
    first = {line[0] for line in lines.values()}
    if len(first) == 1 and _is_script(next(iter(first))):
        return _single([next(iter(first))], [line[1:] for line in lines.values()], cwd)
    whole = []
    for number, line in lines.items():
        try:
            whole.append(RunSpec(argv=tuple(_as_command(line, cwd))))
        except TurnoutError as error:
            raise type(error)(f"{multi}:{number}: {error.message}", hint=error.hint) from error
    return What(kind=CommandKind.COMMAND, display=("--multi", str(multi)), runs=tuple(whole))


def _single(command: list[str], arguments: list[list[str]], cwd: Path) -> What:
    name = command[0]
    display = tuple(command)
    runs = tuple(RunSpec(argv=tuple(each)) for each in arguments)
    if name.endswith(".sh"):
        path = _script(name, cwd)
        return What(kind=CommandKind.SCRIPT, display=display, runs=runs, script=_text(name, cwd), script_path=path)
    if name.endswith(".py"):
        return What(kind=CommandKind.PYTHON, display=display, runs=runs, script=python_script(_script(name, cwd)))
    if name.endswith(".bat"):
        raise InvalidInput(f"{name} is a Windows script, and this target is not Windows", hint="write a .sh run script")
    argv = _as_command(command, cwd)
    return What(
        kind=CommandKind.COMMAND, display=display, runs=tuple(RunSpec(argv=(argv[0], *run.argv)) for run in runs)
    )


def _is_script(name: str) -> bool:
    return name.endswith((".sh", ".py"))


def _as_command(line: list[str], cwd: Path) -> list[str]:
    """An argv whose program exists: found now, so that a typing error is told at once and not by a failed run."""
    name = line[0]
    if name.endswith(".py"):
        return [_python(), "-u", _script(name, cwd), *line[1:]]
    if name.endswith(".sh"):
        return _as_bash(_script(name, cwd), _text(name, cwd), line[1:])
    if "/" in name:
        if not (cwd / name).exists():
            raise NotFound(f"no program {name!r} in {cwd}", hint="check the path")
    elif shutil.which(name) is None:
        near = f"; did you mean ./{name}?" if (cwd / name).exists() else ""
        raise NotFound(
            f"no command {name!r}{near}", hint="check the spelling, or give the path of a script in this directory"
        )
    return line


def _as_bash(path: str, text: str, arguments: list[str]) -> list[str]:
    """A run script among other commands: what would be filled in when it is put in place is filled in here."""
    if _ARGUMENTS not in text:
        return ["bash", path, *arguments]
    return ["bash", "-c", text.replace(f'"{_ARGUMENTS}"', '"$@"').replace(_ARGUMENTS, '"$@"'), path, *arguments]


def _script(name: str, cwd: Path) -> str:
    """A script's path in the snapshot."""
    path = Path(os.path.normpath(cwd / name))
    if not path.is_relative_to(cwd):
        raise InvalidInput(f"{name} is outside {cwd}, which is what is frozen", hint=f"run this in {path.parent}")
    if not path.is_file():
        hint = "check the name; scripts are looked for in the current directory"
        raise NotFound(f"no script {name!r} in {cwd}", hint=hint)
    return path.relative_to(cwd).as_posix()


def _text(name: str, cwd: Path) -> str:
    try:
        return (cwd / name).read_text(encoding="utf-8")
    except UnicodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 text", hint="save it as UTF-8, or run it as: bash " + name) from error
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read: {error.strerror}", hint="make it readable (chmod u+r)") from error


def python_script(path: str) -> str:
    """The run script for a Python file: the environment active here, then ``python -u``."""
    lines = ["#!/usr/bin/env bash", f"# made by turnout to run {path}"]
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        prefix = os.environ.get(name)
        if prefix:
            lines.append(f"export {name}={shlex.quote(prefix)}")
            lines.append(f'export PATH={shlex.quote(os.path.join(prefix, "bin"))}:"$PATH"')
            break
    lines.append(f"exec {_python()} -u {shlex.quote(path)} $RUN_ARGS$")
    return "\n".join(lines) + "\n"


def _python() -> str:
    for name in ("python", "python3"):
        if shutil.which(name):
            return name
    raise NotFound("no python here", hint="activate an environment that has one")


def _lines(path: Path) -> dict[int, list[str]]:
    """The lines of a --multi file by their number, split as a shell would; empty ones and comments left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidInput(f"--multi {path}: {why}", hint="give a text file with one command per line") from error
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
