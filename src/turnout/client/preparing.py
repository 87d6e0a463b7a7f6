"""From what a person asks for to a job that can be handed over: the specification, and the frozen files.

All of it happens here, before a hub is needed: what is wrong is told before anything is done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from turnout import config as configuration
from turnout.client import ask, containers, inputs, named_samplers, own_code, pythons, references, searching, setups
from turnout.client.in_common import InCommon
from turnout.client.layout import Layout, code_dirs, tree_path
from turnout.client.searching import SearchWish
from turnout.config import by_path
from turnout.errors import InvalidInput, NotFound, SnapshotRefused, about
from turnout.home import Home
from turnout.model.container import Container
from turnout.model.ids import check_env_key, check_label, check_tag_key
from turnout.model.limits import check_amount
from turnout.model.search import Elsewhere, Search
from turnout.model.setup import Setup
from turnout.model.spec import JobSpec, Resources, Retry, RunSpec, Schedule
from turnout.snapshot import Joined, Limits, Part, Policy, Sink, Snapshot, capture, capture_file, join
from turnout.spec.check import check

#: A run started from within a run is its own run.
_NOT_INHERITED = (
    "TURNOUT_RUN_", "TURNOUT_ATTEMPT", "TURNOUT_SPOOL", "TURNOUT_PARAMS", "TURNOUT_OUTPUT_DIR", "TURNOUT_JOB",
    "TURNOUT_NODE", "TURNOUT_DATA_DIR", "TURNOUT_MODEL_DIR", "TURNOUT_SECRET_", "XT_", "NNI_",
    "REUSE_MODE", "MULTI_PHASE", "SDK_PROCESS",
)  # fmt: skip

_GROUPS = ("all", "minimal")
#: Without these hardly any program works.
_MINIMAL = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What to run, and how. None = as the project's or the user's settings say."""

    command: tuple[str, ...]
    target: str | None = None
    experiment: str | None = None
    workspace: str | None = None
    name: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    grace: float | None = None
    retry: Retry | None = None
    priority: int = 0
    runs: int | None = None
    repeat: int | None = None
    nodes: int | None = None
    schedule: Schedule = Schedule.DYNAMIC
    parent_script: str | None = None
    held: bool = False
    notify: str | None = None
    keep_node: bool = False
    direct: bool = False
    multi: Path | None = None
    several: tuple[tuple[str, ...], ...] = ()
    concurrent: int | None = None
    snapshot: bool = True
    allow_secrets: tuple[str, ...] = ()
    setup: str | None = None
    docker: str | None = None
    data: str | None = None
    data_action: str | None = None
    data_writable: bool | None = None
    data_local: str | None = None
    model: str | None = None
    model_action: str | None = None
    model_writable: bool | None = None
    model_local: str | None = None
    code_dirs: tuple[str, ...] | None = None
    code_omit: tuple[str, ...] | None = None
    working_dir: str | None = None
    after: tuple[str, ...] | None = None
    after_omit: tuple[str, ...] | None = None
    shared: str = ""
    """the directory, which all nodes see, that the runs are executed in"""
    is_step: bool = False
    """of a pipeline: others wait for its runs one by one, so it has no nodes of its own that make them"""
    search: SearchWish | None = None
    also: tuple[str, ...] = ()
    """further targets of a search"""
    terms: Mapping[str, Any] = field(default_factory=dict)
    """what of the settings of its targets is different for this job"""
    params: Mapping[str, Any] = field(default_factory=dict)
    """what each of its runs is told as its parameters"""
    python: str | None = None
    """what runs Python on this machine, where no setup and no image has one; None = the one on PATH"""
    job_type: str | None = None
    """a class by its path, which is a target by that name"""


class Hub(Sink, inputs.Binder, own_code.Definer, Protocol):
    """Who keeps files, and knows shares and targets; a Client is one."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A specification that lacks only the name of its snapshot (None: nothing is frozen), and of what it reads."""

    spec: JobSpec
    snapshot: Joined | None
    target: configuration.TargetSettings | None = None
    """as the settings here have it; None = as the hub has it"""
    own: own_code.OwnCode | None = None
    """the code that serves the target, where that is the user's"""
    others: tuple[tuple[str, configuration.TargetSettings, own_code.OwnCode | None], ...] = ()
    """further targets of a search"""

    def deliver(self, hub: Hub, send: Callable[[Joined], Joined] | None = None) -> JobSpec:
        """Brings the files to where they are kept, with `send` if it is given; the whole specification. May be
        repeated."""
        spec, snapshot = inputs.bind(self.spec, hub), self.snapshot
        if self.target is not None:
            defined = own_code.define(hub, spec.target, self.target, self.own)
            spec = replace(spec, place=defined["place"])
            if self.own is not None and snapshot is not None and defined["launches"] == "runs":
                snapshot = self.own.joined(snapshot)
        places = [(name, own_code.define(hub, name, target, own)["place"]) for name, target, own in self.others]
        spec = replace(spec, also=tuple(Elsewhere(target=name, place=place) for name, place in places))
        if snapshot is None:
            return spec
        if not snapshot.entries:
            return replace(spec, git=snapshot.git)
        kept = snapshot.deliver(hub) if send is None else send(snapshot)
        return replace(spec, before=kept.digest, before_files=kept.files, before_bytes=kept.total_bytes, git=kept.git)


def prepare(wish: Wish, home: Home, cwd: Path, *, remember: bool = True, common: InCommon | None = None) -> Prepared:
    """Checks everything, then freezes `cwd`. Without `remember` nothing at all is written, not even the stat cache.
    What is in `common` already is not looked for again, and what is found is put there.

    Raises InvalidInput, NotFound or SnapshotRefused.
    """
    known = InCommon() if common is None else common
    with about(""):
        settings = _settings(wish, home, cwd, known)
    with about("target"):
        _check_target(settings.general.target, settings)
    if wish.nodes is None and wish.search is None and not wish.is_step:
        wish = replace(wish, nodes=settings.targets[settings.general.target].nodes)
    with about("target"):
        target = replace(served(settings.general.target, settings), **wish.terms)
        others = _others(wish, settings)
    layout, setup, container = _surroundings(wish, settings, cwd)
    spec = _specify(wish, settings, layout, setup, container, known)
    with about("env"):
        spec = with_secrets(spec, home, is_here=target.service == "local")
    if wish.code_dirs and not wish.snapshot:
        raise InvalidInput("--no-snapshot and --code-dir exclude each other", hint="leave one of them out")
    check(replace(spec, data=None, model=None))  # those are bound to their files when they are delivered
    with about("search"):
        sampler = named_samplers.named(wish.search, settings)
    if not wish.snapshot:
        if sampler is not None:
            named_samplers.check_frozen(sampler)
        return Prepared(spec, None, target, own_code.named(target.service, settings), others)
    if remember and not known.trees:
        home.make()
    code = settings.code
    limits = Limits(file_bytes=code.max_file_size, total_bytes=code.max_size, files=code.max_files)
    cache = home.stat_cache if remember else Path(os.devnull)  # where nothing is found and nothing can be kept
    allowed = (*code.allow_secrets, *wish.allow_secrets)

    def freeze(place: Path, omit: Sequence[str] = ()) -> Snapshot:
        key = place, tuple(omit), allowed
        if key in known.frozen:
            return known.frozen[key]
        try:
            if place.is_file():
                found = capture_file(place, policy=Policy(limits=limits, allow_secrets=allowed))
            else:
                found = capture(place, cache=cache, limits=limits, allow_secrets=allowed, omit=omit)
        except SnapshotRefused as error:
            hint = f"{error.hint}\nto run without the files: `--no-snapshot`"
            with about(""):
                raise SnapshotRefused(error.message, hint=hint) from error
        return known.frozen.setdefault(key, found)

    tree = (tuple(layout.dirs), tuple(code.code_omit), allowed, layout.working_dir)
    if tree not in known.trees:
        parts = [Part(freeze(each.source, code.code_omit), each.place) for each in layout.dirs]
        known.trees[tree] = _checked(join(parts), layout)
    joined = known.trees[tree]
    if sampler is not None:
        spec, joined = named_samplers.bring(sampler, spec, layout, joined, freeze)
    return Prepared(spec, joined, target, own_code.find(target.service, settings, joined, freeze), others)


def _settings(wish: Wish, home: Home, cwd: Path, known: InCommon) -> configuration.Config:
    """Those that hold for it, without a problem. InvalidInput."""
    options = _options(wish)
    key = (home.config_file, cwd, tuple(options.values()), wish.job_type)
    if key not in known.settings:
        gathered = configuration.gather(home.config_file, configuration.find_project_file(cwd), options)
        if wish.job_type is not None:
            gathered = own_code.with_class(gathered, wish.job_type, "--job-type")
        known.settings[key] = _checked_settings(gathered)
    return known.settings[key]


def _others(
    wish: Wish, settings: configuration.Config
) -> tuple[tuple[str, configuration.TargetSettings, own_code.OwnCode | None], ...]:
    """The further targets of a search, as who serves them needs them."""
    if wish.also and wish.search is None:
        hint = "give one --target, or search: `turnout run --help` shows how"
        raise InvalidInput("only a search goes to several targets", hint=hint)
    for name in wish.also:
        _check_target(name, settings)
    found = [(name, replace(served(name, settings), **wish.terms)) for name in wish.also]
    return tuple((name, target, own_code.named(target.service, settings)) for name, target in found)


def _checked(frozen: Joined, layout: Layout) -> Joined:
    inside = layout.working_dir
    if inside and not any(entry.path.startswith(f"{inside}/") for entry in frozen.entries):
        hint = "check --working-dir; it is a directory among the frozen files"
        with about("working-dir"):
            raise InvalidInput(f"no directory {inside!r} in what is frozen", hint=hint)
    return frozen


def _surroundings(
    wish: Wish, settings: configuration.Config, cwd: Path
) -> tuple[Layout, Setup | None, Container | None]:
    """Where the runs' files are and come from, what is installed for them, and what they are executed in."""
    target = settings.targets[settings.general.target]
    with about("setup"):
        setup = setups.specify(wish.setup or target.setup, settings.setups, python=ask.python_here())
    of_setup = settings.setups[setup.name].docker if setup is not None else None
    with about("docker"):
        container = containers.specify(wish.docker, setup, of_setup, target.docker)
    is_here = _is_here(wish, settings) and container is None  # an image has programs of its own
    default_env = settings.general.default_env if container is None else None
    with about("working-dir"):
        working_dir = tree_path(settings.code.working_dir or "", "the working directory")
    layout = Layout(
        cwd=cwd, dirs=code_dirs(settings.code.code_dirs, cwd), working_dir=working_dir,
        activation=() if setup else pythons.active_here() if is_here else pythons.named(default_env),
        python=_python(setup, default_env, is_here) or wish.python,
        has_programs=is_here and setup is None,
        is_windows=settings.settings_of(target).get("os") == "windows",
    )  # fmt: skip
    return layout, setup, container


def _python(setup: Setup | None, default_env: str | None, is_here: bool) -> str | None:
    """What Python is called there; None = as here."""
    has_environment = setup.needs_environment if setup is not None else bool(default_env) and not is_here
    return "python" if has_environment else None if is_here else "python3"


def _options(wish: Wish) -> configuration.Options:
    """What the command line says about settings."""
    return {
        "general.target": ("--target", wish.target),
        "general.experiment": ("--experiment", wish.experiment),
        "general.workspace": ("--workspace", wish.workspace),
        "general.grace": ("--grace", wish.grace),
        "general.notify": ("--notify", wish.notify),
        "data.action": ("--data-action", wish.data_action),
        "data.writable": ("--data-writable", wish.data_writable),
        "data.local": ("--data-local", wish.data_local),
        "model.action": ("--model-action", wish.model_action),
        "model.writable": ("--model-writable", wish.model_writable),
        "model.local": ("--model-local", wish.model_local),
        "code.code-dirs": ("--code-dir", wish.code_dirs),
        "code.code-omit": ("--code-omit", wish.code_omit),
        "code.working-dir": ("--working-dir", wish.working_dir),
        "after-files.after-dirs": ("--after", wish.after),
        "after-files.after-omit": ("--after-omit", wish.after_omit),
    }


def _specify(
    wish: Wish, settings: configuration.Config, layout: Layout, setup: Setup | None, container: Container | None,
    known: InCommon,
) -> JobSpec:  # fmt: skip
    general = settings.general
    target, experiment, workspace = general.target, general.experiment, general.workspace
    for kind, label in (("experiment", experiment), ("workspace", workspace)):
        with about(kind):
            check_label(label, kind)
    if wish.name is not None:
        with about("name"):
            check_label(wish.name, "run name")
    with about("tags"):
        _check_tags(wish.tags)
    env = {**general.env_vars, **wish.env}
    with about("env"):
        for key in env:
            check_env_key(key)
    what = ask.understand(list(wish.command), wish.multi, layout, settings.commands, wish.several)
    parent_script, parent_script_path = ask.parent_script(wish.parent_script, layout)
    is_here = _is_here(wish, settings)
    asked = inputs.Asked(share=wish.data, action=wish.data_action)
    data = inputs.specify("data", settings.data, asked, cwd=layout.cwd, is_here=is_here)
    asked = inputs.Asked(share=wish.model, action=wish.model_action)
    model = inputs.specify("model", settings.model, asked, cwd=layout.cwd, is_here=is_here)
    after = (*settings.after_files.after_dirs, *(f"!{pattern}" for pattern in settings.after_files.after_omit))
    with about("search"):
        search = _search(wish, settings, what.runs, layout.cwd)
    repeat, total = _children(wish, len(what.runs)) if search is None else (1, None)
    return JobSpec(
        kind=what.kind, display=what.display, runs=_with_params(what.runs, wish.params), script=what.script,
        script_path=what.script_path, repeat=repeat, total=total, target=target, experiment=experiment,
        workspace=workspace, label=wish.name, tags=dict(wish.tags), env=env,
        notify=ask.notice(general.notify),
        inherited_env=_inherited(general, known, is_here=is_here and container is None), resources=wish.resources,
        grace=general.grace,
        retry=ask.retry(general.retry) if wish.retry is None else wish.retry, priority=wish.priority,
        concurrent=wish.concurrent, umask=_umask(), held=wish.held, keep_node=wish.keep_node, direct=wish.direct,
        nodes=wish.nodes,
        schedule=wish.schedule,
        parent_script=parent_script, parent_script_path=parent_script_path, data=data, model=model, setup=setup,
        container=container,
        working_dir=layout.working_dir, after=after, search=search, shared=wish.shared,
    )  # fmt: skip


def _check_tags(tags: Mapping[str, str]) -> None:
    for key, value in tags.items():
        check_tag_key(key)
        if value.encode(errors="ignore").decode() != value:
            raise InvalidInput(f"the value of tag {key!r} is not text", hint="give it in UTF-8")
    check_amount(tags, "the tags")


def _with_params(runs: tuple[RunSpec, ...], params: Mapping[str, Any]) -> tuple[RunSpec, ...]:
    return tuple(replace(run, params={**run.params, **params}) for run in runs) if params else runs


def _is_here(wish: Wish, settings: configuration.Config) -> bool:
    """Whether all its runs are on this machine."""
    targets = (settings.general.target, *wish.also)
    return all(settings.provider_of(settings.targets[name]) == "local" for name in targets)


def _search(wish: Wish, settings: configuration.Config, runs: Sequence[RunSpec], cwd: Path) -> Search | None:
    if wish.search is None:
        return None
    for option, value in (("--multi", wish.multi), ("--repeat", wish.repeat), ("--nodes", wish.nodes)):
        if value is not None:
            hint = f"leave {option} out; a target's own settings say how many nodes it has"
            raise InvalidInput(f"{option} and a search exclude each other", hint=hint)
    if len(runs) != 1:
        raise InvalidInput("a search has one command", hint="write it behind the options")
    return searching.specify(named_samplers.by_its_path(wish.search, settings), runs[0], cwd)


def _children(wish: Wish, commands: int) -> tuple[int, int | None]:
    """How many children each parent makes, and how many all of them together, if that is what was asked for."""
    if wish.runs is not None and wish.repeat is not None:
        hint = "--repeat N are the children of each node's run, --runs N those of all nodes together"
        raise InvalidInput("--repeat and --runs exclude each other", hint=hint)
    if commands > 1 and (wish.runs is not None or wish.repeat is not None):
        option = "--runs" if wish.runs is not None else "--repeat"
        lines = "--multi" if wish.multi is not None else "`commands:` of turnout.yaml"
        hint = f"each line is a run: leave {option} out, or write the command to repeat"
        raise InvalidInput(f"{option} and {lines} exclude each other", hint=hint)
    if commands > 1 and wish.nodes is not None:
        return 1, commands
    if wish.nodes is not None and wish.runs is not None:
        return 1, wish.runs
    return wish.runs or wish.repeat or 1, None


def _umask() -> int:
    """This process's; there is no way to read it but to set it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def with_secrets(spec: JobSpec, home: Home, *, is_here: bool) -> JobSpec:
    """The same with the secrets that its environment names and its runs cannot find by themselves (those that are on
    this machine can read a file of this user). NotFound for one that is nowhere."""
    secrets = references.to_send(spec.env, home, is_here=is_here)
    return replace(spec, inherited_env={**spec.inherited_env, **secrets})


def _inherited(general: configuration.General, known: InCommon, *, is_here: bool) -> dict[str, str]:
    key = (tuple(general.env_inherit), general.username, is_here)
    if key not in known.environments:
        known.environments[key] = surroundings(general, is_here=is_here)
    return known.environments[key]


def surroundings(general: configuration.General, *, is_here: bool) -> dict[str, str]:
    """What runs get of here and now: who submits them, and of this environment ``all`` of it, a ``minimal`` part, or
    that and some names more; on another machine, those names only."""
    wanted = general.env_inherit if is_here else tuple(name for name in general.env_inherit if name not in _GROUPS)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name.isascii() and name.isidentifier() and not name.startswith(_NOT_INHERITED)
        and ("all" in wanted or (is_here and name in _MINIMAL) or name in wanted)
    }  # fmt: skip
    return {**inherited, "XT_USERNAME": general.username or by_path.login_name()}


def _check_target(name: str, settings: configuration.Config) -> None:
    """An unknown target is told before anything is captured."""
    check_label(name, "target")
    known = settings.targets
    if name not in known:
        raise NotFound(f"no target {name!r}", hint=f"known targets: {', '.join(sorted(known))}")


def _checked_settings(gathered: configuration.Gathered) -> configuration.Config:
    """What is wrong with them, also with targets, is told now: all of it, and not by a provider."""
    if not gathered.problems and _has_only_usual_targets(settings := gathered.config()):
        return settings
    from turnout.config.checking import checked

    return checked(gathered)


def served(name: str, settings: configuration.Config) -> configuration.TargetSettings:
    """The target as who serves it needs it. NotFound when nobody does."""
    target = settings.resolved(name)
    if not _has_only_usual_targets(settings):
        from turnout.config.checking import check_provider

        check_provider(target.service, settings)
    return target


def _has_only_usual_targets(settings: configuration.Config) -> bool:
    """Then there is nothing to look at, and looking up what is installed would take longer than all the rest."""
    return settings.targets == configuration.Config().targets
