"""What `observe` promises: one look at all of them, and nothing is told that is not known."""

from __future__ import annotations

from unittest import SkipTest

from turnout.plugin.provider import Failure, Handle, Observation, Phase
from turnout.testing.contract.bench import Bench, Broken, expect

_ORDER = {Phase.PENDING: 0, Phase.ACTIVE: 1, Phase.GONE: 2}
_GARBAGE = "Error: <html>\x00 502 \ufffd bad gateway\nJOBID|STATE\n|||\n"


class Observing(Bench):
    def test_observing_nothing_is_no_work(self) -> None:
        """To observe nothing is answered with nothing, without a native call."""
        expect(self.provider.observe([]) == {}, "observe([]) is not {}")
        self.expect_no_calls("observe([])", lambda: self.provider.observe([]))

    def test_observing_unknown_handles_is_no_error(self) -> None:
        """A handle that the native system does not know is left out, or gone, or unknown: no error, and not alive."""
        for handle in self._unknown(2):
            seen = self._seen([handle]).get(handle)
            expect(seen is None or seen.phase in (Phase.GONE, Phase.UNKNOWN), f"unknown handle {handle!r} is {seen}")

    def test_unknown_handles_hide_no_others(self) -> None:
        """Asked for handles of which some are unknown, it still tells how the others are."""
        handle = self.start().handle
        self.look(handle)
        first, last = self._unknown(2)
        seen = self._seen([first, handle, last])
        expect(handle in seen, "a launch that runs is told as gone when an unknown handle stands beside it")
        expect(seen[handle].phase is Phase.ACTIVE, f"beside unknown handles, one that runs is {seen[handle]}")

    def test_it_answers_for_what_was_asked(self) -> None:
        """Every key of the answer is one of the handles that were asked for, and every value an Observation."""
        mine, other = self.start().handle, self.handle_of(self.launch())
        seen = self._seen([mine])
        expect(set(seen) <= {mine}, f"asked for {mine!r}, it tells of {sorted(map(str, seen))} (also {other!r} runs)")
        expect(all(isinstance(each, Observation) for each in seen.values()), f"not an Observation: {seen}")

    def test_phases_never_go_back(self) -> None:
        """A launch is pending, then active, then gone; each may be passed over, none comes again."""
        launch = self.launch()
        handle = self.handle_of(launch)
        phases: list[Phase] = []
        program = self.hub.program(launch.token)

        def next_phase() -> Phase:
            phases.append(self.look(handle).phase)
            return phases[-1]

        self.hear(lambda: next_phase() is not Phase.PENDING and bool(program.starts), launch)
        next_phase()
        self.hub.tell(launch.token, "exit", code=0)
        self.wait(lambda: next_phase() is Phase.GONE, "it ended, and observe does not tell that it is gone")
        phases += [self.look(handle).phase for _ in range(3)]
        ranks = [_ORDER[each] for each in phases if each in _ORDER]
        expect(ranks == sorted(ranks), f"its phases went back: {[each.value for each in phases]}")

    def test_what_ended_is_gone_for_every_instance(self) -> None:
        """What ended is gone, and stays so for an instance that never saw it alive."""
        started = self.start()
        self.exit(started)
        phase = self.look(started.handle, self.make_provider(self.settings)).phase
        expect(phase is Phase.GONE, f"it is over, and a new instance calls it {phase.value}")

    def test_an_exit_code_is_told(self) -> None:
        """With `records`: of what ended by itself it tells the exit code, and the reason ``exit_code``."""
        self._needs_records()
        started = self.start()
        self.exit(started, code=3)
        self._expect_exit_3(started.handle)

    def test_an_end_is_told_when_the_native_record_is_purged(self) -> None:
        """With `records`: exit code and reason are still told when the native system has forgotten the launch."""
        self._needs_records()
        started = self.start()
        self.exit(started, code=3)
        self.lab.purge()
        self._expect_exit_3(started.handle)

    def test_status_that_makes_no_sense_means_nothing(self) -> None:
        """When the native system's answer cannot be understood, nobody is gone: it raises, or tells of them as
        unknown."""
        self._expect_no_end(_GARBAGE)

    def test_an_empty_status_means_nothing(self) -> None:
        """When the native system answers nothing at all, nobody is gone: it raises, or tells of them as unknown."""
        self._expect_no_end("")

    def test_a_place_that_does_not_answer_is_a_failure(self) -> None:
        """When the native system cannot be reached, `observe` and `find` raise a Failure, and `submit` raises one or
        answers with them: nothing else, and nobody is gone."""
        handle = self.start().handle
        with self.lab.unreachable():
            self._expect_failure("observe", lambda: self.provider.observe([handle]))
            self._expect_failure("find", lambda: self.provider.find("0123456789abcdef0123456789abcdef"))
            self._expect_failure("submit", lambda: self.submit(self.launch())[0])
        phase = self.look(handle).phase
        expect(phase is Phase.ACTIVE, f"the place can be reached again, and what ran all the time is {phase.value}")

    def test_observing_many_costs_two_calls(self) -> None:
        """To observe a thousand launches takes at most two native calls."""
        handles = [self.start().handle, *self._unknown(self.lab.many - 1)]
        self.provider.observe(handles[:1])
        before = self.lab.calls()
        self._seen(handles)
        used = self.lab.calls() - before
        expect(used <= 2, f"to observe {len(handles)} launches took {used} native calls")

    def _seen(self, handles: list[Handle]) -> dict[Handle, Observation]:
        try:
            return dict(self.provider.observe(handles))
        except Exception as error:
            raise Broken(f"observe raised {type(error).__name__} over unknown handles: {error}") from error

    def _unknown(self, count: int) -> list[Handle]:
        """Handles that look like its own, and of which nothing is there."""
        started = self.start()
        self.exit(started)
        like = started.handle
        digits = [at for at, each in enumerate(like) if each.isdigit()]
        made = [f"{like[: digits[0]]}9{number:06d}{like[digits[0] + 1 :]}" for number in range(count)] if digits else []
        return [*made, *(f"no-such-launch-{number}" for number in range(count))][:count]

    def _needs_records(self) -> None:
        if not self.provider.capabilities.records:
            raise SkipTest("it does not keep how launches ended (capabilities.records)")

    def _expect_exit_3(self, handle: Handle) -> None:
        seen = self.look(handle, self.make_provider(self.settings))
        is_told = (seen.phase, seen.exit_code, seen.reason) == (Phase.GONE, 3, "exit_code")
        expect(is_told, f"its program exited with 3, and it is told as {seen}")

    def _expect_no_end(self, status: str) -> None:
        handle = self.start().handle
        self.look(handle)
        with self.lab.garbled(status):
            try:
                seen = dict(self.provider.observe([handle])).get(handle)
            except Failure:
                seen = Observation(Phase.UNKNOWN)
            except Exception as error:
                raise Broken(f"over a status of {status!r} it raised {type(error).__name__}: {error}") from error
        expect(
            seen is not None and seen.phase is not Phase.GONE, f"a status of {status!r} was taken for an end: {seen}"
        )

    def _expect_failure(self, what: str, call: object) -> None:
        assert callable(call)
        try:
            answer = call()
        except Failure:
            return
        except Exception as error:
            raise Broken(f"{what} raised {type(error).__name__}, and not a Failure: {error}") from error
        expect(isinstance(answer, Failure), f"nothing can be reached, and {what} answered {answer!r}")
