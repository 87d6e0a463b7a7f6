"""A class with the methods of XT's BackendInterface as a provider that launches runs: it is given whole jobs, and what
it does with them is its own affair. How they are it does not tell; that their commands do, where they reach the hub."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Any, ClassVar

from turnout.compat.launched import Journal
from turnout.compat.xt import records
from turnout.compat.xt.backends.backend_interface import BackendInterface
from turnout.compat.xt.calling import Config, Core, StageFlags, call
from turnout.compat.xt.interface import methods_of
from turnout.compat.xt.records import Launched, Record
from turnout.model.state import STAGES
from turnout.plugin.foreign import Draft, DraftRun, Ended, Foreign, StatusQuery
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider, Work
from turnout.plugin.remote import Plugin


class XtProvider(Provider, Foreign):
    """For one thread at a time."""

    INTERFACE: ClassVar[str] = "XT's BackendInterface"
    METHODS: ClassVar[tuple[str, ...]] = tuple(methods_of(BackendInterface))

    def __init__(self, plugin: Plugin, backend: Any, options: dict[str, Any]) -> None:
        """`options` is what the backend was given as its ``arg_dict``."""
        super().__init__(plugin.settings)
        self._plugin = plugin
        self._backend = backend
        self._options = options
        self._definition = dict(plugin.definition)
        self._journal = Journal(plugin.records)
        self._cancelled: dict[str, Ended] = {}

    @classmethod
    def around(cls, found: Any, plugin: Plugin) -> XtProvider:
        """An instance of the class `found`, in a provider that says what it can do."""
        options: dict[str, Any] = {}
        backend = call(found, _surroundings(plugin, options))
        able = Capabilities(launches="runs", elastic=True, containers=bool(backend.provides_container_support()))
        made: type[XtProvider] = type(cls.__name__, (cls,), {"name": plugin.service, "capabilities": able})
        return made(plugin, backend, options)

    @classmethod
    def lacking(cls, found: Any) -> list[str]:
        """The methods that a class has not, or only as the interface itself has them."""
        own = {name: getattr(found, name, None) for name in cls.METHODS}
        return [name for name, each in own.items() if not callable(each) or each is getattr(BackendInterface, name)]

    # --- launching --------------------------------------------------------------------------------------------------

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        jobs: dict[str, list[tuple[Launch, Work]]] = {}
        for launch in launches:
            assert launch.work is not None, "a provider that launches runs is given runs"
            jobs.setdefault(launch.work.job, []).append((launch, launch.work))
        answers: dict[str, Handle | Failure] = {}
        for job in jobs.values():
            try:
                answers |= self._submit_job(job)
            except Exception as error:  # the class's own affair; other jobs are none of its
                traceback.print_exc()
                failure = Failure(f"submit_job raised {type(error).__name__}: {error}")
                answers |= {launch.token: failure for launch, _ in job}
        return [answers[launch.token] for launch in launches]

    def _submit_job(self, launches: list[tuple[Launch, Work]]) -> dict[str, Handle | Failure]:
        """All launches of one job are one job there."""
        work = launches[0][1]
        runs = [records.of_launch(launch, each) for launch, each in launches]
        args = self._take_options(work.options)
        answer = call(self._backend.submit_job, {
            "job_id": work.job, "job_runs": runs, "workspace": work.workspace, "compute_def": dict(self._definition),
            "resume_name": None, "repeat_count": work.repeat, "using_hp": work.search,
            "runs_by_box": records.by_box(runs), "experiment": work.experiment, "snapshot_dir": work.files,
            "args": args,
        })  # fmt: skip
        service_id, url = answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
        handles = {
            launch.token: Launched(
                token=launch.token, job=each.job, run=each.run, workspace=each.workspace, node=launch.node,
                id="" if service_id is None else str(service_id), url="" if url is None else str(url),
            ).handle()
            for launch, each in launches
        }  # fmt: skip
        self._journal.keep(handles)
        return dict(handles)

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        """All are there for all we know: the interface has no question for that."""
        seen = {handle: each for handle in handles if (each := Launched.read(handle)) is not None}
        return {handle: Observation(Phase.UNKNOWN, id=each.id, url=each.url) for handle, each in seen.items()}

    def cancel(self, handles: Sequence[Handle]) -> None:
        asked: dict[tuple[str, str], list[str]] = {}
        for each in map(Launched.read, handles):
            if each is not None and each.run not in self._cancelled:
                asked.setdefault((each.workspace, each.node), []).append(each.run)
        for (workspace, node), runs in asked.items():
            self._cancelled |= {each.run: each for each in self._cancel_names(workspace, runs, node)}

    def find(self, token: str) -> Handle | None:
        return self._journal.find(token)

    def check(self) -> list[Finding]:
        containers = "puts runs into containers itself" if self.capabilities.containers else "knows no containers"
        return [Finding("ok", f"{self._plugin.path} is {self.INTERFACE} and {containers}")]

    def clear(self) -> None:
        self._journal.forget()

    def rest(self) -> None:
        self._journal.forget()
        self._cancelled.clear()

    # --- its own ways -----------------------------------------------------------------------------------------------

    def adjust(self, draft: Draft) -> Draft:
        runs: list[Record] = [records.of_draft(run) for run in draft.runs]
        given = list(runs)
        call(self._backend.adjust_run_commands, {
            "job_id": draft.job, "job_runs": runs, "using_hp": draft.search, "experiment": draft.experiment,
            "service_type": self._plugin.service, "snapshot_dir": draft.files,
            "args": self._take_options(draft.options),
        })  # fmt: skip
        if len(runs) != len(given) or any(now is not then for now, then in zip(runs, given, strict=True)):
            raise Failure("adjust_run_commands may edit the records of runs, not add or remove some", kind="rejected")
        adjusted = [records.to_draft(record, run) for record, run in zip(runs, draft.runs, strict=True)]
        return Draft(**{**vars(draft), "runs": adjusted})

    def status(self, query: StatusQuery) -> None:
        stages = query.stages or STAGES
        call(self._backend.view_status, {
            "run_name": query.run, "workspace": query.workspace, "job": query.job, "monitor": query.monitor,
            "escape_secs": query.seconds, "auto_start": query.start,
            "stage_flags": StageFlags(dict.fromkeys(stages, True)), "status": query.state,
            "max_finished": query.most_finished,
        })  # fmt: skip

    def cancel_runs(self, workspace: str, runs: Sequence[str], node: str) -> list[Ended]:
        return self._ended(runs, self._cancel_names(workspace, runs, node))

    def _cancel_names(self, workspace: str, runs: Sequence[str], node: str) -> list[Ended]:
        given = {"workspace": workspace, "run_names": list(runs), "box_name": node}
        return records.to_ended(call(self._backend.cancel_runs_by_names, given), node)

    def cancel_job(self, job: str, runs: Sequence[DraftRun]) -> list[Ended]:
        given = {"job_id": job, "runs_by_box": records.by_box(map(records.of_draft, runs))}
        return self._ended([run.run for run in runs], records.to_ended(call(self._backend.cancel_runs_by_job, given)))

    def cancel_user(self, node: str) -> list[Ended]:
        return self._ended((), records.to_ended(call(self._backend.cancel_runs_by_user, {"box_name": node}), node))

    def _ended(self, runs: Sequence[str], told: list[Ended]) -> list[Ended]:
        """What a person is told of a cancel: of a run whose launch was taken back a moment ago, what that did; once.
        `runs` were asked for, and are not taken back any more."""
        earlier = self._cancelled
        self._cancelled = {**earlier, **{run: Ended(run) for run in (*runs, *(each.run for each in told))}}
        return [earlier[each.run] if each.run in earlier and earlier[each.run].killed else each for each in told]

    def _take_options(self, options: Any) -> dict[str, Any]:
        """The options of the command at hand, also where the backend was given them when it was made."""
        self._options.clear()
        self._options.update(options)
        return dict(options)


def _surroundings(plugin: Plugin, options: dict[str, Any]) -> dict[str, Any]:
    """What a backend may be constructed with."""
    definition = dict(plugin.definition)
    service = str(definition.get("service", plugin.service))
    config = Config({
        "external-services": {service: {"type": plugin.service, **definition}},
        "compute-targets": {plugin.target: definition},
        "providers": {"compute": {plugin.service: plugin.path}},
        "general": {"username": plugin.username},
    })  # fmt: skip
    return {
        "compute": plugin.target, "compute_def": definition, "core": Core(config, plugin.username), "config": config,
        "username": plugin.username, "arg_dict": options,
    }  # fmt: skip
