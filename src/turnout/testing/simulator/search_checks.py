"""What must hold of searches: as they go on, and in the end by what their samplers heard and their runs were given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from turnout.model.search import Search
from turnout.model.spec import JobSpec
from turnout.model.state import ON_NODE, RunState
from turnout.plugin.sampler import Outcome
from turnout.schedule.record import Cause, RunRecord
from turnout.store.searches import OVER, Standing
from turnout.testing.simulator.checks import Broken
from turnout.testing.simulator.command import Truth
from turnout.testing.simulator.memory import Disk
from turnout.testing.simulator.model import MAX_RUNS
from turnout.testing.simulator.people import Person
from turnout.testing.simulator.sampling import SAMPLERS, Life
from turnout.testing.simulator.world import World
from turnout.wire.messages import Attempt

_ALL_MADE, _NOTHING_LEFT = "all its runs are made", "there is nothing left to try"
_TIME_UP, _NOTHING_WORKED, _CANCELLED = "its time is up", "none of its first", "it was cancelled"


class Before(NamedTuple):
    """How a search was when it was looked at last."""

    asked: int = 0
    on_nodes: int = 0
    most: float = 0
    most_ever: float = 0


class SearchWatch:
    """Looks at searches whenever something changed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before: dict[int, Before] = {}

    def look(self, standing: Standing, spec: JobSpec, runs: Sequence[RunRecord]) -> None:
        """No run but those that were proposed, no proposal but those that are wanted."""
        children = [record for record in runs if record.parent is not None]
        if not len(children) == standing.made <= standing.asked:
            raise Broken(f"job{standing.job} made {len(children)} runs: {standing}")
        before = self._before.get(standing.job, Before())
        wanted = math.inf if standing.wanted is None else standing.wanted
        if standing.made > wanted or standing.asked > max(wanted, before.asked):
            raise Broken(f"job{standing.job} was to make {standing.wanted} runs: {standing}")
        self._before[standing.job] = self._check_room(before, standing, spec, children)
        if standing.asked != before.asked:
            self._world.note("desk", "proposed", standing.asked, "runs of", standing.job)

    def _check_room(self, before: Before, standing: Standing, spec: JobSpec, children: Sequence[RunRecord]) -> Before:
        """Where there is one more than before there has to be room, by what may be at once now; or for a proposal, by
        what might when it was decided on. Nodes with as many slots may have the next at hand: they begin when there is
        a slot."""
        assert spec.search is not None
        most = math.inf if standing.concurrent is None else standing.concurrent
        learns = SAMPLERS[spec.search.sampler].ahead == 1 and not spec.search.whole
        on_nodes = sum(record.state in ON_NODE for record in children)
        running = sum(record.state is RunState.RUNNING for record in children)
        is_strict = learns or most < MAX_RUNS
        most_ever = max(most, before.most_ever)
        if running > most_ever or (is_strict and on_nodes > max(most, before.on_nodes)):
            raise Broken(f"job{standing.job} has {on_nodes} runs at once: {standing}")
        beside = sum(not record.is_terminal for record in children) + standing.asked - standing.made
        if learns and standing.asked > before.asked and beside > max(most, before.most):
            raise Broken(f"job{standing.job} proposed without room, {beside} in all: {standing}")
        return Before(standing.asked, on_nodes, most, most_ever)


def check_searches(disk: Disk, person: Person, truths: dict[Attempt, Truth], lives: Sequence[Life]) -> None:
    """Faults are over: each search came to its right end, each proposal to one run, each result to its sampler."""
    for job, standing in disk.searches.items():
        search = disk.jobs[job].search
        assert search is not None
        if standing.state != OVER:
            raise Broken(f"job{job} never ended: {standing}")
        children = _children(disk, job)
        if sorted(children) != list(range(1, standing.made + 1)):
            raise Broken(f"job{job} has the runs {sorted(children)}: {standing}")
        _check_size(disk, standing, search)
        for number, child in children.items():
            _check_params(disk, job, number, child, truths)
            _check_stopped(disk, child, person, truths)
        _check_lives(standing, children, [life for life in lives if life.key == search.sampler_options["key"]])
    _check_parents(disk)


def _children(disk: Disk, job: int) -> dict[int, RunRecord]:
    mine = [(row.child, disk.records[run]) for run, row in disk.rows.items() if row.job == job and row.child]
    numbers = [number for number, _ in mine]
    if len(set(numbers)) != len(numbers):
        raise Broken(f"job{job} made runs twice: {sorted(numbers)}")
    return dict(mine)


def _check_size(disk: Disk, standing: Standing, search: Search) -> None:
    """As many runs as it was to make, and it says why if there are fewer."""
    made, last, why = standing.made, search.sampler_options["last"], standing.message
    mine = [record for record in disk.records.values() if disk.rows[record.id].job == standing.job]
    parents = [record for record in mine if record.is_parent]
    is_cut = any(record.makes_no_more for record in parents)
    claims = {
        _ALL_MADE: is_cut or made == standing.wanted,
        _NOTHING_LEFT: is_cut or (last is not None and made == last),
        _TIME_UP: is_cut or (standing.deadline is not None and (standing.ended or 0.0) >= standing.deadline),
        _CANCELLED: is_cut,
    }
    is_any_good = any(record.state is RunState.COMPLETED and record.parent is not None for record in mine)
    gave_up = why.startswith(_NOTHING_WORKED) and not is_any_good
    is_said = gave_up or any(record.message == why for record in parents)  # its script failed
    if not claims.get(why, is_said):
        raise Broken(f"job{standing.job} ended with {made} runs: {standing}, {search}")


def _check_params(disk: Disk, job: int, number: int, child: RunRecord, truths: dict[Attempt, Truth]) -> None:
    """What was proposed for this number is what its run has and what each of its attempts was started with."""
    proposed = dict(disk.proposals[job][number - 1].params)
    attempts = [truths.get((child.id, attempt), Truth()) for attempt in range(1, child.attempt + 1)]
    seen = [params for attempt in attempts for params in attempt.params]
    if proposed["index"] != number or any(params != proposed for params in [disk.rows[child.id].params, *seen]):
        raise Broken(f"{disk.rows[child.id].name} was to have {proposed}: {disk.rows[child.id].params}, then {seen}")


def _check_stopped(disk: Disk, child: RunRecord, person: Person, truths: dict[Attempt, Truth]) -> None:
    """Whoever was asked to end for the search ended so, unless it came to its own end first, or a person asked, too."""
    if child.cancel not in (Cause.STOPPED, Cause.BUDGET):
        if child.state is RunState.STOPPED:
            raise Broken(f"{disk.rows[child.id].name} was stopped by nobody: {child}")
        return
    truth = truths.get((child.id, child.attempt), Truth())
    own = truth.fate is not None and truth.fate["cause"] not in (Cause.STOPPED, Cause.PREEMPTED)
    if child.state is not RunState.STOPPED and not own and disk.rows[child.id].name not in person.cancelled:
        raise Broken(f"{disk.rows[child.id].name} was to be stopped: {child}, {truth.fate}")


def _check_lives(standing: Standing, children: dict[int, RunRecord], lives: Sequence[Life]) -> None:
    """Each instance heard of each run at most once, and right; the last one of all."""
    for life in lives:
        for heard in (life.told, life.ended):
            numbers = [number for number, _ in heard]
            if len(set(numbers)) != len(numbers) or life.mistaken:
                raise Broken(f"job{standing.job} told {heard}, mistaken in {life.mistaken}")
            if any(Outcome(str(children[number].state)) is not outcome for number, outcome in heard):
                raise Broken(f"job{standing.job} told {heard}, but there is {children}")
    if {number for number, _ in lives[-1].told} != children.keys():
        raise Broken(f"the last sampler of job{standing.job} heard {lives[-1].told} of {sorted(children)}")


def _check_parents(disk: Disk) -> None:
    """One parent fails only if none of its children was good, its script failed, or the search gave up."""
    for run, parent in disk.records.items():
        if not parent.stage or parent.is_cancelled:
            continue
        is_wrong = parent.cause is not None or parent.message.startswith(_NOTHING_WORKED)
        is_failed = is_wrong or (parent.failed_children > 0 and not parent.good_children)
        if (parent.state is RunState.FAILED) != is_failed or (parent.state is RunState.COMPLETED) == is_failed:
            raise Broken(f"{disk.rows[run].name} is {parent.state}: {parent}")
