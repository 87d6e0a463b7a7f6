"""A class that is NNI's TrainingService, as a provider that launches runs: each launch is one of its trials."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from turnout.compat.launched import Journal
from turnout.compat.nni import service as services
from turnout.compat.nni.driving import Driver
from turnout.compat.nni.errors import is_not_found
from turnout.compat.nni.launches import Launched, form_of, metadata_of, observation, trial_config
from turnout.compat.nni.measures import records_of
from turnout.compat.nni.service import MEMBERS, ask
from turnout.compat.nni.spelling import read_either
from turnout.compat.nni.spooling import Spools
from turnout.compat.nni.trials import TrialJobDetail, detail_of
from turnout.compat.xt.calling import call
from turnout.plugin.foreign import Draft, DraftRun, Ended, Foreign, StatusQuery
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider
from turnout.plugin.remote import Plugin
from turnout.plugin.telling import Known, News, Telling

#: How long a trial that was submitted may keep the next one waiting, and how often it is looked at, in seconds.
_PATIENCE, _PAUSE = 10.0, 0.02
#: Where NNI's services leave what a trial prints, in its directory.
_OUTPUT = ("stdout", "stderr")


class TrainingServiceProvider(Provider, Foreign, Telling):
    """For one thread at a time. The service begins with the first launch, or the first that is asked for, and is
    cleaned up when none is left; then a new instance is made for the next."""

    INTERFACE: ClassVar[str] = "NNI's TrainingService"
    METHODS: ClassVar[tuple[str, ...]] = MEMBERS

    def __init__(self, found: Any, plugin: Plugin) -> None:
        super().__init__(plugin.settings)
        self._found = found
        self._plugin = plugin
        self._journal = Journal(plugin.records)
        self._spools = Spools(Path(f"{plugin.records}.told"))
        self._made: Driver | None = Driver(self._construct(), self._hear)
        self._last: Launched | None = None
        self._runs: dict[str, Launched] = {}
        self._count = 0
        self._updates = True

    @classmethod
    def around(cls, found: Any, plugin: Plugin) -> TrainingServiceProvider:
        """An instance of the class `found`, in a provider that says what it can do."""
        able = Capabilities(launches="runs", elastic=True)
        about = {"name": plugin.service, "capabilities": able}
        made: type[TrainingServiceProvider] = type(cls.__name__, (cls,), about)
        return made(found, plugin)

    @classmethod
    def lacking(cls, found: Any) -> list[str]:
        return services.lacking(found)

    # --- launching --------------------------------------------------------------------------------------------------

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        driver = self._driver()
        if driver.trouble:
            raise Failure(f"its main loop is over: {driver.trouble}")
        return [driver.do(self._submit(driver.service, launch)) for launch in launches]

    async def _submit(self, service: object, launch: Launch) -> Handle | Failure:
        assert launch.work is not None, "a provider that launches runs is given runs"
        by_form = bool(getattr(service, "starts_by_form", False))
        try:
            if not by_form and not await self._last_has_begun(service):
                what = f"trial {self._last.id if self._last else ''} waits, and the next comes after it"
                return Failure(what, kind="throttled", retry_after=1.0)
            form = form_of(launch, launch.work, self._count)
            await ask(service, "set_cluster_metadata", "trial_config", trial_config(launch, form))
            detail = detail_of(await ask(service, "submit_trial_job", form))
        except Exception as error:  # the class's own affair; other launches are none of its
            traceback.print_exc()
            return Failure(f"submit_trial_job raised {type(error).__name__}: {error}")
        self._count += 1
        launched = Launched(launch.token, launch.work.run, detail.id, form.sequence_id, form.hyper_parameters.value)
        self._last = launched
        self._know([launched])
        self._journal.keep({launch.token: launched.handle()})
        return launched.handle()

    async def _last_has_begun(self, service: object) -> bool:
        """Whether the trial before this one needs ``trial_config`` no more: a service may read it when it starts one
        from a queue of its own."""
        deadline = time.monotonic() + _PATIENCE
        while self._last is not None and time.monotonic() < deadline:
            if (await self._look(service, self._last)).phase is not Phase.PENDING:
                self._last = None
            else:
                await asyncio.sleep(_PAUSE)
        return self._last is None

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        mine = {handle: each for handle in handles if (each := Launched.read(handle)) is not None}
        if not mine:
            return {}
        self._know(each for each in mine.values() if each.run not in self._runs)
        driver = self._driver()

        async def look() -> dict[Handle, Observation]:
            return {handle: await self._look(driver.service, each) for handle, each in mine.items()}

        seen = driver.do(look())
        if driver.trouble and any(each.phase is Phase.PENDING for each in seen.values()):
            raise Failure(f"its main loop is over, and trials wait: {driver.trouble}")
        return seen

    async def _look(self, service: object, launched: Launched) -> Observation:
        """A trial that the service does not know (any more), or cannot tell of, is one of which nothing is known: what
        it executes may go on."""
        try:
            detail = await self._detail(service, launched)
        except Exception as error:
            said = "its service does not know it" if is_not_found(error) else f"{type(error).__name__}: {error}"
            return Observation(Phase.UNKNOWN, detail=said, id=launched.id)
        return observation(detail)

    async def _detail(self, service: object, launched: Launched) -> TrialJobDetail:
        """First `update_trial_job`, which finds out how it is, where a service does that there; one that knows no such
        thing is not asked again."""
        if self._updates:
            try:
                await ask(service, "update_trial_job", launched.id, launched.form())
            except Exception as error:
                self._updates = "NotImplemented" not in type(error).__name__
        return detail_of(await ask(service, "get_trial_job", launched.id))

    def cancel(self, handles: Sequence[Handle]) -> None:
        self._end([each for each in map(Launched.read, handles) if each is not None], is_early_stopped=False)

    def _end(self, mine: Sequence[Launched], *, is_early_stopped: bool) -> list[Ended]:
        """All of them, whatever becomes of one."""
        if not mine:
            return []
        driver = self._driver()
        problems: list[str] = []

        async def end(launched: Launched) -> Ended:
            before = await self._look(driver.service, launched)
            try:
                if before.phase is not Phase.GONE:
                    await ask(driver.service, "cancel_trial_job", launched.id, is_early_stopped)
            except Exception as error:
                if not is_not_found(error):
                    traceback.print_exc()
                    problems.append(f"cancel_trial_job raised {type(error).__name__}: {error}")
            after = await self._look(driver.service, launched)
            is_killed = before.phase is not Phase.GONE and after.phase is Phase.GONE
            return Ended(launched.run, killed=is_killed, state=after.native.lower(), before=before.native.lower())

        told = [driver.do(end(each)) for each in mine]
        if problems:
            raise Failure(problems[0])
        return told

    def find(self, token: str) -> Handle | None:
        return self._journal.find(token) if token else None

    def check(self) -> list[Finding]:
        return [Finding("ok", f"{self._plugin.path} is {self.INTERFACE}")]

    def clear(self) -> None:
        self.rest()

    def rest(self) -> None:
        made, self._made, self._last = self._made, None, None
        self._runs.clear()
        if made is not None:
            made.end()
        self._journal.forget()
        self._spools.forget()

    # --- its own ways -----------------------------------------------------------------------------------------------

    def adjust(self, draft: Draft) -> Draft:
        """The interface has nothing to say to a job before it is submitted."""
        return draft

    def status(self, query: StatusQuery) -> None:
        """A line for each trial that a new instance knows: one of a service that keeps them to itself knows none."""
        for each in self._driver().ask("list_trial_jobs"):
            trial = detail_of(each)
            print(trial.id, trial.status, trial.url or "", sep="  ")

    def cancel_runs(self, workspace: str, runs: Sequence[str], node: str) -> list[Ended]:
        return self._end([self._runs[run] for run in runs if run in self._runs], is_early_stopped=False)

    def cancel_job(self, job: str, runs: Sequence[DraftRun]) -> list[Ended]:
        return self.cancel_runs("", [run.run for run in runs], "")

    def cancel_user(self, node: str) -> list[Ended]:
        return self.cancel_runs("", list(self._runs), node)

    def stop(self, handles: Sequence[Handle]) -> None:
        self._end([each for each in map(Launched.read, handles) if each is not None], is_early_stopped=True)

    def news(self, known: Mapping[Handle, Known]) -> dict[Handle, News]:
        """What listeners heard; and, of trials that are over, what lies in their directory as their output."""
        mine = {handle: each for handle in known if (each := Launched.read(handle)) is not None}
        told = {
            handle: News(self._spools.read(each.token, known[handle].records), self._output(each, known[handle].output))
            for handle, each in mine.items()
        }  # fmt: skip
        return {handle: each for handle, each in told.items() if each != News()}

    def _output(self, launched: Launched, start: int) -> bytes:
        driver = self._driver()
        try:
            trial = driver.do(self._detail(driver.service, launched))
        except Exception:  # it is not known any more: neither is what it printed
            return b""
        directory = Path(trial.working_directory)
        if not trial.status.is_final or not trial.working_directory:
            return b""
        found = [directory / name for name in _OUTPUT if (directory / name).is_file()]
        return b"".join(path.read_bytes() for path in found)[start:]

    # --- the service ------------------------------------------------------------------------------------------------

    def _driver(self) -> Driver:
        if self._made is None:
            self._made = Driver(self._construct(), self._hear)
        if not self._made.is_begun:
            self._made.begin(metadata_of(self._plugin))
        return self._made

    def _construct(self) -> Any:
        given = {
            "target": self._plugin.target, "settings": dict(self._plugin.definition), "username": self._plugin.username,
        }  # fmt: skip
        return call(self._found, given)

    def _hear(self, metric: Any) -> None:
        """What a trial told its service. In whichever thread that is."""
        for record in records_of(read_either(metric, "data"), time.time()):
            self._spools.append(str(read_either(metric, "id")), record)

    def _know(self, launched: Iterable[Launched]) -> None:
        for each in launched:
            self._runs[each.run] = each
            self._spools.know(each.id, each.token)
