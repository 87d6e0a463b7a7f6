"""A job with what was edited in a draft of it: commands, lines before them, variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from turnout.errors import ProviderError
from turnout.model.search import Search
from turnout.model.spec import CommandKind, JobSpec
from turnout.plugin.foreign import DraftRun
from turnout.wire.script import filled


def redrafted(spec: JobSpec, before: Sequence[DraftRun], after: Sequence[DraftRun]) -> JobSpec:
    """The job as the runs of its draft are now. What all runs have got in common is the job's; what differs is in
    their own commands. ProviderError for what a job cannot be."""
    pairs = _by_command(spec, list(zip(after, before, strict=True)))
    env, pairs = _shared_variables(pairs)
    lines = {tuple(now.before) for now, _ in pairs}
    keeps_script = spec.script is not None and all(now.command[0] == then.command[0] for now, then in pairs)
    if keeps_script and len(lines) == 1:
        commands = [tuple(now.command[1:]) for now, _ in pairs]
        spec = replace(spec, script=_in_front(spec.script or "", *lines))
    else:
        commands = [_as_command(spec, now, then) for now, then in pairs]
        spec = replace(spec, kind=CommandKind.COMMAND, script=None, script_path=None)
    is_edited = any(list(now.command) != list(then.command) for now, then in pairs)
    display = tuple(pairs[0][0].command) if is_edited and len(pairs) == 1 else spec.display
    runs = tuple(replace(run, argv=command) for run, command in zip(spec.runs, commands, strict=True))
    return replace(spec, runs=runs, display=display, env=env, search=_moved(spec, commands[0]))


def _moved(spec: JobSpec, command: Sequence[str]) -> Search | None:
    """Its search with the arguments that parameters take the place of where they are in the command now. One that is
    not there any more is appended."""
    search = spec.search
    if search is None or not search.slots:
        return search
    before = spec.runs[0].argv
    found = {name: command.index(before[at]) for name, at in search.slots.items() if before[at] in command}
    return replace(search, slots=found)


def _by_command(spec: JobSpec, pairs: list[tuple[DraftRun, DraftRun]]) -> list[tuple[DraftRun, DraftRun]]:
    """One pair for each command of the job, as it is now and as it was: nodes that share commands are edited alike."""
    if spec.nodes is None:
        return pairs
    (now, then), *others = pairs
    if any((each.command, each.before, each.env) != (now.command, now.before, now.env) for each, _ in others):
        hint = "edit the runs of all nodes alike, or submit a job for each"
        raise ProviderError(f"target {spec.target} wants other commands for each node of one job", hint=hint)
    if len(spec.runs) == 1:
        return [(now, then)]
    script = spec.display[:1] if spec.script is not None else ()
    each_then = [replace(then, command=[*script, *run.argv]) for run in spec.runs]
    return [(replace(each, before=now.before, env=now.env), each) for each in each_then]


def _as_command(spec: JobSpec, now: DraftRun, then: DraftRun) -> tuple[str, ...]:
    """What the run executes if it is a command of its own."""
    command = tuple(now.command)
    if spec.script is not None and command[0] == then.command[0]:
        command = ("bash", "-c", filled(spec.script), *command)
    return ("bash", "-c", "\n".join([*now.before, 'exec "$@"']), "bash", *command) if now.before else command


def _shared_variables(pairs: list[tuple[DraftRun, DraftRun]]) -> tuple[dict[str, str], list[tuple[DraftRun, DraftRun]]]:
    """The variables of the job, and its runs with lines that set what differs between them. Its value is a variable of
    the job, under a name for that run: a command can be read by others, variables cannot."""
    first, *others = (now for now, _ in pairs)
    env = {name: value for name, value in first.env.items() if all(run.env.get(name) == value for run in others)}
    common = frozenset(env)
    changed = []
    for number, (now, then) in enumerate(pairs):
        own = {name: f"TURNOUT_OF_{number}_{name}" for name in sorted(now.env) if name not in common}
        env |= {alias: now.env[name] for name, alias in own.items()}
        lines = [f'export {name}="${alias}"' for name, alias in own.items()]
        changed.append((replace(now, before=[*lines, *now.before]), then))
    return env, changed


def _in_front(script: str, lines: Sequence[str]) -> str:
    """The lines come first, behind the line that names the shell."""
    if not lines:
        return script
    first, _, rest = script.partition("\n")
    added = "".join(f"{line}\n" for line in lines)
    return f"{first}\n{added}{rest}" if first.startswith("#!") else f"{added}{script}"
