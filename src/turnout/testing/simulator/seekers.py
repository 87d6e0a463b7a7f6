"""What people search for, and what they do to a search while it goes on."""

from __future__ import annotations

import random
from functools import partial

from turnout.engine.changing import Change
from turnout.model.search import Aim, Elsewhere, Search
from turnout.model.spec import CommandKind, JobSpec, Resources, Retry, RunSpec
from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.link import Line, Refused
from turnout.testing.simulator.sampling import METRIC
from turnout.testing.simulator.world import LEASE, Process

#: Fates of the runs in turn, each of its attempts in turn.
_FATES = (["ok"], ["ok"], ["ok", "ok", "fail"], ["fail ok", "ok", "signal"], ["fail"], ["oom", "fail", "ok"])
_RETRIES = (Retry(), Retry(failures=0, losses=0), Retry(failures=1, losses=1))


def choose_search(rng: random.Random, key: str, targets: list[str]) -> JobSpec:
    """Of all kinds. One without a number of runs has nothing left to try at some time."""
    target, *others = rng.sample(targets, len(targets))
    also = tuple(Elsewhere(target=other) for other in others) if rng.random() < 0.5 else ()
    runs = rng.choice((1, 3, 4, 6, None))
    last = rng.randint(1, 5) if runs is None else rng.choice((None, None, None, 2))
    sampler = rng.choice(("learning", "learning", "foreseeing"))
    options = {
        "key": key, "fates": rng.choice(_FATES), "last": last, "is_shy": rng.random() < 0.2,
        "stumbles": rng.choice((None, None, None, 1, 3)),
    }  # fmt: skip
    search = Search(
        space={}, sampler=sampler, sampler_options=options, stopper=rng.choice((None, None, "talkative", "slow")),
        aims=(Aim(metric=METRIC),), runs=runs, seconds=rng.choice((None, None, None, 2.0, 6.0)),
        failures=rng.choice((10, 2, 0)), whole=runs is not None and rng.random() < 0.2,
    )  # fmt: skip
    return JobSpec(
        kind=CommandKind.COMMAND, display=("search",), runs=(RunSpec(argv=("work",)),), search=search, target=target,
        also=also, retry=rng.choice(_RETRIES), priority=rng.choice((0, 0, 5)),
        concurrent=rng.choice((None, 1, 2, 2, 4)), resources=Resources(cpus=rng.choice((None, None, 1))),
        parent_script=rng.choice((None, None, None, "prepare")),
    )  # fmt: skip


class Seeker:
    """Does to one search what comes to mind, each until it is answered; and resumes it now and then, whoever or
    whatever paused it."""

    def __init__(self, person: Process, hub: Hub, line: Line, key: str, job: int) -> None:
        self._person = person
        self._world = person.world
        self._hub = hub
        self._line = line
        self._key = key
        self._job = job
        self._asked = 0

    def begin(self) -> None:
        rng = self._world.rng
        for _ in range(rng.choice((0, 1, 1, 2))):
            self._person.after(rng.choice((0.1, 0.5, 1.5, 4.0, 9.0)), partial(self._ask, self._idea()))
        self._person.after(1.5, self._tend)

    def _idea(self) -> Change:
        rng = self._world.rng
        return rng.choice(
            (
                Change(action="pause"),
                Change(action="pause"),
                Change(action="resume"),
                Change(runs=rng.randint(1, 3), more=True),
                Change(runs=rng.randint(1, 3), more=True),
                Change(runs=5),
                Change(concurrent=rng.choice((0, 1, 3))),
            )
        )

    def _tend(self) -> None:
        self._ask(Change(action="resume"))
        self._person.after(2.5, self._tend)

    def _ask(self, change: Change) -> None:
        self._asked += 1
        self._send(f"{self._key}-{self._asked}", change)

    def _send(self, key: str, change: Change) -> None:
        what = change.action or ("runs" if change.runs else "concurrent")
        self._line.ask(
            partial(self._hub.on_change, key, self._job, change), timeout=LEASE,
            on_answer=lambda _: self._answered(what), on_trouble=partial(self._not_answered, key, change, what),
        )  # fmt: skip

    def _answered(self, what: str) -> None:
        self._world.note("person", "changed the search", self._job, what)
        self._world.sometimes(f"search changed: {what}")

    def _not_answered(self, key: str, change: Change, what: str, error: Exception) -> None:
        if isinstance(error, Refused):
            self._world.sometimes(f"search not changed: {what}, {error.status}")
        else:
            self._person.after(0.2, partial(self._send, key, change))
