"""What `submit` and `find` promise: each launch is started once, as it was said, and can be found again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import replace
from unittest import SkipTest

from turnout.plugin.provider import Failure, Launch, Need, Phase
from turnout.testing.contract.bench import Bench, Broken, expect

_NASTY = "'single' \"double\" `back` $HOME $(id) \\ \t %s * ~ ; & | <é ü 漢字 🚂>\nnext line\n"
_LONG = "0123456789abcdef" * 6250  # 100 kB
_SETTLED = 0.5


class Starting(Bench):
    def test_a_launch_starts_one_program(self) -> None:
        """A handle means that the native system has the launch: its program starts, once, and is then active."""
        started = self.start()
        self.wait_phase(started.handle, Phase.ACTIVE, "its program runs, and observe does not tell that it is active")
        self._settle()
        count = len(self.hub.program(started.launch.token).starts)
        expect(count == 1, f"one launch started {count} programs")

    def test_the_order_arrives_intact(self) -> None:
        """What is in `stdin` arrives byte by byte: quotes, new lines, characters of all languages, 100 kB of it."""
        if self.is_run:
            raise SkipTest("a run has no order on its standard input")
        launch = self.launch(payload=_NASTY + _LONG)
        told = self.start(launch).told
        expect(told["size"] == len(launch.stdin), f"{told['size']} bytes of {len(launch.stdin)} arrived")
        expect(told["digest"] == hashlib.sha256(launch.stdin).hexdigest(), "its standard input arrived changed")

    def test_the_environment_arrives_intact(self) -> None:
        """Every variable arrives as it was given: quotes, new lines, characters of all languages, 100 kB."""
        if not (self.is_here or self.is_run):
            raise SkipTest("an agent elsewhere gets its variables with its order")
        env = {"KIT_NASTY": _NASTY, "KIT_LONG": _LONG, "KIT_EMPTY": "", "KIT_EQUALS": "a=b=c"}
        told = self.start(self.launch(env=env)).told
        wrong = [name for name, value in env.items() if told["env"].get(name) != ascii(value)]
        expect(not wrong, f"these variables did not arrive as they were given: {', '.join(wrong)}")

    def test_arguments_arrive_intact(self) -> None:
        """Every argument arrives as one argument, whatever is in it; an empty one too."""
        if not (self.is_here or self.is_run):
            raise SkipTest("an agent elsewhere has no arguments")
        args = (_NASTY, "", "-x", "two words", "*")
        told = self.start(self.launch(args=args)).told
        expect(tuple(told["argv"]) == args, f"the arguments {args!r} arrived as {told['argv']!r}")

    def test_a_run_begins_in_a_copy_of_its_files(self) -> None:
        """A run finds the files of `Work.files` around it, and may change them: they are a copy."""
        if not self.is_run:
            raise SkipTest("it launches agents, who bring the files themselves")
        started = self.start()
        expect("probe.py" in started.told["files"], f"its files are not there, but {started.told['files']}")
        self.do(started, "write", name="left-by-the-run", text="x")
        expect(not (self.folder / "files" / "left-by-the-run").exists(), "the run writes into the original files")

    def test_launches_are_answered_in_their_order(self) -> None:
        """Of several launches, each answer stands where its launch stood."""
        launches = [self.launch() for _ in range(3)]
        answers = self.submit(*launches)
        expect(len(answers) == 3, f"three launches were submitted, and {len(answers)} answers came")
        handles = [each for each in answers if isinstance(each, str)]
        if self.provider.capabilities.elastic:
            expect(len(handles) == 3, f"not all were taken: {answers}")
        expect(len(set(handles)) == len(handles), f"several launches got the same handle: {handles}")
        for launch, answer in zip(launches, answers, strict=True):
            if isinstance(answer, str):
                found = self.provider.find(launch.token)
                expect(found == answer, f"launch {launch.token} was answered {answer!r}, and is {found!r}")

    def test_a_launch_that_fails_harms_no_other(self) -> None:
        """Of several launches one may fail: its answer is a Failure in its place, and the others start."""
        first, wrong, last = self.launch(), self._impossible(self.launch()), self.launch()
        answers = self.submit(first, wrong, last)
        if isinstance(answers[1], str):
            self.look(answers[1])  # a place that tells nothing may find that out later, and nobody hears of it
        kinds = [type(each).__name__ for each in answers]
        expect(kinds == ["str", "Failure", "str"], f"a launch that cannot be started among two good ones gave {kinds}")
        self.told_by(first)
        self.told_by(last)

    def test_no_launches_are_no_work(self) -> None:
        """To submit nothing is answered with nothing, without a native call."""
        expect(self.submit() == [], "submit([]) is not []")
        self.expect_no_calls("submit([])", lambda: self.provider.submit([]))

    def test_handles_are_plain_text(self) -> None:
        """A handle is text of one line, not empty and not long: the core keeps it, shows it and sends it as JSON."""
        handle: object = self.handle_of(self.launch())
        is_plain = isinstance(handle, str) and handle.isprintable() and 0 < len(handle) <= 500
        expect(is_plain, f"the handle {handle!r} is not a line of text")
        expect(json.loads(json.dumps(handle)) == handle, f"the handle {handle!r} does not survive JSON")

    def test_a_modest_need_is_met_or_refused(self) -> None:
        """A launch that needs little is started; a kind of need that the site does not know is a Failure of the kind
        ``unsupported``, and nothing is started."""
        for need in (Need(cpus=1), Need(memory=256 << 20)):
            launch = replace(self.launch(), need=need)
            (answer,) = self.submit(launch)
            if isinstance(answer, Failure):
                expect(answer.kind == "unsupported", f"{need} failed as {answer.kind}: {answer.message}")
            else:
                self.told_by(launch)
                self.provider.cancel([answer])
                self.wait_gone(answer)

    def test_a_need_that_cannot_be_met_never_starts(self) -> None:
        """A launch that needs more than there is anywhere is refused, or waits; it never starts with less."""
        launch = replace(self.launch(), need=Need(cpus=100_000))
        try:
            (answer,) = self.submit(launch)
        except Failure:
            answer = Failure("raised")
        if isinstance(answer, str):
            self._settle()
            self.look(answer)
        expect(not self.hub.program(launch.token).starts, "100,000 processors were asked for, and it started with less")

    def test_a_real_agent_says_hello(self) -> None:
        """What it starts is an agent that reaches the hub: with its token, by the socket that the provider brings."""
        if self.is_run:
            raise SkipTest("it launches runs")
        launch = self._agent(self.launch())
        handle = self.handle_of(launch)
        secret = self.secret_of(launch)
        self.hear(lambda: secret in self.hub.hellos, launch, handle)
        self.wait_gone(handle)  # the kit's hub sends it home at once

    def test_find_knows_a_launch_by_its_token(self) -> None:
        """Right after `submit`, a new instance (that of a hub which was killed meanwhile) finds the same handle."""
        launch = self.launch()
        handle = self.handle_of(launch)
        found = self.make_provider(self.settings).find(launch.token)
        expect(found == handle, f"submitted as {handle!r}; find gives {found!r}")
        self.told_by(launch)
        found = self.make_provider(self.settings).find(launch.token)
        expect(found == handle, f"submitted as {handle!r}; once it runs, find gives {found!r}")

    def test_find_of_an_unknown_token_is_none(self) -> None:
        """A token that was never submitted is not found, also while others are there."""
        self.handle_of(self.launch())
        found = self.provider.find("0123456789abcdef0123456789abcdef")
        expect(found is None, f"a token that nobody submitted is found as {found!r}")

    def test_find_takes_no_other_launch_for_it(self) -> None:
        """A token that is the beginning of another one, or empty, is not that one."""
        launch = self.launch()
        self.handle_of(launch)
        for token in (launch.token[:4], ""):
            found = self.provider.find(token)
            expect(found is None, f"the token {token!r} is found as {found!r}, which is {launch.token!r}")

    def test_a_lost_reply_leaves_one_native_job(self) -> None:
        """When the native system took a launch and its reply was lost, `submit` does not tell of success and does not
        try again; `find` then gives the one handle, and one program runs."""
        launch = self.launch()
        with self.lab.lost_reply():
            try:
                (answer,) = self.submit(launch)
            except Failure as error:
                answer = error
        if isinstance(answer, Failure):
            expect(answer.kind == "transient", f"a lost reply is told as {answer.kind}: what became of it is not known")
        found = self.provider.find(launch.token)
        if found is None:
            raise Broken("the native system has the launch, and find does not know it: it would be started twice")
        self._handles.append(found)
        expect(isinstance(answer, Failure) or answer == found, f"submit gave {answer!r}, and find {found!r}")
        self.told_by(launch)
        self._settle()
        count = len(self.hub.program(launch.token).starts)
        expect(count == 1, f"{count} programs run for one launch")

    def _settle(self) -> None:
        """Long enough for a second program, which must not come, to tell of itself."""
        try:
            self.wait(lambda: False, "", seconds=_SETTLED)
        except Broken:
            pass

    def _impossible(self, launch: Launch) -> Launch:
        """One that cannot be started, wherever it goes."""
        nowhere = str(self.folder / "agent-that-is-not-there")
        if launch.work is not None:
            return replace(launch, work=replace(launch.work, files=nowhere))
        return replace(launch, argv=(nowhere,)) if self.is_here else replace(launch, program=nowhere)

    def _agent(self, launch: Launch) -> Launch:
        """The same launch of a real agent."""
        from turnout.engine.program import build

        order = json.loads(launch.stdin)
        cache = str(self.folder / "cache") if self.is_here else "cache/blobs"
        stdin = json.dumps({**order, "cache": cache, "node": "kit"}).encode()
        if not self.is_here:
            return replace(launch, stdin=stdin, program=str(build(self.folder)))
        paths = os.pathsep.join(each for each in sys.path if each)
        env = {**launch.env, "PYTHONPATH": paths, "HOME": os.path.expanduser("~")}
        return replace(launch, stdin=stdin, argv=(sys.executable, "-m", "turnout.agent"), env=env)
