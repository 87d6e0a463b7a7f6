"""Waiting runs go to a node: claiming a run opens its next attempt; claiming a parent makes its next child."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from typing import NamedTuple

from turnout.engine.family import Family
from turnout.engine.following import settle
from turnout.model.spec import JobSpec
from turnout.schedule import machine
from turnout.schedule.place import Room, Waiting, choose, slots_of
from turnout.schedule.record import RunRecord
from turnout.store.agents import is_gone, set_kept
from turnout.store.jobs import Job, Kept, load_environment, load_jobs
from turnout.store.leaving import left_for
from turnout.store.ledger import Ledger
from turnout.store.queue import Entry, held_runs, waiting_runs
from turnout.store.store import Connection
from turnout.store.writer import Tx
from turnout.wire.messages import Attempt, ContainerOrder, Grant, InputOrder, JobOrder, SetupOrder

_LOOK_AT_MOST = 2000
_LOOK_AT_ONCE = 250
_IN_VAIN = 16  # runs of jobs that were passed over; then it is quicker to ask for the others
_GRANT_AT_MOST = 128
_JOBS_KEPT = 1000
Left = list[tuple[str, list[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taker:
    """The agent that takes, from which queue, and what its node has free."""

    agent: int
    queue: str
    node: str
    room: Room


class Jobs:
    """What was submitted, remembered: it never changes. Used by the writer's thread alone.

    A job that was written in the very transaction that asks is not remembered: it may yet be undone, and its number be
    given to another.
    """

    def __init__(self) -> None:
        self._known: dict[int, Job] = {}
        self._alike: dict[tuple[int, Kept], int] = {}

    def get(self, tx: Tx, job: int) -> Job:
        return self._known.get(job) or self.get_all(tx, {job})[job]

    def get_all(self, tx: Tx, wanted: set[int]) -> dict[int, Job]:
        """Those that have to be read are read together."""
        missing = wanted - self._known.keys()
        if not missing:
            return self._known
        if len(self._known) >= _JOBS_KEPT:
            self._known.clear()
            missing = wanted
        found = load_jobs(tx.connection, missing)
        self._known.update((number, job) for number, job in found.items() if job.created != tx.now)
        return {**found, **{number: self._known[number] for number in wanted - missing}}

    def like(self, job: Job) -> int:
        """A job whose order is this one's, too: of a pipeline, most steps differ in nothing but their commands."""
        if job.pipeline is None or job.id not in self._known:
            return job.id
        if len(self._alike) >= _JOBS_KEPT:
            self._alike.clear()
        return self._alike.setdefault((job.pipeline, job.kept), job.id)


class Taken(NamedTuple):
    """What the agent was given, whether there was anything in its queue, and whether a run that asks for GPUs could not
    be given to it."""

    grants: list[Grant]
    saw_any: bool
    lacks_gpus: bool


def take(tx: Tx, jobs: Jobs, taker: Taker) -> Taken:
    """Gives the agent as many waiting runs as fit. What is returned is committed as its attempt.

    An agent that was given up gets nothing: nobody would ever ask for its runs again.
    """
    entries: dict[int, Entry] = {}
    passed: set[int] = set()
    lacking: set[int] = set()
    family = Family(tx, taker.agent)

    def queue() -> Iterator[Waiting]:
        """Bit by bit, without the jobs of which a run did not fit: thousands of those must not hide what would."""
        last: RunRecord | None = None
        while len(entries) < _LOOK_AT_MOST:
            seen, in_vain = len(entries), 0
            for entry, job in _with_jobs(
                tx, jobs, waiting_runs(tx, taker.queue, most=_LOOK_AT_ONCE, behind=last, besides=passed)
            ):
                in_vain += entry.job in passed
                if in_vain > _IN_VAIN:
                    break
                entries[entry.record.id], last = entry, entry.record
                here = taker.room.running.get(job.id, 0)
                copies, most = family.copies(entry, job), family.most(entry, job, here)
                yield _waiting(entry, job, jobs.like(job), copies, most)
            else:
                if len(entries) - seen < _LOOK_AT_ONCE:
                    return

    def pass_over(waiting: Waiting) -> None:
        passed.add(waiting.job)
        if waiting.gpus:
            lacking.add(waiting.job)

    placed = choose(queue(), taker.room, most=_GRANT_AT_MOST, passed=pass_over)
    if not placed or is_gone(tx, taker.agent):
        return Taken([], bool(entries), bool(lacking))
    ledger = Ledger(tx)
    for item in placed:
        ledger.add(entries[item.run].record)
    grants = []
    left = _left_for(tx, jobs, [entries[item.run] for item in placed])
    for run, copies in groupby(placed, key=lambda item: item.run):
        items = list(copies)
        job = jobs.get(tx, entries[run].job)
        for item, (entry, record) in zip(items, family.next_runs(ledger, entries[run], job, len(items)), strict=True):
            claimed = ledger.apply(machine.claim(record, node=taker.node, agent=taker.agent, now=tx.now))
            grants.append(_grant(entry, claimed, job, jobs.like(job), item.slots, left))
    family.drain(ledger)
    settle(tx, ledger)  # the last child of several parents was taken: the others may be over
    ledger.flush()
    if any(grant.keep for grant in grants):
        set_kept(tx, taker.agent, True)
    tx.touch("runs")
    return Taken(grants, bool(entries), bool(lacking))


def held_by(tx: Tx, jobs: Jobs, agent: int, max_runs: int) -> tuple[list[Grant], dict[Attempt, str | None]]:
    """What the store says this agent has: its attempts as grants, and for each whether its end was asked for."""
    grants: list[Grant] = []
    stops: dict[Attempt, str | None] = {}
    held = held_runs(tx, agent)
    left = _left_for(tx, jobs, held)
    for entry in held:
        job = jobs.get(tx, entry.job)
        like = jobs.like(job)
        slots = slots_of(_waiting(entry, job, like, 1, job.spec.concurrent), max_runs)
        grants.append(_grant(entry, entry.record, job, like, slots, left))
        stops[entry.record.id, entry.record.attempt] = entry.record.cancel
    return grants, stops


def _with_jobs(tx: Tx, jobs: Jobs, entries: Iterable[Entry]) -> Iterator[tuple[Entry, Job]]:
    """A few at a time: of a pipeline, each may be of another job."""
    rest = iter(entries)
    while some := list(islice(rest, _IN_VAIN)):
        known = jobs.get_all(tx, {entry.job for entry in some})
        yield from ((entry, known[entry.job]) for entry in some)


def job_orders(connection: Connection, wanted: Mapping[int, int]) -> dict[int, JobOrder]:
    """By the number of each order: what the runs share that go by it, with the submitter's environment. `wanted` has
    one of the jobs for each; that of the order's number may be gone."""
    jobs = load_jobs(connection, set(wanted.values()))
    digests = {job.kept.environment for job in jobs.values()}
    known = {digest: load_environment(connection, digest) for digest in digests}
    mine = {order: jobs[number] for order, number in wanted.items()}
    return {order: _to_order(order, job, known[job.kept.environment]) for order, job in mine.items()}


def _waiting(entry: Entry, job: Job, like: int, copies: int, concurrent: int | None) -> Waiting:
    """Runs of a search that goes to several targets have a slot each: sharing slots, as `concurrent` has it on a node,
    the first target would take them all."""
    need = job.spec.resources
    return Waiting(
        run=entry.record.id, job=job.id, cpus=need.cpus or (1 if job.spec.also else None), memory=need.memory,
        gpus=need.gpus, gpu_memory=need.gpu_memory, concurrent=concurrent, copies=copies, seconds=need.seconds,
        kin=job.pipeline or 0, like=like,
    )  # fmt: skip


def _left_for(tx: Tx, jobs: Jobs, entries: Iterable[Entry]) -> dict[int, Left]:
    """What was left for those that are runs of pipelines, or children of such a run; by the run that waited."""
    of_steps = [entry for entry in entries if jobs.get(tx, entry.job).pipeline is not None]
    return left_for(tx, {entry.record.parent or entry.record.id: entry.job for entry in of_steps})


def _grant(entry: Entry, record: RunRecord, job: Job, like: int, slots: float, left: Mapping[int, Left]) -> Grant:
    need = job.spec.resources
    return Grant(
        run=record.id, attempt=record.attempt, name=entry.name, job=job.id, argv=entry.argv, params=entry.params,
        slots=slots, memory=need.memory or 0, gpus=need.gpus or 0, gpu_memory=need.gpu_memory or 0, carry=entry.after,
        script=record.is_parent, keep=job.spec.keep_node, inputs=left.get(record.parent or record.id, []),
        outputs=entry.outputs, shared=job.spec.shared, like=like,
    )  # fmt: skip


def _to_order(number: int, job: Job, env: dict[str, str]) -> JobOrder:
    spec = job.spec
    return JobOrder(
        job=number, experiment=spec.experiment, workspace=spec.workspace, kind=str(spec.kind),
        script=spec.script, script_path=spec.script_path, before=spec.before, after=list(spec.after), env=env,
        seconds=spec.resources.seconds, grace=spec.grace, memory=spec.resources.memory,
        umask=spec.umask, parent_script=spec.parent_script, parent_script_path=spec.parent_script_path,
        inputs=_inputs(spec), setup=_setup(spec), working_dir=spec.working_dir,
        container=_container(spec), cpus=spec.resources.cpus, search=spec.search is not None,
        sees_gpus=bool(spec.resources.sees_gpus) and spec.resources.gpus is None, kin=job.pipeline or 0,
    )  # fmt: skip


def _inputs(spec: JobSpec) -> dict[str, InputOrder]:
    found = {"data": spec.data, "model": spec.model}
    return {
        name: InputOrder(action=str(each.action), manifest=each.manifest, local=each.local, writable=each.writable)
        for name, each in found.items()
        if each is not None
    }


def _container(spec: JobSpec) -> ContainerOrder | None:
    if spec.container is None:
        return None
    given = spec.container
    return ContainerOrder(
        image=given.image, options=list(given.options), program=given.program, pull=given.pull, network=given.network
    )


def _setup(spec: JobSpec) -> SetupOrder | None:
    if spec.setup is None:
        return None
    setup = spec.setup
    return SetupOrder(
        name=setup.name, lock=setup.lock, activate=setup.activate, conda=list(setup.conda), pip=list(setup.pip),
        python=setup.python,
    )  # fmt: skip
