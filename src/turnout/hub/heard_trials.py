"""A run of which NNI's own TrialKeeper tells: claimed with the first that is heard of it, and kept as that says.

Such a keeper tells, and is never asked: its agent said no hello, has no lease, and counts as one that is not heard."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnout.engine.report import Receipt, Telling, report
from turnout.engine.sessions import Sessions
from turnout.engine.take import Jobs, Taker, take
from turnout.errors import Conflict, Denied
from turnout.model.ids import job_name
from turnout.schedule.place import Room
from turnout.schedule.record import Cause
from turnout.store.agents import Agent, boot_of
from turnout.store.queue import Entry, held_runs, next_in
from turnout.store.store import Store
from turnout.store.streams import Marks
from turnout.store.writer import Tx
from turnout.wire import nni
from turnout.wire.gpus import free_gpus
from turnout.wire.messages import Chunk, Fact

if TYPE_CHECKING:
    from turnout.compat.nni.keeper.saying import Said

#: Nobody knows what its platform gave it: as much as it asks for.
_MEMORY, _GPUS, _MAX_RUNS = 1 << 62, 256, 1 << 20
_OUTPUT, _METRICS = "output", f"track/{nni.STREAM}"


@dataclass(frozen=True, slots=True)
class HeardTrials:
    """From any thread; what is taken is on disk when its future is answered."""

    store: Store
    sessions: Sessions
    _jobs: Jobs = field(default_factory=Jobs)

    def take(self, agent: Agent, named: tuple[str, str], said: Said) -> Future[None]:
        """`named` are the job and the run that the keeper believes this to be. Denied when they are others, Conflict
        when that run is over. Nothing happens to one that tells of itself."""
        return self.store.submit(lambda tx: self._take(tx, agent, named, said))

    def end_asked(self) -> None:
        """Ends the runs that a person, or a stopper, wants ended: their keepers cannot be told, and may never say
        another word."""
        now = time.monotonic()
        for session in self.sessions.all():
            if session.stops and self.sessions.is_silent(session.agent, now):
                self.store.write(lambda tx, agent=session.agent: self._conclude(tx, agent))  # type: ignore[misc]

    def _take(self, tx: Tx, agent: Agent, named: tuple[str, str], said: Said) -> None:
        held = held_runs(tx, agent.id)
        entry = held[0] if held else next_in(tx.connection, agent.queue)
        if entry is None:
            raise Conflict(f"{named[1]} is over, or somebody else has it", hint="end this trial")
        if job_name(entry.job) != named[0] or named[1] not in (entry.name, entry.name.partition(".")[0]):
            raise Denied(f"this token is not for {named[1]} of {named[0]}", hint="each run has its own")
        if boot_of(tx, agent.id) is not None or not (said.output or said.metrics or said.code is not None):
            return  # an agent of ours has it; or it is only that its keeper began
        if not held:
            entry = self._claim(tx, agent, entry)
        self._release(agent.id, report(tx, _telling(tx, agent.id, entry, said, begins=not held)))

    def _claim(self, tx: Tx, agent: Agent, entry: Entry) -> Entry:
        slots = float(self._jobs.get(tx, entry.job).spec.resources.cpus or 1)
        room = Room(max_runs=_MAX_RUNS, slots=slots, memory=_MEMORY, gpus=free_gpus(_GPUS), running={})
        taken = take(tx, self._jobs, Taker(agent=agent.id, queue=agent.queue, node=agent.node, room=room))
        if not taken.grants:
            raise Conflict(f"{entry.name} cannot be taken now", hint="see `turnout why`")
        session = self.sessions.get(agent.id)
        if session is not None:
            with self.sessions.lock:
                session.grant(taken.grants)
                session.unconfirmed.clear()
        return held_runs(tx, agent.id)[0]

    def _conclude(self, tx: Tx, agent: int) -> None:
        """A run that its provider alone tells of has nothing here yet; what becomes of it, that one says."""
        for entry in held_runs(tx, agent) if boot_of(tx, agent) is None else ():
            cancel, marks = entry.record.cancel, _marks(tx, entry)
            if cancel is not None and entry.record.is_cancelled and any(marks.values()):
                facts = _over(tx, entry, _end_asked(cancel), marks[_OUTPUT])
                self._release(agent, report(tx, Telling(agent, facts, ())))

    def _release(self, agent: int, receipt: Receipt) -> None:
        self.sessions.release(agent, receipt.closed | receipt.fenced)


def _telling(tx: Tx, agent: int, entry: Entry, said: Said, *, begins: bool) -> Telling:
    """What was said, behind what is here already."""
    run, attempt, cancel = entry.record.id, entry.record.attempt, entry.record.cancel
    marks = _marks(tx, entry)
    pieces = [(_OUTPUT, said.output), (_METRICS, said.metrics)]
    chunks = tuple(
        (Chunk(run, attempt, name, marks[name], len(content)), memoryview(content))
        for name, content in pieces
        if content
    )
    facts: tuple[Fact, ...] = (Fact(run, attempt, "running", tx.now, {}),) if begins else ()
    end = _end_asked(cancel) if cancel is not None else _end(said)
    if end is not None:
        facts += _over(tx, entry, end, marks[_OUTPUT] + len(said.output))
    return Telling(agent, facts, chunks)


def _over(tx: Tx, entry: Entry, end: dict[str, object], size: int) -> tuple[Fact, ...]:
    """It ended so, after so many bytes of output."""
    run, attempt = entry.record.id, entry.record.attempt
    left = {"files": 0, "bytes": 0, "output_bytes": size}
    return Fact(run, attempt, "ended", tx.now, end), Fact(run, attempt, "captured", tx.now, left)


def _marks(tx: Tx, entry: Entry) -> dict[str, int]:
    """How much of each of its streams is here."""
    keys = {name: (entry.record.id, entry.record.attempt, name) for name in (_OUTPUT, _METRICS)}
    marks = Marks(tx, keys.values())
    return {name: marks.get(key).size for name, key in keys.items()}


def _end(said: Said) -> dict[str, object] | None:
    if said.code is None:
        return None
    if said.code < 0:
        return {"cause": Cause.SIGNAL, "signal": -said.code, "message": said.message}
    return {"cause": Cause.EXIT, "exit_code": said.code, "message": said.message}


def _end_asked(cancel: Cause) -> dict[str, object]:
    return {"cause": cancel.order, "message": "its TrialKeeper cannot be told so: end it on its platform"}
