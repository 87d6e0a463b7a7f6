"""How a provider behaves: quiet, typed, thrifty, and silent about what is secret."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import SkipTest

from turnout.plugin.provider import Failure, Finding, Phase
from turnout.testing.contract.bench import Bench, Broken, expect
from turnout.testing.contract.hub import KitHub
from turnout.testing.contract.watch import SLEEP, heard

_LEVELS = ("ok", "warning", "problem")


class Behaving(Bench):
    def test_it_prints_nothing(self) -> None:
        """No method writes to the screen: the hub has none, and a command's JSON must stay JSON."""
        with _printed() as text:
            self._live()
        expect(not text[0], f"it prints: {text[0][:200]!r}")

    def test_it_leaves_no_thread_behind(self) -> None:
        """Whatever a method does is done when it returns: no thread of it goes on."""
        before = threading.enumerate()
        self._live()
        others = [each for each in threading.enumerate() if each not in before]
        left = [each.name for each in others if not KitHub.owns(each)]
        expect(not left, f"threads go on after its methods returned: {', '.join(left)}")

    def test_it_never_sleeps(self) -> None:
        """No method waits by itself: the core owns time, and asks again."""
        with heard(SLEEP) as done:
            self._live()
        expect(not done, f"it sleeps: {done}")

    def test_it_may_be_called_from_any_thread(self) -> None:
        """One call at a time, but each from another thread, as the hub does it."""
        handles: list[str] = []
        launch = self.launch()
        self._elsewhere(lambda: handles.append(self.handle_of(launch)))
        self.told_by(launch)
        phases: list[Phase] = []
        self._elsewhere(lambda: phases.append(self.look(handles[0]).phase))
        expect(phases == [Phase.ACTIVE], f"seen from another thread, what runs is {phases}")
        self._elsewhere(lambda: self.provider.find(launch.token))
        self._elsewhere(lambda: self.provider.cancel(handles))
        self.wait_gone(handles[0])

    def test_check_tells_findings(self) -> None:
        """`check` gives findings for people: a known level, words, and with each problem what to do."""
        findings = self._findings()
        expect(findings, "check() has nothing to tell: say at least what was found to be well")

    def test_check_of_a_place_that_does_not_answer_tells_so(self) -> None:
        """When the native system cannot be reached `check` raises nothing: it tells of a problem, and what to do."""
        with self.lab.unreachable():
            levels = [each.level for each in self._findings()]
        expect("problem" in levels, f"nothing can be reached, and check() tells {levels}")

    def test_it_may_rest_and_go_on(self) -> None:
        """`rest` may be repeated, also before anything was done, and everything works after it."""
        self.provider.rest()
        self.provider.rest()
        started = self.start()
        self.exit(started)
        self.provider.rest()
        self.provider.rest()
        phase = self.look(self.start().handle).phase
        expect(phase is Phase.ACTIVE, f"after a rest, what was started is {phase.value}")

    def test_it_may_be_cleared_and_go_on(self) -> None:
        """`clear` may be repeated, also when nothing was ever there, and what is started after it runs."""
        self._clear()
        self.exit(self.start())
        self._clear()
        self._clear()
        phase = self.look(self.start().handle).phase
        expect(phase is Phase.ACTIVE, f"after a clear, what was started is {phase.value}")

    def _clear(self) -> None:
        """It may be asked again, while what other launches left is still there."""
        last: list[Failure] = []

        def is_done() -> bool:
            try:
                self.provider.clear()
            except Failure as error:
                last[:] = [error]
                return False
            return True

        try:
            self.wait(is_done, "clear() fails")
        except Broken as error:
            raise Broken(f"{error}: {last[0].message}") from last[0]

    def test_too_many_questions_are_told_as_throttled(self) -> None:
        """When the native system says that it is asked too often, the Failure is of the kind ``throttled``."""
        with self.lab.throttled():
            failure = self._refusal()
        expect(failure.kind == "throttled", f"throttled, it fails as {failure.kind}: {failure.message}")
        expect(failure.retry_after >= 0, f"retry_after is {failure.retry_after}")

    def test_a_missing_login_is_told_as_such(self) -> None:
        """When a person has to log in first, the Failure is of the kind ``login``, and says so."""
        with self.lab.login_refused():
            failure = self._refusal()
        expect(failure.kind == "login", f"not let in, it fails as {failure.kind}: {failure.message}")
        expect(failure.message.strip(), "its Failure has no words")

    def test_many_launches_cost_few_calls(self) -> None:
        """With `elastic`: a thousand launches take at most one native call for each twenty."""
        if not self.provider.capabilities.elastic:
            raise SkipTest("it starts one agent at a time (capabilities.elastic)")
        self.lab.calls()
        launches = [self.launch() for _ in range(self.lab.many)]
        before = self.lab.calls()
        answers = self.submit(*launches)
        used = self.lab.calls() - before
        self.provider.cancel([each for each in answers if isinstance(each, str)])
        expect(len(answers) == len(launches), f"{len(launches)} launches got {len(answers)} answers")
        failed = [each for each in answers if isinstance(each, Failure)]
        expect(not failed, f"{len(failed)} of {len(launches)} failed: {failed[:1]}")
        most = max(5, len(launches) // 20)
        expect(used <= most, f"{len(launches)} launches took {used} native calls; at most {most} are in order")

    def test_the_token_is_in_no_list_of_processes(self) -> None:
        """The agent's token is in `stdin`, and never in arguments or environment, where every user could read it."""
        found = [each for each in self._scan() if not each.startswith("file ")]
        expect(not found, f"the token can be seen in: {', '.join(found)}")

    def test_the_order_is_in_no_file_for_others(self) -> None:
        """If the order is kept in a file, only its owner may read that."""
        found = [each for each in self._scan() if each.startswith("file ")]
        expect(not found, f"the token can be read by others in: {', '.join(found)}")

    def _scan(self) -> list[str]:
        if self.is_run:
            raise SkipTest("a run has no token of the kit's")
        started = self.start()
        if started.told["stdin_mode"]:
            return ["file standard input"]
        folders = [str(self.folder / "nodes")] if self.is_here else []
        secret = self.secret_of(started.launch)
        found: list[str] = self.do(started, "scan", secret=secret, folders=folders)["found"]
        return found

    def _live(self) -> None:
        """Every method, from the start of a launch to its end."""
        started = self.start()
        self.look(started.handle)
        self.provider.find(started.launch.token)
        self.provider.check()
        self.provider.seats()
        self.provider.cancel([started.handle])
        self.provider.observe([started.handle])
        self.provider.rest()

    def _findings(self) -> list[Finding]:
        try:
            findings = list(self.provider.check())
        except Exception as error:
            raise Broken(f"check() raised {type(error).__name__}: {error}") from error
        for each in findings:
            expect(type(each) is Finding, f"{each!r} is no Finding")
            expect(each.level in _LEVELS, f"the level of {each!r} is none of {', '.join(_LEVELS)}")
            expect(each.what.strip(), f"{each!r} has no words")
            expect(each.level != "problem" or each.hint.strip(), f"{each!r} does not say what to do")
        return findings

    def _refusal(self) -> Failure:
        try:
            (answer,) = self.submit(self.launch())
        except Failure as error:
            return error
        except Exception as error:
            raise Broken(f"submit raised {type(error).__name__}, and not a Failure: {error}") from error
        if not isinstance(answer, Failure):
            raise Broken(f"nothing was taken, and submit answered {answer!r}")
        return answer

    def _elsewhere(self, work: Callable[[], object]) -> None:
        """Does it in a thread of its own; what it raises is raised here."""
        raised: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=run, name="kit")
        thread.start()
        thread.join()
        if raised and isinstance(raised[0], SkipTest):
            raise raised[0]
        if raised:
            raise Broken(f"called from another thread it raised {raised[0]!r}") from raised[0]


@contextmanager
def _printed() -> Iterator[list[str]]:
    """What this process writes to its standard output and error while it is open, by whatever way."""
    text = [""]
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as file:
        kept = [(number, os.dup(number)) for number in (1, 2)]
        mine = sys.stdout, sys.stderr
        try:
            for number, _ in kept:
                os.dup2(file.fileno(), number)
            with open(os.dup(file.fileno()), "w", encoding="utf-8") as stream:
                sys.stdout = sys.stderr = stream
                yield text
        finally:
            sys.stdout, sys.stderr = mine
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
        file.seek(0)
        text[0] = file.read().decode("utf-8", "replace")
