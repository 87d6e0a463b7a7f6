"""Pipelines while everything goes wrong that can: no run begins before all it needs is over well, none waits for ever,
and what is made late is made once.

A seed that fails prints its story; ``python -m turnout.testing.simulator --pipelines --seed N`` tells it again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from turnout.model.state import RunState
from turnout.schedule import machine, replay
from turnout.schedule.needs import End
from turnout.schedule.record import RunRecord, Step
from turnout.store import waiting
from turnout.testing.simulator import KINDS, Simulation, actions, expander, following, memory, simulate, unmade
from turnout.testing.simulator.expander import Expander
from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.keeper import Keeper
from turnout.testing.simulator.node import Held

CHUNK = 60
#: The model also knows what becomes of a node's machine that lost power.
SPARED = frozenset({"power cut"})
#: Without jobs that have nodes of their own: the engine starts those together, the model one after the other.
SAME = (1, 2, 5, 8, 9, 10, 12, 13, 14, 15, 16, 17)
#: What must have happened in every chunk.
SEEN = {
    "run let into the queue", "run given up: dependency", "run given up: condition", "run given up: unmade",
    "late step due", "run at its gate", "run let in at its gate",
    "late runs made", "late runs made already", "late step given up", "pipeline cancelled", "parent drained",
    "created -> queued", "created -> cancelled", "hub killed between commit and answer", "submission known",
    "agent given up: no sign of life, with runs", "power cut", "restart requested",
}  # fmt: skip


@pytest.mark.parametrize("chunk", range(2))
def test_every_pipeline_comes_to_its_right_end(chunk: int) -> None:
    seen: set[str] = set()
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        outcome = simulate(seed, pipelines=True)
        seen |= outcome.seen
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
    assert not SEEN - seen, f"never happened: {sorted(SEEN - seen)}"


@pytest.mark.parametrize("seed", SAME)
def test_engine_and_model_tell_the_same_story(seed: int) -> None:
    model = Simulation(seed, pipelines=True, spared=SPARED)
    told = [line for line in model.run().story().splitlines() if " gives up agent " not in line]
    real = Simulation(seed, real=True, pipelines=True, spared=SPARED)
    outcome = real.run()
    assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
    assert outcome.story().splitlines() == told
    assert real.disk.graph == model.disk.graph and real.disk.rows == model.disk.rows
    assert real.disk.after == model.disk.after


@pytest.mark.parametrize("seed", range(6))
def test_pipelines_go_on_at_sites_that_take_their_nodes_back(seed: int) -> None:
    outcome = simulate(seed, real=True, sites=True, pipelines=True)
    assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"


@pytest.mark.parametrize("chunk", range(2))
def test_pipelines_are_taken_up_again_whatever_state_they_are_in(chunk: int) -> None:
    seen: set[str] = set()
    for seed in range(chunk * 5, (chunk + 1) * 5):
        outcome = simulate(seed, real=True, pipelines=True, resumes=True)
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
        seen |= outcome.seen
    assert {"pipeline resumed", "pipeline resumed: nothing was missing"} <= seen


#: Nothing goes wrong but that hubs die.
DYING_HUBS = frozenset(KINDS) - {"kill hub", "fragile hub"}


def test_a_hub_that_dies_again_and_again_makes_late_runs_once() -> None:
    seen: set[str] = set()
    for seed in range(40):
        outcome = simulate(seed, pipelines=True, spared=DYING_HUBS)
        assert outcome.problem is None, f"{outcome.verdict()}\n{outcome.story()}"
        seen |= outcome.seen
    assert {"hub killed between commit and answer", "late runs made", "late step given up"} <= seen


# --- who gets it wrong is found out -----------------------------------------------------------------------------------

Break = Callable[[pytest.MonkeyPatch], None]


def forget_who_waits_for_a_lost_run(patch: pytest.MonkeyPatch) -> None:
    """The end that follows from the loss of an agent is not counted down."""
    lose = actions.lose

    def flawed(*given: Any, **more: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(following, "tell", lambda tx, ledger, ended: None)
            return lose(*given, **more)

    patch.setattr(actions, "lose", flawed)


def forget_who_waits_for_a_drained_parent(patch: pytest.MonkeyPatch) -> None:
    take = actions.take

    def flawed(*given: Any) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(following, "settle", lambda tx, ledger: None)
            return take(*given)

    patch.setattr(actions, "take", flawed)


def count_what_was_over_already(patch: pytest.MonkeyPatch) -> None:
    """A report that is repeated counts down again."""

    def ended(self: Any) -> list[RunRecord]:
        return [new for new in self._new.values() if new.is_terminal]

    patch.setattr(memory.Ledger, "ended", ended)


def let_go_with_the_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine, "unblock", lambda record: Step(record._replace(blocked=0), ()))


def let_go_of_all_for_one(patch: pytest.MonkeyPatch) -> None:
    """A step is taken for over with its first run."""
    count = following.count_down
    patch.setattr(
        following, "count_down", lambda disk, ended: {job: (runs, 0) for job, (runs, _) in count(disk, ended).items()}
    )


def forget_an_earlier_failure(patch: pytest.MonkeyPatch) -> None:
    def flawed(disk: memory.Disk, ledger: memory.Ledger, job: int) -> set[End]:
        return {End(each.state, each.reason) for each in ledger.ended() if disk.rows[each.id].job == job}

    patch.setattr(following, "ends_of", flawed)


def give_up_only_who_waits_itself(patch: pytest.MonkeyPatch) -> None:
    """Who waits for those that are given up is not told."""
    tell = following.tell

    def flawed(tx: Any, ledger: Any, ended: list[RunRecord]) -> None:
        tell(tx, ledger, [record for record in ended if record.state is not RunState.CANCELLED])

    patch.setattr(following, "tell", flawed)


def make_late_runs_twice(patch: pytest.MonkeyPatch) -> None:
    def flawed(disk: memory.Disk, job: int) -> bool:
        disk.graph.steps[job].unmade = False
        return True

    patch.setattr(unmade, "give_up_late", flawed)


def forget_what_was_due(patch: pytest.MonkeyPatch) -> None:
    """A hub makes only what became due in its own life."""
    boot = Hub._boot

    def flawed(self: Hub) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Expander, "look", lambda self: None)
            boot(self)

    patch.setattr(Hub, "_boot", flawed)


def make_what_was_cancelled(patch: pytest.MonkeyPatch) -> None:
    """The cancel of all knows nothing of what is not made yet."""
    patch.setattr(unmade, "late_steps", lambda disk, pipeline: [])


def go_on_after_a_failure(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("turnout.testing.simulator.expander.has_failures", lambda disk, pipeline: False)


def believe_that_it_left_all(patch: pytest.MonkeyPatch) -> None:
    for place in (machine, replay):
        patch.setattr(place, "outcome", lambda record, captured: (*machine.verdict(record), record.message))


def hand_on_half_of_it(patch: pytest.MonkeyPatch) -> None:
    left_for = actions.left_for
    patch.setattr(actions, "left_for", lambda disk, run: left_for(disk, run)[1:])


def hand_on_nothing_the_second_time(patch: pytest.MonkeyPatch) -> None:
    grant = actions._grant

    def flawed(disk: Any, record: RunRecord, slots: float) -> Any:
        made = grant(disk, record, slots)
        if record.attempt > 1:
            made.inputs.clear()
        return made

    patch.setattr(actions, "_grant", flawed)


def keep_what_was_given_up_in_mind(patch: pytest.MonkeyPatch) -> None:
    """A parent that is given up has still children to make."""
    abandon = machine.abandon

    def flawed(record: RunRecord, *given: Any) -> Any:
        step = abandon(record, *given)
        if not isinstance(step, Step):
            return step
        return Step(step.record._replace(remaining=record.remaining), step.events)

    patch.setattr(machine, "abandon", flawed)


def say_that_it_left_what_it_did_not(patch: pytest.MonkeyPatch) -> None:
    """An agent that looks before it is over, or takes a failed upload for a good one."""
    captured = Keeper._captured

    def flawed(self: Keeper, held: Held) -> None:
        held.files.left = True
        captured(self, held)

    patch.setattr(Keeper, "_captured", flawed)


def forget_what_is_done_again_before_a_late_step(patch: pytest.MonkeyPatch) -> None:
    """When a pipeline is taken up again."""
    block = waiting.set_blocked
    patch.setattr(waiting, "set_blocked", lambda tx, steps: block(tx, [(min(count, 1), job) for count, job in steps]))


def let_in_without_a_look(patch: pytest.MonkeyPatch) -> None:
    """At gates."""

    def flawed(tx: memory.Tx, ledger: memory.Ledger, run: int) -> None:
        record = ledger.get(run)
        if record is not None and record.state is RunState.CREATED:
            ledger.apply(machine.enqueue(record, tx.now))
            tx.touched.add("queue")

    patch.setattr(following, "release", flawed)


def look_at_what_it_did_not_wait_for(patch: pytest.MonkeyPatch) -> None:
    """At the gate of a run that waits for some runs of a step, what all of them have left is told."""
    look = expander.before_gate

    def flawed(disk: memory.Disk, job: int, run: int) -> Any:
        disk = copy.deepcopy(disk)
        steps = {disk.rows[on].job for on, each in disk.graph.run_needs if each == run}
        disk.graph.step_needs |= {(step, job) for step in steps}
        return look(disk, job, run)

    patch.setattr(expander, "before_gate", flawed)


def forget_who_follows(patch: pytest.MonkeyPatch) -> None:
    """Whose runs can be made when those of another step are."""
    make = expander._make

    def flawed(tx: memory.Tx, job: int, *given: Any) -> None:
        needs = tx.disk.graph.late_needs
        mine = {each for each in needs if each[0] == job and not each[2]}
        needs -= mine
        make(tx, job, *given)
        needs |= mine

    patch.setattr(expander, "_make", flawed)


def wait_for_all_of_it(patch: pytest.MonkeyPatch) -> None:
    """A late run that is made for a single one waits for its whole step."""
    settle_in = following.settle_in

    def flawed(tx: memory.Tx, ledger: memory.Ledger, job: int, runs: list[int]) -> None:
        graph = tx.disk.graph
        graph.step_needs |= {(on, job) for on, each, _ in graph.late_needs if each == job}
        settle_in(tx, ledger, job, runs)

    patch.setattr(following, "settle_in", flawed)


#: Each with what the simulator says of it.
FLAWS = [
    (count_what_was_over_already, "counts (open"),
    (let_go_with_the_first, "before all that it needs"),
    (let_go_of_all_for_one, "counts (open"),
    (forget_an_earlier_failure, "counts (open"),
    (give_up_only_who_waits_itself, "counts (open"),
    (make_late_runs_twice, "they were made again"),
    (make_what_was_cancelled, "in a pipeline that was over"),
    (go_on_after_a_failure, "in a pipeline that was over"),
    (believe_that_it_left_all, "left nothing of"),
    (hand_on_half_of_it, "was to have"),
    (hand_on_nothing_the_second_time, "was to have"),
    (keep_what_was_given_up_in_mind, "counts wrong"),
    (say_that_it_left_what_it_did_not, "left nothing of"),
    (let_in_without_a_look, "and was to be given up"),
    (look_at_what_it_did_not_wait_for, "and that was to be"),
    (forget_who_follows, "counts (open"),
    (wait_for_all_of_it, "and that is"),
]


#: What shows in few stories, and from which on it is looked for.
RARE = [
    (forget_who_waits_for_a_lost_run, 130, {}),
    (forget_who_waits_for_a_drained_parent, 100, {}),
    (forget_what_was_due, 60, {"spared": DYING_HUBS}),
    (forget_what_is_done_again_before_a_late_step, 5, {"real": True, "resumes": True}),
]


@pytest.mark.parametrize(("flaw", "verdict"), FLAWS, ids=[flaw.__name__ for flaw, _ in FLAWS])
def test_a_flaw_is_found(flaw: Break, verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flaw(monkeypatch)
    assert any(verdict in str(simulate(seed, pipelines=True).problem) for seed in range(300))


@pytest.mark.parametrize(("flaw", "first", "settings"), RARE, ids=[flaw.__name__ for flaw, *_ in RARE])
def test_a_rare_flaw_is_found(
    flaw: Break, first: int, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    flaw(monkeypatch)
    problems = (simulate(seed, pipelines=True, **settings).problem for seed in range(first, first + 200))
    assert any(problem is not None for problem in problems)
