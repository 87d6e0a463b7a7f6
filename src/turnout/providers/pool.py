"""Several boxes that are one place: a run that is sent there goes to any of them that has room.

Each box is looked after as if it were alone, so that one which cannot be reached harms no other: what is asked of
several is asked of all at the same time, and one that did not answer is left in peace for a while.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Observation, Phase, Provider, Seated
from turnout.plugin.settings import text, value
from turnout.plugin.transport import Broken
from turnout.providers.ssh import SshProvider

T = TypeVar("T")
_AT_ONCE = 32
#: How long a box gets no new agent after a failure of this kind: seconds the first time, and at most.
_PEACE = {"transient": (2.0, 60.0), "login": (60.0, 300.0), "rejected": (300.0, 600.0), "unsupported": (300.0, 600.0)}
#: How long its agents are not looked at. They wait for the connection, which comes back with a look.
_LONGEST_WITHOUT_LOOK = 5.0


@dataclass(frozen=True)
class PoolSettings:
    """Which boxes it has."""

    boxes: Sequence[str] = field(default=(), metadata={"doc": "Names of boxes; all boxes if there are none."})


@dataclass
class _Box:
    """One machine; `failure` is what was wrong with it the last time, until it answers."""

    provider: SshProvider
    python: str = ""
    max_runs: int | None = None
    failure: Failure | None = None
    failed_at: float = 0.0
    peace: float = 0.0

    def ask(self, question: Callable[[SshProvider], T]) -> T | Failure:
        """Its answer, or what is wrong with it; a failure after which nobody can tell is `Broken`."""
        try:
            answer = question(self.provider)
        except Failure as failure:
            self.failed(failure)
            return failure
        self.failure, self.peace = None, 0.0
        return answer

    def failed(self, failure: Failure) -> None:
        first, most = _PEACE.get(failure.kind, _PEACE["transient"])
        self.failure, self.failed_at = failure, time.monotonic()
        self.peace = min(max(first, 2 * self.peace), most)

    def rests(self, longest: float = float("inf")) -> bool:
        return self.failure is not None and time.monotonic() < self.failed_at + min(self.peace, longest)


class PoolProvider(Provider, Seated):
    """Its seats are the boxes; handles are ``box/`` and what the box itself calls the launch.

    `settings` has under ``boxes`` the entry of each box by its name, as the settings of a user have it.
    """

    name = "pool"
    Settings = PoolSettings
    capabilities = Capabilities(launches="agents", same_host=False)

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        entries = settings.get("boxes")
        common = {name: value for name, value in settings.items() if name != "boxes"}
        named = entries.items() if isinstance(entries, Mapping) else ()
        self._boxes = {str(name): _make(common, entry) for name, entry in named if isinstance(entry, Mapping)}

    def seats(self) -> Sequence[str]:
        """Those that take agents now; all, where none does, so that what is wrong is told."""
        return [name for name, box in self._boxes.items() if not box.rests()] or list(self._boxes)

    def seat_max_runs(self, seat: str) -> int | None:
        return self._boxes[seat].max_runs if seat in self._boxes else None

    def submit(self, launches: Sequence[Launch]) -> list[Handle | Failure]:
        answers = _at_once(partial(self._start, launch) for launch in launches)
        broken = next((each for each in answers if isinstance(each, Broken)), None)
        if broken is not None:
            raise broken
        return answers

    def observe(self, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        mine = _by_box(handles)
        seen = _at_once(partial(self._look, name, found) for name, found in mine.items())
        return {handle: each for part in seen for handle, each in part.items()}

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Failure, after all were asked, when a box could not be."""
        mine = {name: found for name, found in _by_box(handles).items() if name in self._boxes}
        answers = _at_once(partial(self._cancel, name, found) for name, found in mine.items())
        for answer in answers:
            if answer is not None:
                raise answer

    def find(self, token: str) -> Handle | None:
        """Failure when it may be on a box that does not answer."""
        return self._find(token, list(self._boxes))

    def find_at(self, seat: str, token: str) -> Handle | None:
        return self._find(token, [seat] if seat in self._boxes else list(self._boxes))

    def check(self) -> list[Finding]:
        if not self._boxes:
            hint = "`turnout box add NAME ADDRESS` adds one; `boxes: [a, b]` names those it has"
            return [Finding("problem", "the pool has no boxes", hint)]
        answers = _at_once(partial(self._check, name) for name in self._boxes)
        return [finding for findings in answers for finding in findings]

    def rest(self) -> None:
        _at_once(box.provider.rest for box in self._boxes.values())

    def _start(self, launch: Launch) -> Handle | Failure:
        name = launch.seat
        box = self._boxes.get(name)
        if box is None:
            return Failure(f"the pool has no box {name!r}", kind="rejected")
        answer = box.ask(lambda provider: provider.submit([replace(launch, python=launch.python or box.python)])[0])
        if isinstance(answer, Failure):
            box.failed(answer)
            # Whatever is wrong with one box is no reason to put off the others.
            return answer if isinstance(answer, Broken) else Failure(_of(name, answer).message)
        return f"{name}/{answer}"

    def _find(self, token: str, names: Sequence[str]) -> Handle | None:
        answers = _at_once(partial(self._boxes[name].ask, lambda box: box.find(token)) for name in names)
        failure: Failure | None = None
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, Failure):
                failure = _of(name, answer)
            elif answer is not None:
                return f"{name}/{answer}"
        if failure is not None:
            raise failure
        return None

    def _look(self, name: str, handles: Sequence[Handle]) -> dict[Handle, Observation]:
        box = self._boxes.get(name)
        if box is None:
            return {each: Observation(Phase.UNKNOWN, f"the pool has no box {name!r} any more") for each in handles}
        seen: dict[Handle, Observation] | Failure | None = box.failure
        if not box.rests(_LONGEST_WITHOUT_LOOK):
            seen = box.ask(lambda provider: provider.observe([_local(each) for each in handles]))
        if isinstance(seen, Failure):
            return {each: Observation(Phase.UNKNOWN, f"{name}: {seen.message}", host=name) for each in handles}
        assert seen is not None
        return {each: replace(seen[_local(each)], host=name) for each in handles if _local(each) in seen}

    def _cancel(self, name: str, handles: Sequence[Handle]) -> Failure | None:
        answer = self._boxes[name].ask(lambda provider: provider.cancel([_local(each) for each in handles]))
        return _of(name, answer) if isinstance(answer, Failure) else None

    def _check(self, name: str) -> list[Finding]:
        box = self._boxes[name]
        return [replace(each, what=_named(name, each.what)) for each in box.provider.check()]


def _make(common: Mapping[str, object], entry: Mapping[str, object]) -> _Box:
    most = value(entry, "max-runs")
    return _Box(SshProvider({**common, **entry}), text(entry, "python"), most if isinstance(most, int) else None)


def _by_box(handles: Iterable[Handle]) -> dict[str, list[Handle]]:
    found: dict[str, list[Handle]] = {}
    for handle in handles:
        found.setdefault(handle.rpartition("/")[0], []).append(handle)
    return found


def _local(handle: Handle) -> Handle:
    return handle.rpartition("/")[2]


def _of(name: str, failure: Failure) -> Failure:
    return Failure(_named(name, failure.message), kind=failure.kind, retry_after=failure.retry_after)


def _named(name: str, text: str) -> str:
    return text if text.startswith(name) else f"{name}: {text}"


def _at_once(questions: Iterable[Callable[[], T]]) -> list[T]:
    """The answers, in order. The threads are gone when this returns."""
    asked = list(questions)
    if len(asked) == 1:
        return [asked[0]()]
    with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(asked) or 1)) as threads:
        return list(threads.map(lambda question: question(), asked))
