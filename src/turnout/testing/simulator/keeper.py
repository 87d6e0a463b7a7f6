"""What an agent does with its attempts, from grant to end (``turnout.agent.intake``, `starter`, `ender`, `adopt`)."""

from __future__ import annotations

from functools import partial

from turnout.testing.simulator.command import Files, manifest_of
from turnout.testing.simulator.node import Held, Machine, Phase
from turnout.testing.simulator.world import Process
from turnout.wire.messages import Attempt, Grant, Stop, Welcome

_RETURN_SECONDS = 0.5
GPUS = 2


class Keeper(Process):
    """The attempts of one agent on `machine`, whose run directories are in `directory` there."""

    def __init__(self, machine: Machine, directory: str) -> None:
        super().__init__(machine.world, f"agent@{machine.name}")
        self.machine = machine
        self._disk = machine.directories.setdefault(directory, {})
        self._forget()

    def _forget(self) -> None:
        """All that is in memory when its program begins."""
        self._held: dict[Attempt, Held] = {}
        self._over: set[Attempt] = set()
        self._orders: dict[int, None] = {}
        self._welcome: Welcome | None = None
        self._renewed = self.world.now

    def _turn(self) -> None:
        """Something happened: what is to be started, and told?"""
        raise NotImplementedError

    def holding(self) -> list[Held]:
        return list(self._held.values())

    def stray_commands(self) -> list[str]:
        """Commands in its directory that run though it does not hold them, or is not there to."""
        here = self._disk.items()
        running = [(ref, files.command) for ref, files in here if files.command is not None and files.command.alive]
        return [command.name for ref, command in running if not self.alive or ref not in self._held]

    def _adopt(self) -> None:
        for ref, files in list(self._disk.items()):
            if not files.begun and files.exit is None:
                self.world.sometimes("adopt: never begun")
                del self._disk[ref]
                continue
            held = self._held[ref] = Held(files.grant, files, self.world.now)
            held.confirmed = held.began = True
            held.phase = Phase.RUNNING
            held.tell("staged", {"adopted": True})
            held.tell("running", {})
            command = files.command
            if command is None or not command.alive or not command.supervised:
                self.world.sometimes("adopt: ended" if files.exit else "adopt: supervisor gone")
                self._end(held)
            else:
                self.world.sometimes("adopt: running")
                self._watch(held)

    # --- one attempt, from grant to start -----------------------------------------------------------------------------

    def _accept(self, grant: Grant) -> bool:
        ref = (grant.run, grant.attempt)
        if ref in self._held or ref in self._over or grant.order not in self._orders:
            return False
        self.world.note(self.name, "accepts", grant.name, grant.attempt)
        held = self._held[ref] = Held(grant, Files(grant), self.world.now)
        if self.world.rng.random() < 0.5:
            self._staged(held)
        else:
            self.after(self.world.rng.uniform(0.0, 0.3), partial(self._staged, held))
        return True

    def _staged(self, held: Held) -> None:
        if held.phase is Phase.STAGING:
            self._disk[held.ref] = held.files
            held.tell("staged", {})
            held.phase = Phase.READY

    def _start_ready(self) -> None:
        """Starts what is confirmed and fits while the lease lasts; gives back what has waited too long."""
        now = self.world.now
        waiting = [held for held in self._held.values() if held.phase is Phase.READY and held.confirmed]
        if not waiting or self._welcome is None:
            return
        if now - self._renewed >= self._welcome.lease:
            self.world.sometimes("start held back: no lease")
            return
        on = [h.grant for h in self._held.values() if h.phase in (Phase.STARTED, Phase.RUNNING)]
        busy, gpus = sum(grant.slots for grant in on), sum(grant.gpus for grant in on)
        for held in waiting:
            if busy + held.grant.slots <= self._welcome.max_runs + 1e-9 and gpus + held.grant.gpus <= GPUS:
                busy, gpus = busy + held.grant.slots, gpus + held.grant.gpus
                held.phase, held.began = Phase.STARTED, True
                self.after(self.world.rng.uniform(0.0, 0.05), partial(self._started, held))
            elif now - held.granted > _RETURN_SECONDS:
                self.world.sometimes("grant returned")
                held.phase = Phase.CAPTURED
                held.tell("returned", {})

    def _started(self, held: Held) -> None:
        if held.phase is not Phase.STARTED:
            return
        self.world.note(self.name, "starts", held.grant.name, held.grant.attempt)
        self.machine.execute(held.files)
        held.phase = Phase.RUNNING
        held.tell("running", {})
        if held.files.exit is not None:
            self._end(held)
        else:
            self._watch(held)
        self._turn()

    # --- one attempt, from start to end -------------------------------------------------------------------------------

    def _watch(self, held: Held) -> None:
        command = held.files.command
        assert command is not None
        held.files.watcher = partial(self.do, self.life, partial(self._see_end, held))
        if held.stop_cause is not None:
            command.terminate(held.stop_cause)

    def _see_end(self, held: Held) -> None:
        if held.phase is Phase.RUNNING:
            self._end(held)
            self._turn()

    def _end(self, held: Held) -> None:
        held.files.watcher = None
        if held.files.exit is not None:
            self._conclude(held, dict(held.files.exit))
        else:
            held.phase = Phase.ENDED
            self.after(self.world.rng.uniform(0.0, 0.3), partial(self._bury, held))

    def _bury(self, held: Held) -> None:
        self._end_tree(held)
        if held.phase is Phase.ENDED:
            self._conclude(held, {"cause": held.stop_cause or "infra", "message": "its supervisor was killed"})

    def _conclude(self, held: Held, body: dict[str, object]) -> None:
        held.phase = Phase.ENDED
        held.tell("ended", body)
        self.after(self.world.rng.choice((0.0, 0.3)), partial(self._captured, held))

    def _captured(self, held: Held) -> None:
        if held.phase is Phase.ENDED:
            held.result = {"files": 0, **held.shipping.seal(), **_left(held)}
            held.phase = Phase.CAPTURED

    def _stop(self, stop: Stop) -> bool:
        held = self._held.get((stop.run, stop.attempt))
        if held is None or held.stop_cause is not None or held.phase >= Phase.ENDED:
            return False
        held.stop_cause = stop.cause
        if held.phase < Phase.STARTED:
            self.world.sometimes("stop before start")
            if stop.cause == "preempted":
                held.phase = Phase.CAPTURED
                held.tell("returned", {})
                return True
            self._conclude(held, {"cause": stop.cause, "message": "ended before it was started"})
        elif held.files.command is not None:
            self.world.sometimes("stop while running")
            held.files.command.terminate(stop.cause)
        return True

    def _fence(self, ref: Attempt) -> bool:
        held = self._held.get(ref)
        if held is None:
            return False
        self.world.note(self.name, "fences", held.grant.name, held.grant.attempt)
        self.world.sometimes("fenced: " + held.phase.name.lower())
        self._end_tree(held)
        self._drop(held)
        return True

    def _drop(self, held: Held) -> None:
        self._held.pop(held.ref, None)
        self._over.add(held.ref)
        self._disk.pop(held.ref, None)
        held.phase = Phase.OVER

    def _end_tree(self, held: Held) -> None:
        held.files.watcher = None
        if held.files.command is not None:
            held.files.command.end_tree()


def _left(held: Held) -> dict[str, object]:
    """What there is of that which it has to leave."""
    if not held.grant.outputs:
        return {}
    return {"manifest": manifest_of(*held.ref)} if held.files.left else {"missing": list(held.grant.outputs)}
