"""Systems with ways of their own, asked through the hub: what they say of their runs, and ending those in their way."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from turnout.engine.host import in_full
from turnout.engine.hosted import HostedForeign
from turnout.engine.target import Target
from turnout.errors import InvalidInput, NotFound, ProviderError
from turnout.hub.reading import Streamed, reading
from turnout.model.ids import target_of
from turnout.plugin.foreign import DraftRun, Ended, Foreign, StatusQuery
from turnout.plugin.provider import Failure, Provider
from turnout.store import reads
from turnout.store.native import Sent, runs_of_job, sent
from turnout.store.store import Connection, Store

View = dict[str, Any]
#: Runs by the place they were sent to.
There = dict[str, list[Sent]]


class StatusBody(BaseModel):
    """What is asked: of a place, of a run, or of a job."""

    model_config = ConfigDict(extra="forbid")
    place: str | None = None
    run: str | None = None
    job: str | None = None
    workspace: str = ""
    monitor: bool = False
    seconds: float | None = Field(default=None, ge=0)
    start: bool = False
    stages: list[str] = Field(default_factory=list, max_length=3)
    state: str | None = None
    most_finished: int | None = Field(default=None, ge=0)


def make_router(targets: Mapping[str, Target], store: Store) -> APIRouter:
    router = APIRouter()

    @router.post("/service-status")
    async def service_status(body: StatusBody) -> Streamed:
        """Lines of JSON: first whether the place tells a status of its own; if so, ``{"text": …}`` as it comes, and in
        the end ``{"done": true}`` or the error."""

        def look(connection: Connection) -> tuple[str | None, StatusQuery]:
            return _asked(connection, body)

        place, query = await reading(store, look)
        if place is None and body.job is None:
            raise InvalidInput("the status of what?", hint="give a run, a job or a target")
        if place is not None and place not in targets:
            hint = "`turnout list targets` shows what there is"
            raise NotFound(f"no target {target_of(place)!r} any more", hint=hint)
        told = _told(targets[place], query) if place is not None else _nothing()  # a pipeline: its steps have the runs
        return Streamed(told, "application/x-ndjson")

    return router


def _asked(connection: Connection, body: StatusBody) -> tuple[str | None, StatusQuery]:
    """The place that is meant, and what it is asked. NotFound."""
    given = body.model_dump(exclude={"place"})
    place = body.place
    runs: list[int] = []
    if body.run is not None:
        runs = [reads.find_run(connection, body.run)]
    elif body.job is not None:
        runs = runs_of_job(connection, reads.find_job(connection, body.job))
    for where in sent(connection, runs[:1]):
        place = place or where.place
        given["workspace"] = given["workspace"] or where.workspace
        given |= {"run": where.run} if body.run is not None else {"job": where.job}
    return place, StatusQuery(**given)


def _told(target: Target, query: StatusQuery) -> Generator[bytes, None, None]:
    provider = target.provider
    yield _line({"foreign": isinstance(provider, HostedForeign), "target": target_of(target.name)})
    if not isinstance(provider, HostedForeign):
        return
    try:
        for piece in provider.told(query):
            yield _line({"text": piece})
        yield _line({"done": True})
    except Failure as error:
        yield _line(ProviderError(f"target {target_of(target.name)}: {in_full(error)}").as_dict())


def _nothing() -> Generator[bytes, None, None]:
    yield _line({"foreign": False, "target": None})


def _line(value: View) -> bytes:
    return json.dumps(value).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Cancels:
    """The cancels of such systems. From any thread."""

    targets: Mapping[str, Target]
    store: Store

    def runs(self, there: There) -> list[View]:
        """Ends these runs, by name; what each system says. One that fails says that, and stops nothing."""
        found: list[View] = []
        for place, mine in there.items():
            groups: dict[tuple[str, str], list[str]] = {}
            for each in mine:
                groups.setdefault((each.workspace, each.node), []).append(each.run)
            for (workspace, node), names in groups.items():
                found += self._ask(place, names, lambda it: it.cancel_runs(workspace, names, node))  # noqa: B023
        return found

    def job(self, there: There) -> list[View]:
        """Ends the job of which these are the runs."""
        found: list[View] = []
        for place, mine in there.items():
            drafts = [
                DraftRun(each.run, each.workspace, each.experiment, each.node, each.command) for each in mine
            ]  # fmt: skip
            names = [each.run for each in mine]
            found += self._ask(place, names, lambda it: it.cancel_job(mine[0].job, drafts))  # noqa: B023
        return found

    def user(self, there: There, target: str | None) -> list[View]:
        """Ends all that the user has where these runs are, and at `target`."""
        places = dict(there)
        for place in self.targets:
            if target_of(place) == target and isinstance(self.targets[place].provider, Foreign):
                places.setdefault(place, [])
        found: list[View] = []
        for place, mine in places.items():
            names = [each.run for each in mine]
            found += self._ask(place, names, lambda it: it.cancel_user(target_of(place)))  # noqa: B023
        return found

    def there(self, runs: Sequence[int]) -> There:
        """Those of these runs that are with such a system, and not over."""
        if not any(isinstance(target.provider, Foreign) for target in self.targets.values()):
            return {}
        with self.store.read() as connection:
            known = sent(connection, runs)
        found: There = {}
        for each in known:
            target = self.targets.get(each.place)
            if target is not None and isinstance(target.provider, Foreign) and not each.is_over:
                found.setdefault(each.place, []).append(each)
        return found

    def _ask(self, place: str, runs: Sequence[str], cancel: Callable[[Foreign], list[Ended]]) -> list[View]:
        def ask(provider: Provider) -> list[Ended]:
            assert isinstance(provider, Foreign), "only such places are asked"
            return cancel(provider)

        answer = self.targets[place].ask(ask)
        if isinstance(answer, Failure):
            return [{"run_name": run, "error": answer.message} for run in runs]
        return [_record(each) for each in answer]


def _record(ended: Ended) -> View:
    return {
        "workspace": ended.workspace, "run_name": ended.run, "exper_name": ended.experiment, "killed": ended.killed,
        "status": ended.state, "before_status": ended.before, "box_name": ended.node,
    }  # fmt: skip


def with_records(cancelled: Sequence[View], records: Sequence[View]) -> list[View]:
    """What was cancelled here, each with what its service said; then what else services ended."""
    said = {record["run_name"]: record for record in records}
    mine = [{**each, "service": said.pop(each["run"], None)} for each in cancelled]
    others = [
        {"run": name, "outcome": "elsewhere", **{key: value for key, value in record.items() if key != "box_name"},
         "service": record}
        for name, record in said.items()
        if record.get("killed")
    ]  # fmt: skip
    return mine + others
