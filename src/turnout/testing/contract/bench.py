"""Where checks are made: a provider, the kit's hub, and launches whose programs tell how they were started."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from turnout.plugin.provider import Failure, Handle, Launch, Observation, Phase, Provider, Work
from turnout.testing.contract import probe
from turnout.testing.contract.hub import KitHub, Told
from turnout.testing.contract.lab import Lab

T = TypeVar("T")
_EVERY = 0.02
#: A launch that was not heard for so long is looked at, so often: perhaps it ended.
_LOOK_EVERY = 1.0
_LAST_LINES = 5
_pause = threading.Event()  # never set: a sleep that is not taken for one of the provider's


class Broken(AssertionError):
    """A promise of the contract is not kept."""


def expect(is_so: object, what: str) -> None:
    """Broken, with these words, unless it is so."""
    if not is_so:
        raise Broken(what)


@dataclass(frozen=True)
class Started:
    """A launch whose program has told of itself."""

    launch: Launch
    handle: Handle
    told: Told


class Bench:
    """One object per check, one directory and hub for all checks of a class. `make_provider` is yours to write."""

    folder: ClassVar[Path]
    hub: ClassVar[KitHub]
    lab: Lab
    provider: Provider
    _last: ClassVar[Provider | None] = None
    _is_mute: ClassVar[bool | None] = None
    """whether the first launch was not heard; None while nobody knows"""

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        """A new instance, given these settings (those that every provider gets) and your own; the place behind it is
        the same each time. No IO."""
        raise NotImplementedError(f"{type(self).__name__} has to define make_provider(settings)")

    def make_lab(self) -> Lab:
        """What you can do with the place from behind. Asked for before each check."""
        return Lab()

    @classmethod
    def setup_class(cls) -> None:
        cls._is_mute = None
        cls.folder = Path(tempfile.mkdtemp(prefix="kit-"))
        for name in ("nodes", "s", "files"):
            (cls.folder / name).mkdir(mode=0o700)
        (cls.folder / "files" / "probe.py").write_text(Path(probe.__file__).read_text("utf-8"), "utf-8")
        cls.hub = KitHub(cls.folder / "s" / "agent.sock")
        cls.hub.open()

    @classmethod
    def teardown_class(cls) -> None:
        cls.hub.close()
        try:
            if cls._last is not None:
                cls._last.rest()
        except Exception:
            pass
        shutil.rmtree(cls.folder, ignore_errors=True)

    def setup_method(self) -> None:
        self._launches: dict[str, Launch] = {}
        self._handles: list[Handle] = []
        self.lab = self.make_lab()
        self.provider = type(self)._last = self.make_provider(self.settings)

    def teardown_method(self) -> None:
        """Nothing that a check started stays, and what went wrong in that is no matter of this check."""
        for token in self._launches:
            self.hub.tell(token, "exit", code=0)
        try:
            if self._handles:
                self.make_provider(self.settings).cancel(self._handles)
        except Exception:
            pass
        self.lab.close()

    @property
    def settings(self) -> dict[str, object]:
        folder = self.folder
        return {
            "nodes_directory": str(folder / "nodes"), "sockets_directory": str(folder / "s"),
            "agent_socket": str(folder / "s" / "agent.sock"),
        }  # fmt: skip

    @property
    def is_run(self) -> bool:
        return self.provider.capabilities.launches == "runs"

    @property
    def is_here(self) -> bool:
        return self.provider.capabilities.same_host

    def launch(self, *, payload: str = "", env: Mapping[str, str] | None = None, args: tuple[str, ...] = ()) -> Launch:
        """One that nobody else has: with `payload` in its order, and these variables and arguments."""
        token = secrets.token_hex(16)
        secret = secrets.token_hex(32)
        directory = str(self.folder / "nodes" / token) if self.is_here else f"nodes/{token}"
        address = self.hub.address if self.is_here or self.is_run else "agent.sock"
        order = {"id": token, "address": address, "token": secret, "launch_token": token, "directory": directory}
        text = json.dumps({**order, "payload": payload}, ensure_ascii=False)
        seats = self.provider.seats()
        made = Launch(token, "kit", directory, (), text.encode(), seat=seats[0] if seats else "")
        if self.is_run:
            made = replace(made, stdin=b"", work=self._work(token, text, args, env or {}))
        elif self.is_here:
            here = {"PATH": "/usr/bin:/bin", **(env or {})}
            made = replace(made, argv=(sys.executable, str(self.folder / "files" / "probe.py"), *args), env=here)
        else:
            made = replace(made, program=str(self._program()), env=env or {})
        self._launches[token] = made
        return made

    def secret_of(self, launch: Launch) -> str:
        return str(json.loads(launch.stdin)["token"])

    def submit(self, *launches: Launch, provider: Provider | None = None) -> list[Handle | Failure]:
        """What the provider answers; what it started is ended after the check."""
        answers = list((provider or self.provider).submit(launches))
        self._handles += [each for each in answers if isinstance(each, str)]
        return answers

    def handle_of(self, launch: Launch, provider: Provider | None = None) -> Handle:
        """Submits it. Broken when the answer is not one handle."""
        answers = self.submit(launch, provider=provider)
        expect(len(answers) == 1, f"one launch was submitted, and {len(answers)} answers came")
        (answer,) = answers
        if isinstance(answer, Failure):
            raise Broken(f"a plain launch failed ({answer.kind}): {answer.message}")
        return answer

    def start(self, launch: Launch | None = None, provider: Provider | None = None) -> Started:
        """Submits a launch and waits until its program tells of itself."""
        launch = launch or self.launch()
        handle = self.handle_of(launch, provider)
        return Started(launch, handle, self.told_by(launch, handle))

    def told_by(self, launch: Launch, handle: Handle | None = None) -> Told:
        """Waits until its program tells of itself."""
        program = self.hub.program(launch.token)
        self.hear(lambda: bool(program.starts), launch, handle)
        return program.starts[0]

    def hear(self, is_heard: Callable[[], bool], launch: Launch, handle: Handle | None = None) -> None:
        """Waits for word of it. Broken, with what it printed, when none comes, or it ended before. Where not even the
        first launch was heard, nobody waits for others: the check is skipped."""
        bench = type(self)
        if bench._is_mute:
            raise SkipTest("not even the first launch was heard")
        next_look = time.monotonic() + _LOOK_EVERY

        def is_over() -> bool:
            nonlocal next_look
            if is_heard():
                return True
            if handle is not None and time.monotonic() > next_look:
                seen = self.provider.observe([handle]).get(handle, Observation(Phase.GONE))
                is_gone = seen.phase is Phase.GONE and not is_heard()
                expect(not is_gone, "the launch was accepted, and gone before it was heard")
                next_look = time.monotonic() + _LOOK_EVERY
            return False

        try:
            self.wait(is_over, "the launch was accepted, but what it starts was not heard")
        except Broken as error:
            bench._is_mute = bench._is_mute is None
            raise Broken(f"{error}{self._printed(launch)}") from None
        bench._is_mute = False

    def _printed(self, launch: Launch) -> str:
        """The last lines that it printed, as a part of a sentence; empty where nobody can read them."""
        try:
            log = Path(launch.directory, "agent.log").read_bytes() if self.is_here else self.lab.read_log(launch)
        except FileNotFoundError:
            return f"; there is no agent.log in {launch.directory}"
        except Exception:  # of the lab, too: what is told already is worth more
            return ""
        lines = log.decode("utf-8", "replace").splitlines()[-_LAST_LINES:]
        return "; it printed:\n" + "\n".join(lines) if lines else "; it printed nothing"

    def do(self, started: Started, what: str, **more: object) -> Told:
        """Has the program do it, and waits until it is done."""
        program = self.hub.program(started.launch.token)
        before = len(program.done)
        self.hub.tell(started.launch.token, what, **more)
        self.wait(lambda: len(program.done) > before, f"the program was told to {what} and was not heard again")
        return program.done[before]

    def exit(self, started: Started, code: int = 0) -> None:
        """Has the program end by itself, and waits until the provider tells that it is gone."""
        self.hub.tell(started.launch.token, "exit", code=code)
        self.wait_gone(started.handle)

    def look(self, handle: Handle, provider: Provider | None = None) -> Observation:
        """What is left out is gone. Skips the check where the place tells nothing of what it runs."""
        seen = (provider or self.provider).observe([handle]).get(handle, Observation(Phase.GONE))
        if seen.phase is Phase.UNKNOWN and self.is_run:
            raise SkipTest("it does not tell how its runs are")
        return seen

    def wait_phase(self, handle: Handle, phase: Phase, what: str) -> Observation:
        last: list[Observation] = []

        def is_there() -> bool:
            last[:] = [self.look(handle)]
            return last[0].phase is phase

        try:
            self.wait(is_there, what)
        except Broken as error:
            raise Broken(f"{error}, it says {last[0].phase.name}") from None
        return last[0]

    def wait_gone(self, handle: Handle) -> Observation:
        return self.wait_phase(handle, Phase.GONE, "it ended, and observe does not tell that it is gone")

    def wait(self, predicate: Callable[[], T], what: str, seconds: float | None = None) -> T:
        """The first true answer. Broken, with these words, when there is none in time."""
        limit = self.lab.patience if seconds is None else seconds
        deadline = time.monotonic() + limit
        while not (value := predicate()):
            if time.monotonic() > deadline:
                raise Broken(f"{what} (after {limit:g} s)")
            _pause.wait(_EVERY)
        return value

    def expect_no_calls(self, what: str, action: Callable[[], object]) -> None:
        """Broken when it makes native calls; where the lab does not count them, it is only done."""
        try:
            before = self.lab.calls()
        except SkipTest:
            action()
            return
        action()
        expect(self.lab.calls() == before, f"{what} makes native calls")

    def _work(self, token: str, order: str, args: tuple[str, ...], env: Mapping[str, str]) -> Work:
        argv = (sys.executable, "probe.py", *args)
        return Work(
            job="job1", run=f"run-{token[:8]}", attempt=1, workspace="kit", experiment="kit", argv=argv, command=argv,
            files=str(self.folder / "files"), env={**env, "TURNOUT_KIT": order},
        )  # fmt: skip

    def _program(self) -> Path:
        """The probe in the place of the agent."""
        path = self.folder / "agent.pyz"
        if not path.exists():
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("turnout/__init__.py", "")
                archive.writestr("turnout/agent/__init__.py", "")
                archive.writestr("turnout/agent/__main__.py", Path(probe.__file__).read_text("utf-8"))
        return path


def plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value))
