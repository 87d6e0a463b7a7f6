"""Running something again: what was frozen then, with the environment of now."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnout import config as configuration
from turnout.client import own_code
from turnout.client.preparing import Prepared, served, surroundings, with_secrets
from turnout.errors import InvalidInput, NotFound
from turnout.home import Home
from turnout.model.ids import check_label
from turnout.model.plain import build
from turnout.model.spec import JobSpec
from turnout.spec.check import check

TAG = "rerun-of"
_COMMENT = "#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What is to differ from the first time. `arguments` of None = the same; `target` of None = the same."""

    arguments: Sequence[str] | None = None
    target: str | None = None
    env: Mapping[str, str] | None = None


def prepare(told: Mapping[str, Any], changes: Changes, home: Home, cwd: Path) -> Prepared:
    """The job to submit, with the environment and the settings of here and now.

    InvalidInput when a variable that was set for the run has no value here now; NotFound when the settings have no
    target any more that a search went to as well.
    """
    settings = configuration.settings_at(cwd, home)
    spec = _respecify(told, changes, settings.general)
    target = served(spec.target, settings) if spec.target in settings.targets else None
    others = tuple(_other(each.target, settings) for each in spec.also)
    is_here = target is not None and all(each.service == "local" for each in (target, *(other[1] for other in others)))
    spec = replace(spec, inherited_env=surroundings(settings.general, is_here=is_here))
    spec = with_secrets(spec, home, is_here=is_here)
    check(spec)
    own = own_code.named(target.service, settings) if target is not None else None
    return Prepared(spec, None, target, own, others)


def _other(
    name: str, settings: configuration.Config
) -> tuple[str, configuration.TargetSettings, own_code.OwnCode | None]:
    """A further target of a search."""
    if name not in settings.targets:
        raise NotFound(f"no target {name!r}", hint="give it --target, and it goes there alone")
    target = served(name, settings)
    return name, target, own_code.named(target.service, settings)


def _respecify(told: Mapping[str, Any], changes: Changes, general: configuration.General) -> JobSpec:
    spec = build(JobSpec, dict(told["spec"]))
    given = {**general.env_vars, **(changes.env or {})}
    lacking = [name for name in told["env_names"] if name not in given and name not in os.environ]
    if lacking:
        raise InvalidInput(
            f"{told['run']} was given {', '.join(lacking)}, which has no value here",
            hint=f"write --env {lacking[0]}=VALUE, or export it first",
        )
    env = {name: os.environ[name] for name in told["env_names"] if name not in given} | given
    if changes.target is not None:
        spec = replace(spec, target=check_label(changes.target, "target"), place=None, also=())
    spec = replace(spec, env=env, tags={**spec.tags, TAG: str(told["run"])})
    return spec if changes.arguments is None else with_arguments(spec, changes.arguments)


def command_of(spec: JobSpec) -> list[str]:
    """The command as a person wrote it: a script has its name in front of its arguments."""
    (run,) = spec.runs
    return [spec.display[0], *run.argv] if spec.script is not None else list(run.argv)


def with_arguments(spec: JobSpec, arguments: Sequence[str]) -> JobSpec:
    _check_no_search(spec)
    (run,) = spec.runs
    argv = tuple(arguments) if spec.script is not None else (*run.argv[:1], *arguments)
    changed = replace(spec, runs=(replace(run, argv=argv),))
    return replace(changed, display=tuple(command_of(changed)))


def with_command(spec: JobSpec, command: Sequence[str]) -> JobSpec:
    """InvalidInput for another script: it is part of what was frozen."""
    if not command:
        raise InvalidInput("no command", hint="nothing was submitted")
    _check_no_search(spec)
    if spec.script is None:
        (run,) = spec.runs
        return replace(spec, runs=(replace(run, argv=tuple(command)),), display=tuple(command))
    if command[0] != spec.display[0]:
        hint = f"keep {spec.display[0]} as the first word; `turnout run {command[0]} …` runs another"
        raise InvalidInput(f"a rerun of {spec.display[0]} cannot run {command[0]}", hint=hint)
    return with_arguments(spec, command[1:])


def _check_no_search(spec: JobSpec) -> None:
    """Its parameters stand in the command, or come behind it."""
    if spec.search is not None:
        hint = "leave the arguments and --edit out, rerun one of its runs, or start another search"
        raise InvalidInput("a search is run again as it was", hint=hint)


def _editor() -> list[str]:
    named = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
    if not named and not (sys.stdin.isatty() and sys.stdout.isatty()):
        hint = "set EDITOR, or give new arguments: turnout rerun RUN ARGUMENTS…; nothing was submitted"
        raise InvalidInput("nobody is here to edit the command", hint=hint)
    return named or ["vi"]


def edited(spec: JobSpec) -> JobSpec:
    """Opens the command in the user's editor; the job with what was made of it there. InvalidInput, NotFound when there
    is no editor, it fails, or it leaves no command."""
    editor = _editor()
    note = f"{_COMMENT} The command to run again, written as for a shell. Lines with {_COMMENT} are left out.\n"
    with tempfile.NamedTemporaryFile("w+", suffix=".sh", prefix="turnout-rerun-", encoding="utf-8") as file:
        file.write(note + shlex.join(command_of(spec)) + "\n")
        file.flush()
        try:
            code = subprocess.run([*editor, file.name], check=False).returncode
        except OSError as error:
            hint = "set EDITOR to one that is here"
            raise NotFound(f"no editor {editor[0]!r}: {error.strerror}", hint=hint) from error
        if code != 0:
            raise InvalidInput(f"{editor[0]} ended with exit code {code}", hint="nothing was submitted")
        with open(file.name, encoding="utf-8") as written:
            lines = [line for line in written if not line.lstrip().startswith(_COMMENT)]
    try:
        return with_command(spec, shlex.split("".join(lines)))
    except ValueError as error:
        raise InvalidInput(f"the command cannot be read: {str(error).lower()}", hint="nothing was submitted") from error
