"""What `cancel` promises: a request that may be repeated, ends all that a launch started, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace
from unittest import SkipTest

from turnout.plugin.provider import Need, Observation, Phase
from turnout.testing.contract.bench import Bench, Started, expect

_LINES = "".join(f"line {number:06d}\n" for number in range(20_000))


class Ending(Bench):
    def test_cancel_ends_it(self) -> None:
        """What is cancelled is gone after a while, and its process with it."""
        started = self.start()
        self.provider.cancel([started.handle])
        self.wait_gone(started.handle)
        self._expect_ended(started, [started.told["pid"]])

    def test_cancel_empties_the_process_tree(self) -> None:
        """The children of what is cancelled, and theirs, are ended as well (those that left its session need not)."""
        started = self.start()
        pids = self.do(started, "spawn")["processes"]
        self.provider.cancel([started.handle])
        self.wait_gone(started.handle)
        self._expect_ended(started, pids)

    def test_cancel_may_be_repeated(self) -> None:
        """To cancel what is cancelled already, or gone, is no error."""
        started = self.start()
        for _ in range(3):
            self.provider.cancel([started.handle])
        self.provider.cancel([started.handle, started.handle])
        self.wait_gone(started.handle)
        self.provider.cancel([started.handle])

    def test_cancelling_the_unknown_harms_nobody(self) -> None:
        """Unknown handles are no error, and no launch beside them ends."""
        other = self.start()
        over = self.start()
        self.exit(over)
        for handle in ("no-such-launch", over.handle):
            self.provider.cancel([handle])
        phase = self.look(other.handle).phase
        expect(phase is Phase.ACTIVE, f"unknown handles were cancelled, and a launch beside them is {phase.value}")
        self.do(other, "print", text="still here\n")

    def test_an_unknown_handle_saves_no_other(self) -> None:
        """Of several handles that are cancelled, those that are known end."""
        started = self.start()
        self.provider.cancel(["no-such-launch", started.handle])
        self.wait_gone(started.handle)

    def test_cancelling_nothing_is_no_work(self) -> None:
        """To cancel nothing makes no native call, and ends nothing."""
        started = self.start()
        self.provider.cancel([])
        self.do(started, "print", text="still here\n")
        self.expect_no_calls("cancel([])", lambda: self.provider.cancel([]))

    def test_a_cancel_is_told_as_such(self) -> None:
        """With `records`: of what was cancelled it does not tell that it exited well; its reason is ``cancelled`` or
        ``signal``."""
        if not self.provider.capabilities.records:
            raise SkipTest("it does not keep how launches ended (capabilities.records)")
        started = self.start()
        self.provider.cancel([started.handle])
        seen = self.wait_gone(started.handle)
        expect(
            seen.reason in ("cancelled", "signal") and seen.exit_code != 0, f"it was cancelled, and is told as {seen}"
        )

    def test_a_restarted_hub_can_end_it(self) -> None:
        """A handle outlives the instance that gave it: another one, later, sees the launch and ends it."""
        started = self.start()
        fresh = self.make_provider(self.settings)
        phase = self.look(started.handle, fresh).phase
        expect(phase is Phase.ACTIVE, f"a new instance is told the handle of what runs, and calls it {phase.value}")
        self.make_provider(self.settings).cancel([started.handle])
        self.wait_gone(started.handle)

    def test_all_it_printed_is_kept_after_a_cancel(self) -> None:
        """What a launch printed is kept whole and in order, in ``agent.log`` of its directory, also when it was
        cancelled right after."""
        if self.is_run:
            raise SkipTest("what a run prints is kept by what wraps it")
        started = self.start()
        self.do(started, "print", text=_LINES)
        self.provider.cancel([started.handle])
        self.wait_gone(started.handle)
        kept = self._log(started)
        expect(_LINES.encode() in kept, f"it printed {len(_LINES)} bytes, and of those are not kept: {len(kept)} are")

    def test_a_wall_time_ends_it(self) -> None:
        """With `wall_time`: a launch is ended after `Need.seconds`, and with `records` its reason is ``timeout``."""
        if not self.provider.capabilities.wall_time:
            raise SkipTest("it knows no wall time (capabilities.wall_time)")
        if not self.lab.shortest_time:
            raise SkipTest("the lab names no wall time that can be waited for (Lab.shortest_time)")
        started = self.start(replace(self.launch(), need=Need(seconds=self.lab.shortest_time)))
        seconds = self.lab.shortest_time + self.lab.patience
        gone = self.wait(lambda: self._gone(started), "its wall time is over, and it is not", seconds)
        if self.provider.capabilities.records:
            expect(gone[0].reason == "timeout", f"its wall time was over, and it is told as {gone[0]}")

    def _gone(self, started: Started) -> list[Observation]:
        seen = self.look(started.handle)
        return [seen] if seen.phase is Phase.GONE else []

    def _log(self, started: Started) -> bytes:
        if not self.is_here:
            return self.lab.read_log(started.launch)
        try:
            with open(os.path.join(started.launch.directory, "agent.log"), "rb") as file:
                return file.read()
        except OSError:
            return b""

    def _expect_ended(self, started: Started, pids: list[int]) -> None:
        """Where its machine is this one, by a look at the processes."""
        if started.told["host"] != os.uname().nodename or not os.path.isdir("/proc"):
            return
        left = list(pids)

        def is_empty() -> bool:
            left[:] = [pid for pid in left if _is_alive(pid)]
            return not left

        self.wait(is_empty, f"it is told as gone, and processes of it live on: {pids}")


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False
