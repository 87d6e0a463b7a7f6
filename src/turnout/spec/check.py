"""Is this submission sound? All problems at once, before anything is written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator

from turnout.errors import InvalidInput
from turnout.model.container import PULLS
from turnout.model.ids import check_env_key, check_label, check_param_name, check_pattern, check_tag_key, target_of
from turnout.model.inputs import Action
from turnout.model.limits import check_amount
from turnout.model.search import LONGEST_SECONDS, MOST_AT_ONCE
from turnout.model.spec import CommandKind, JobSpec
from turnout.wire.long_words import LONGEST, shorten, size
from turnout.wire.manifest import BadManifest, check_path, is_digest

MOST_RUNS = 1_000_000
MOST_NODES = 10_000
_MOST_TARGETS = 100
#: Options of a container's ``run`` by which it is found and ended with its run; ``-itd`` is three in one.
_OURS = re.compile(r"--(name|cidfile|detach)(=.*)?|--rm=.*|-[itPq]*d.*", re.DOTALL)
_TOO_LARGE = 2**53  # from here on, a float is not every whole number
_INSTEAD = (
    "put large values into a file; in a step, a `command` that is a text takes any number of files:"
    " printf '%s\\n' {inputs} | xargs PROGRAM"
)


def check(spec: JobSpec) -> None:
    """Raises InvalidInput naming every problem."""
    problems = list(_problems(spec))
    if problems:
        first = problems[0]
        message = "; ".join(problem.message for problem in problems[:20])
        error = InvalidInput(message, hint=first.hint)
        error.key = first.key if all(problem.key == first.key for problem in problems) else None
        raise error


def _problems(spec: JobSpec) -> Iterator[InvalidInput]:
    for what, label in (("experiment", spec.experiment), ("workspace", spec.workspace), ("target", spec.target)):
        yield from _caught(check_label, label, what)
    if spec.place is not None and target_of(spec.place) != spec.target:
        yield InvalidInput(f"{spec.place!r} is no place of target {spec.target}", hint="ask the hub for it")
    for name in {spec.label, *(run.label for run in spec.runs)} - {None}:
        yield from _caught(check_label, str(name), "run name")
    for key in spec.tags:
        yield from _caught(check_tag_key, key)
    for key in (*spec.env, *spec.inherited_env):
        yield from _caught(check_env_key, key)
    yield from _named(spec)
    yield from _texts(spec)
    yield from _numbers(spec)
    yield from _about("search", _searched(spec))


def _about(key: str, problems: Iterable[InvalidInput]) -> Iterator[InvalidInput]:
    for each in problems:
        each.key = each.key or key
        yield each


def _searched(spec: JobSpec) -> Iterator[InvalidInput]:
    search = spec.search
    for each in spec.also:
        yield from _caught(check_label, each.target, "target")
        if each.place is not None and target_of(each.place) != each.target:
            yield InvalidInput(f"{each.place!r} is no place of target {each.target}", hint="ask the hub for it")
    if search is None:
        if spec.also:
            yield InvalidInput("only a search goes to several targets", hint="give one target")
        return
    if len(spec.runs) != 1 or spec.repeat != 1 or spec.total is not None or spec.nodes is not None:
        yield InvalidInput("a search has one command, and no --repeat, --nodes or --multi", hint="leave them out")
    targets = {spec.target, *(each.target for each in spec.also)}
    if len(spec.also) >= _MOST_TARGETS or len(targets) <= len(spec.also):
        yield InvalidInput(f"a search has up to {_MOST_TARGETS} targets, each once", hint="leave some out")
    for name in search.space:
        yield from _caught(check_param_name, name)
    yield from _caught(check_amount, search.space, "the parameters")
    for aim in search.aims:
        if aim.goal not in ("minimize", "maximize") or aim.of not in ("last", "min", "max") or not aim.metric:
            yield InvalidInput(f"{aim.metric!r} is no objective", hint="write --minimize METRIC or --maximize METRIC")
    if search.runs is not None and not 1 <= search.runs <= MOST_RUNS:
        yield InvalidInput(f"a search may have 1 to {MOST_RUNS} runs", hint="give another number to --runs")
    if search.whole and search.runs is not None and search.runs > MOST_AT_ONCE:
        hint = "leave `--schedule static` out: then they are made as nodes get free"
        yield InvalidInput(f"up to {MOST_AT_ONCE} runs are made at once, not {search.runs}", hint=hint)
    if search.seconds is not None and not 0 < search.seconds <= LONGEST_SECONDS:
        yield InvalidInput("the time of a search is more than nothing, up to 100 years", hint="give --max-time 2h")
    if search.failures < 0 or any(not 0 <= slot < len(spec.runs[0].argv) for slot in search.slots.values()):
        yield InvalidInput("not a search as a client of ours writes it", hint="submit it with `turnout search`")
    if search.stopper is not None and not search.aims:
        hint = "say which, with --minimize METRIC or --maximize METRIC"
        yield InvalidInput(f"the stopper {search.stopper!r} has no metric to look at", hint=hint)


def _named(spec: JobSpec) -> Iterator[InvalidInput]:
    """Parameters and tags: their names, how many they are, how much they are."""
    for name in sorted({name for run in spec.runs for name in run.params}):
        yield from _caught(check_param_name, name)
    yield from _caught(check_amount, spec.tags, "the tags")
    for number, run in enumerate(spec.runs, 1):
        if run.params:
            yield from _caught(check_amount, run.params, f"the parameters of run {number} of {len(spec.runs)}")


def _texts(spec: JobSpec) -> Iterator[InvalidInput]:
    if not all(map(_can_be_argument, (*spec.env.values(), *spec.inherited_env.values()))):
        yield InvalidInput("an environment value has a NUL byte or is over 128 kB", hint="put large values into a file")
    yield from _arguments(spec)
    texts = [spec.script or "", spec.notify or "", *spec.tags.values(), *spec.after]
    if not all(map(_is_text, texts)):
        yield InvalidInput("a tag, pattern, script or notice is not UTF-8 text", hint="save or write it as UTF-8")
    if spec.kind is CommandKind.PIPELINE:
        yield InvalidInput("a pipeline has steps, and is none of another", hint="submit it with `turnout pipeline`")
    if spec.kind is CommandKind.COMMAND and any(not run.argv or not run.argv[0] for run in spec.runs):
        yield InvalidInput("an empty command", hint="write `turnout run COMMAND [ARGS…]`")
    if spec.kind is not CommandKind.COMMAND and spec.script is None:
        yield InvalidInput("a run script without text", hint="send its text as `script`")
    if spec.before is not None and not is_digest(spec.before):
        yield InvalidInput("not a snapshot's digest", hint="send the digest of its manifest as `before`")
    yield from _surroundings(spec)


def _arguments(spec: JobSpec) -> Iterator[InvalidInput]:
    """Of a command, a text for a shell may be of any length: see `turnout.wire.long_words`."""
    if not all(map(_is_bytes, spec.display)):
        yield InvalidInput("an argument has a NUL byte", hint="put such values into a file")
    for run in spec.runs:
        if all(map(_can_be_argument, run.argv)):
            continue
        shortened = shorten(list(run.argv), "")
        words = run.argv if shortened is None else shortened.argv
        if not all(map(_is_bytes, run.argv)):
            yield InvalidInput("an argument has a NUL byte", hint="put such values into a file")
        elif not all(map(_can_be_argument, words)):
            longest = max(map(size, words))
            what = f"an argument has {longest:,} bytes, and Linux hands over up to {LONGEST:,} in one"
            yield InvalidInput(what, hint=_INSTEAD)


def _surroundings(spec: JobSpec) -> Iterator[InvalidInput]:
    """Data, model, setup, working directory: what a client of ours would not have sent."""
    for name, given in (("data", spec.data), ("model", spec.model)):
        if given is None:
            continue
        if (given.action is Action.NONE) != (given.manifest is None) or not is_digest(given.manifest or "0" * 64):
            yield InvalidInput(f"the {name} is not bound to files", hint=f"`turnout run --{name} SHARE` does that")
        if given.local is not None and not (_can_be_argument(given.local) and given.local.startswith("/")):
            yield InvalidInput(f"the directory of the {name} is not an absolute path", hint="begin it with /")
    if spec.setup is not None:
        lines = (*spec.setup.conda, *spec.setup.pip, spec.setup.python or "3")
        if not all(line.strip() and "\n" not in line and _is_text(line) for line in lines):
            yield InvalidInput(f"setup {spec.setup.name!r} has a package that is none", hint="name one in each entry")
        yield from _caught(check_label, spec.setup.name, "setup")
        if not _is_text(spec.setup.activate):
            what = f"the activate lines of setup {spec.setup.name!r} are not UTF-8 text"
            yield InvalidInput(what, hint="save turnout.yaml as UTF-8")
    yield from _about("docker", _container(spec))
    for pattern in spec.after:
        yield from _caught(check_pattern, pattern.removeprefix("!"))
    if spec.shared and (not spec.shared.startswith("/") or "\0" in spec.shared):
        yield InvalidInput(f"{spec.shared!r} is no absolute path", hint="give the directory as all nodes know it")
    for output in {each for run in spec.runs for each in run.outputs}:
        if not _is_path(posixpath.normpath(output)):
            yield InvalidInput(f"the output {output!r} leads out of the files of a run", hint="give a path below them")
    if spec.working_dir and not _is_path(spec.working_dir):
        yield InvalidInput(f"{spec.working_dir!r} leads out of the files of a run", hint="give a path below them")


def _container(spec: JobSpec) -> Iterator[InvalidInput]:
    given = spec.container
    if given is None:
        return
    words = (given.image, given.program or "", given.network or "", *given.options)
    if not given.image or given.image.startswith("-") or not all(map(_can_be_argument, words)):
        yield InvalidInput(f"{given.image!r} is no image", hint="write its name, as podman or docker take it")
    for option in filter(_OURS.fullmatch, given.options):
        what = f"docker: option {option} is turnout's own, which finds and ends a container by it"
        yield InvalidInput(what, hint="leave it out of `options:`")
    if given.pull not in PULLS:
        yield InvalidInput(f"an image is pulled {given.pull!r}?", hint=f"write one of {', '.join(PULLS)}")
    if spec.setup is not None and spec.setup.needs_environment:
        what = f"setup {spec.setup.name!r} installs packages, and the runs are in a container"
        yield InvalidInput(what, hint="put the packages into the image")


def _is_path(text: str) -> bool:
    try:
        return bool(check_path(text))
    except BadManifest:
        return False


def _can_be_argument(text: str) -> bool:
    return _is_bytes(text) and size(text) <= LONGEST


def _is_bytes(text: str) -> bool:
    """Any bytes will do (those that are no UTF-8 come as surrogate escapes), but not NUL."""
    try:
        return "\0" not in text and (text.isascii() or text.encode("utf-8", "surrogateescape") is not None)
    except UnicodeEncodeError:
        return False


def _is_text(text: str) -> bool:
    return "\0" not in text and text.encode(errors="ignore").decode() == text


def _numbers(spec: JobSpec) -> Iterator[InvalidInput]:
    need = spec.resources
    if not spec.runs:
        yield InvalidInput("no runs", hint="give a command, or a --multi file with at least one line")
    if len(spec.runs) > MOST_RUNS or not 1 <= spec.repeat <= MOST_RUNS:
        yield InvalidInput(f"a job may have 1 to {MOST_RUNS} runs", hint="split it into several")
    if (spec.nodes or 1) > MOST_NODES:
        yield InvalidInput(f"a job may have 1 to {MOST_NODES} nodes of its own", hint="give a smaller --nodes")
    if spec.repeat > 1 and len(spec.runs) != 1:
        yield InvalidInput(
            "--runs and --multi exclude each other", hint="each line of the file is a run: leave --runs out"
        )
    if spec.nodes is not None and len(spec.runs) > 1 and spec.total != len(spec.runs):
        what = "with --multi and --nodes, every line is one of the children"
        yield InvalidInput(what, hint="let `total` be the number of lines")
    if spec.total is not None and (spec.nodes is None or spec.repeat > 1):
        what = "a total of children is for a job with --nodes, and without --repeat"
        yield InvalidInput(what, hint="write --runs N without --nodes, or --nodes N without --repeat")
    for name, value, least in (
        ("--cpus", need.cpus, 1),
        ("--memory", need.memory, 1),
        ("--gpus", need.gpus, 0),
        ("--gpu-memory", need.gpu_memory, 1),
        ("--time", need.seconds, 0.001),
        ("--concurrent", spec.concurrent, 1),
        ("--nodes", spec.nodes, 1),
        ("--runs", spec.total, 1),
        ("--retry", spec.retry.failures, 0),
        ("--grace", spec.grace, 0),
    ):
        if value is not None and not least <= value < _TOO_LARGE:
            what = (
                f"{name} is too large" if value >= _TOO_LARGE else f"{name} must be at least {least:g}, not {value:g}"
            )
            yield InvalidInput(what, hint=f"give another number, or leave {name} out")
    if need.gpu_memory is not None and not need.gpus:
        yield InvalidInput("--gpu-memory is of each GPU, and none is asked for", hint="say how many, --gpus 1")
    if spec.umask is not None and not 0 <= spec.umask <= 0o777:
        yield InvalidInput(f"a umask is between 0 and 0o777, not {spec.umask:#o}", hint="write 0o022")
    if not -1_000_000 <= spec.priority <= 1_000_000:
        yield InvalidInput("--priority must be between -1000000 and 1000000", hint="give another number")


def _caught(function: Callable[..., object], *args: object) -> Iterator[InvalidInput]:
    try:
        function(*args)
    except InvalidInput as problem:
        yield problem
