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
from turnout.compat.nni.calling import call
from turnout.compat.nni.driving import Driver
from turnout.compat.nni.errors import is_not_found
from turnout.compat.nni.launches import Launched, form_of, metadata_of, trial_config
from turnout.compat.nni.looking import Looks
from turnout.compat.nni.measures import records_of
from turnout.compat.nni.service import REQUIRED, ask, raised, spelled
from turnout.compat.nni.spelling import read_either
from turnout.compat.nni.spooling import Spools
from turnout.compat.nni.trials import detail_of, id_of
from turnout.plugin.foreign import Draft, DraftRun, Ended, Foreign, StatusQuery
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider
from turnout.plugin.remote import Plugin
from turnout.plugin.telling import Known, News, Telling

#: How long submitting may go on before what is left comes another time, in seconds.
_LONGEST = 30.0
#: How long a trial may keep the next waiting right after its submit; how long before it is looked at once more, each
#: time twice as long, up to the last.
_PATIENCE, _PAUSE, _LONGEST_PAUSE = 2.0, 0.02, 0.5
#: Where NNI's services leave what a trial prints, in its directory.
_OUTPUT = ("stdout", "stderr")


class TrainingServiceProvider(Provider, Foreign, Telling):
    """For one thread at a time. The service begins with the first launch, or the first that is asked for, and is
    cleaned up when none is left; then a new instance is made for the next."""

    INTERFACE: ClassVar[str] = "NNI's TrainingService"
    METHODS: ClassVar[tuple[str, ...]] = REQUIRED

    def __init__(self, found: Any, plugin: Plugin) -> None:
        super().__init__(plugin.settings)
        self._found = found
        self._plugin = plugin
        self._journal = Journal(plugin.records)
        self._spools = Spools(Path(f"{plugin.records}.told"))
        self._last: Launched | None = None
        self._last_at = 0.0
        self._runs: dict[str, Launched] = {}
        self._count = 0
        self._made: Driver | None = self._make()

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
        """As many as the service takes now; the others may come again."""
        driver = self._driver()
        if driver.trouble:
            raise Failure(f"its main loop is over: {driver.trouble}")
        return driver.do(self._submit_all(driver.service, launches))

    async def _submit_all(self, service: object, launches: Sequence[Launch]) -> list[Handle | Failure]:
        deadline = time.monotonic() + _LONGEST
        answers: list[Handle | Failure] = []
        why = ""
        for launch in launches:
            if answers and time.monotonic() > deadline:
                why = f"submitting took more than {_LONGEST:g} s"
            elif not getattr(service, "starts_by_form", False):
                why = await self._why_not_yet()
            if why:
                break
            answer = await self._submit(service, launch)
            answers.append(answer)
            if isinstance(answer, Failure) and answer.kind == "rejected":
                return answers + [answer] * (len(launches) - len(answers))
        later = Failure(f"{why}; the next come after that", kind="throttled", retry_after=1.0)
        return answers + [later] * (len(launches) - len(answers))

    async def _why_not_yet(self) -> str:
        """Empty when the trial that was submitted last needs ``trial_config`` no more: a service may read that when it
        starts one from a queue of its own."""
        pause = _PAUSE
        while self._last is not None and (await self._looks.look(self._last)).phase is Phase.PENDING:
            if time.monotonic() > self._last_at + _PATIENCE:
                return f"trial {self._last.id} waits"
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._last = None
        return ""

    async def _submit(self, service: object, launch: Launch) -> Handle | Failure:
        assert launch.work is not None, "a provider that launches runs is given runs"
        try:
            form = form_of(launch, launch.work, self._count)
        except OSError as error:
            return Failure(f"its variables cannot be written: {error}")
        asked = "set_cluster_metadata"
        try:
            await ask(service, asked, "trial_config", trial_config(launch, form))
            asked = "submit_trial_job"
            answer = await ask(service, asked, form)
        except Exception as error:  # the class's own affair; other launches are none of its
            traceback.print_exc()
            return Failure(raised(service, asked, error))
        try:
            trial = id_of(answer)
        except ValueError as error:  # there may be a trial now that nobody can find: more of them would not be better
            return Failure(f"{spelled(type(service), asked)}: {error}", kind="rejected")
        launched = Launched(launch.token, launch.work.run, trial, form.sequence_id, form.hyper_parameters.value)
        self._count += 1
        self._last, self._last_at = launched, time.monotonic()
        self._looks.expect(launched, answer)
        self._know([launched])
        self._journal.keep({launch.token: launched.handle()})
        return launched.handle()

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        mine = {handle: each for handle in handles if (each := Launched.read(handle)) is not None}
        if not mine:
            return {}
        self._know(each for each in mine.values() if each.run not in self._runs)
        driver = self._driver()

        async def look() -> dict[Handle, Observation]:
            return {handle: await self._looks.watch(each) for handle, each in mine.items()}

        seen = driver.do(look())
        if driver.trouble and any(each.phase is Phase.PENDING for each in seen.values()):
            raise Failure(f"its main loop is over, and trials wait: {driver.trouble}")
        return seen

    def cancel(self, handles: Sequence[Handle]) -> None:
        self._end([each for each in map(Launched.read, handles) if each is not None], is_early_stopped=False)

    def _end(self, mine: Sequence[Launched], *, is_early_stopped: bool) -> list[Ended]:
        """All of them, whatever becomes of one."""
        if not mine:
            return []
        driver = self._driver()
        problems: list[str] = []

        async def end(launched: Launched) -> Ended:
            before = await self._looks.look(launched)
            try:
                if before.phase is not Phase.GONE:
                    await ask(driver.service, "cancel_trial_job", launched.id, is_early_stopped)
            except Exception as error:
                if not is_not_found(error):
                    traceback.print_exc()
                    problems.append(raised(driver.service, "cancel_trial_job", error))
            after = await self._looks.look(launched)
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

    def status(self, query: StatusQuery) -> Any:
        """A line for each trial that the service knows. It is the answer instead of being printed, since the instance
        that has the trials is asked, and what is printed in its process goes to a log."""
        trials = [detail_of(each) for each in self._driver().ask("list_trial_jobs")]
        return "".join(f"{each.id}  {each.status}  {each.url or ''}".rstrip() + "\n" for each in trials)

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
            trial = driver.do(self._looks.detail(launched))
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
            self._made = self._make()
        if not self._made.is_begun:
            self._made.begin(metadata_of(self._plugin))
        return self._made

    def _make(self) -> Driver:
        given = {
            "target": self._plugin.target, "settings": dict(self._plugin.definition), "username": self._plugin.username,
        }  # fmt: skip
        service = call(self._found, **given)
        self._looks = Looks(service, self._spools)
        return Driver(service, self._hear)

    def _hear(self, metric: Any) -> None:
        """What a trial told its service. In whichever thread that is."""
        for record in records_of(read_either(metric, "data"), time.time()):
            self._spools.append(str(read_either(metric, "id")), record)

    def _know(self, launched: Iterable[Launched]) -> None:
        for each in launched:
            self._runs[each.run] = each
            self._spools.know(each.id, each.token)
