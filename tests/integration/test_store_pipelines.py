"""Pipelines in the store: what is over well lets others into the queue, once; what is not gives up all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.integration.storing import Agent, Lab, at_once, captured, ended, job_spec, returned, running, staged
from tests.integration.storing import lab as lab
from turnout.blobs.store import BlobStore
from turnout.engine import steer
from turnout.engine.desk import Desk
from turnout.engine.expanding import Expander
from turnout.engine.following import Why, give_up_steps, settle
from turnout.engine.gates import look_at
from turnout.engine.late_runs import decide
from turnout.engine.resuming import resume
from turnout.engine.submit import PipelineSubmission, submit_pipeline
from turnout.errors import InvalidInput
from turnout.model.ids import job_name, parse_job_name
from turnout.model.pipeline import Gate, PipelineSpec, StepSpec, Terms
from turnout.model.search import Aim, Search
from turnout.model.spec import CommandKind, JobSpec, Retry, RunSpec
from turnout.model.state import Reason
from turnout.pipeline.native import plan, read
from turnout.pipeline.plan import RunPlan, StepPlan
from turnout.plugin.space import Range
from turnout.schedule.record import Stage
from turnout.search.spaces import to_plain
from turnout.store import deletion, late, leaving, reads, schema
from turnout.store import searches as searches_module
from turnout.store.ledger import Ledger
from turnout.store.queue import live_runs
from turnout.store.store import Store
from turnout.store.tallies import job_counts, state_of
from turnout.store.writer import Tx
from turnout.wire import manifest
from turnout.wire.messages import Grant

_KEYS = count()
LATE = {"made": "later"}
Needs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Step:
    spec: StepSpec
    job: JobSpec


def step(
    name: str, runs: int = 1, *, needs: Sequence[int] = (), singly: Sequence[Needs] = (),
    follows: Sequence[int] = (), late: dict[str, Any] | None = None, gate: Gate = Gate.NONE,
    job: JobSpec | None = None, **fields: Any,
) -> Step:  # fmt: skip
    """A step of so many runs; its job's `runs` may be given instead. One that is late and has no gate has none."""
    made = (
        ()
        if late is not None and not gate
        else tuple(RunSpec(argv=(name, str(number))) for number in range(1, runs + 1))
    )
    job = job or job_spec((name,), **{"label": name, "runs": made, **fields})
    spec = StepSpec(
        name=name, terms=0, runs=job.runs, display=job.display, needs=tuple(needs), run_needs=tuple(singly),
        follows=tuple(follows), late=late, gate=gate,
    )  # fmt: skip
    return Step(spec, job)


@dataclass
class Pipeline:
    """A pipeline that was submitted. Its runs are named ``step`` or ``step.2``: the second run of that step."""

    lab: Lab
    number: int
    jobs: dict[str, int]
    made: dict[str, list[str]]

    def name(self, run: str) -> str:
        step, _, place = run.partition(".")
        names = self.made[step] or self._made_late(step)
        return names[int(place or 1) - 1]

    def _made_late(self, step: str) -> list[str]:
        select = sa.select(schema.runs.c.number).where(schema.runs.c.job_id == self.jobs[step])
        numbers = self.lab.read(
            lambda connection: connection.execute(select.order_by(schema.runs.c.id)).scalars().all()
        )
        return [f"run{number}" for number in numbers]

    def ids(self, *runs: str) -> list[int]:
        return [self.lab.id(self.name(run)) for run in runs]

    def states(self, *runs: str) -> list[str]:
        return self.lab.states(*(self.name(run) for run in runs))

    def show(self, run: str) -> dict[str, Any]:
        return self.lab.show(self.name(run))

    def events(self, run: str) -> list[str]:
        return self.lab.events(self.name(run))

    def blocked(self, *runs: str) -> list[int]:
        return [self.lab.record(self.name(run)).blocked for run in runs]

    def columns(self, step: str) -> dict[str, Any]:
        """Its job's row."""
        select = sa.select(schema.jobs).where(schema.jobs.c.id == self.jobs[step])
        return dict(self.lab.read(lambda connection: connection.execute(select).mappings().one()))

    def open(self) -> dict[str, int]:
        """How many runs of each step are not over."""
        return {step: self.columns(step)["open"] for step in self.jobs}

    def cancel(self, *runs: str) -> dict[str, str]:
        return self.lab.cancel(*(self.name(run) for run in runs))

    def cancel_all(self) -> None:
        live = self.lab.read(lambda connection: live_runs(connection, job=self.number))
        by_id = {self.lab.id(name): name for names in self.made.values() for name in names}
        self.lab.cancel(*(by_id[run] for run in live))

    @property
    def state(self) -> str:
        return self.lab.read(lambda connection: state_of(job_counts(connection, [self.number])[self.number]))

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.lab.read(lambda connection: job_counts(connection, [self.number])[self.number]))


def submission(*steps: Step, key: str | None = None) -> PipelineSubmission:
    whole = JobSpec(kind=CommandKind.PIPELINE, display=("pipeline.yaml",), runs=())
    terms = tuple(Terms(job=replace(each.job, runs=(), display=())) for each in steps)
    specs = tuple(replace(each.spec, terms=number) for number, each in enumerate(steps))
    spec = PipelineSpec(job=whole, terms=terms, steps=specs)
    return PipelineSubmission(spec=spec, principal="user", key=key or f"pipeline-{next(_KEYS)}", body=b"")


def submitted(lab: Lab, *steps: Step) -> Pipeline:
    answer: Any = lab.store.write(lambda tx: submit_pipeline(tx, submission(*steps)))
    jobs = {name: parse_job_name(each["job"]) or 0 for name, each in answer["steps"].items()}
    runs = {name: each["runs"] for name, each in answer["steps"].items()}
    return Pipeline(lab, parse_job_name(answer["job"]) or 0, jobs, runs)


def end(grant: Grant, exit_code: int = 0, manifest: str | None = None, **body: Any) -> list[Any]:
    """All that a node tells of an attempt."""
    last = captured(grant, manifest=manifest, **body)
    return [staged(grant), running(grant), ended(grant, exit_code=exit_code), last]


def do(agent: Agent, *, fails: Sequence[str] = ()) -> list[str]:
    """The agent takes all there is and runs it; the labels of what it was."""
    grants = agent.take()
    for grant in grants:
        agent.tell(*end(grant, 3 if _label(grant) in fails else 0))
    return [_label(grant) for grant in grants]


def _label(grant: Grant) -> str:
    return ".".join(grant.argv)


# --- what is written --------------------------------------------------------------------------------------------------


def test_only_what_waits_for_nothing_is_in_the_queue(lab: Lab) -> None:
    pipe = submitted(
        lab, step("get", 2), step("each", 2, singly=(((0, 0),), ((0, 1),))), step("sum", needs=(0, 1)),
        step("both", needs=(0,), singly=(((1, 0), (1, 1)),)),
    )  # fmt: skip
    assert pipe.states("get.1", "get.2", "each.1", "each.2", "sum", "both") == ["queued"] * 2 + ["created"] * 4
    assert pipe.blocked("get.1", "each.1", "each.2", "sum", "both") == [0, 1, 1, 1, 3]
    assert [pipe.columns(name)["blocked"] for name in pipe.jobs] == [0, 0, 2, 1]
    assert pipe.open() == {"get": 2, "each": 2, "sum": 1, "both": 1}
    assert pipe.events("sum") == ["created", "capture_before"] and pipe.show("sum")["queued"] is None
    assert [grant.argv for grant in lab.agent().take()] == [["get", "1"], ["get", "2"]]


def test_who_waits_for_whom_is_kept(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 2), step("b", 2, singly=(((0, 1),), ((0, 0), (0, 1)))), step("c", needs=(1, 0, 1)))
    a1, a2, b1, b2 = pipe.ids("a.1", "a.2", "b.1", "b.2")
    singly, whole = lab.everything()["run_needs"], lab.everything()["step_needs"]
    assert set(singly) == {(a2, b1), (a1, b2), (a2, b2)}
    assert set(whole) == {(pipe.jobs["a"], pipe.jobs["c"]), (pipe.jobs["b"], pipe.jobs["c"])}
    (view,) = lab.read(lambda connection: reads.show_jobs(connection, [pipe.number]))
    assert [(each["name"], each["needs"]) for each in view["steps"]] == [("a", []), ("b", ["a"]), ("c", ["a", "b"])]


def test_a_submission_that_is_repeated_is_the_same_pipeline(lab: Lab) -> None:
    order = submission(step("a"), step("b", needs=(0,)), key="again")
    first = lab.store.write(lambda tx: submit_pipeline(tx, order))
    before = lab.everything()
    assert lab.store.write(lambda tx: submit_pipeline(tx, order)) == first
    assert lab.everything() == before
    with pytest.raises(InvalidInput):
        lab.store.write(lambda tx: submit_pipeline(tx, replace(order, body=b"other")))


def test_what_the_jobs_have_in_common_can_be_asked_of_the_pipeline(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 3), step("b", 2, needs=(0,)))
    assert pipe.columns("a")["pipeline"] == pipe.columns("b")["pipeline"] == pipe.number
    assert set(lab.read(lambda connection: live_runs(connection, job=pipe.number))) == set(
        pipe.ids("a.1", "a.2", "a.3", "b.1", "b.2")
    )


# --- let go -----------------------------------------------------------------------------------------------------------


def test_a_chain_is_done_link_by_link(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b", needs=(0,)), step("c", singly=(((1, 0),),)))
    agent = lab.agent()
    assert [do(agent) for _ in range(4)] == [["a.1"], ["b.1"], ["c.1"], []]
    assert pipe.events("c").count("queued") == 1
    assert (pipe.state, pipe.open()) == ("completed", {"a": 0, "b": 0, "c": 0})


def test_what_waits_for_single_runs_does_not_wait_for_their_siblings(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 3), step("b", 3, singly=(((0, 0),), ((0, 1),), ((0, 2),))))
    agent = lab.agent()
    first, second, _ = agent.take()
    agent.tell(*end(second))
    assert pipe.states("b.1", "b.2", "b.3") == ["created", "queued", "created"]
    agent.tell(*end(first))
    assert pipe.states("b.1", "b.2", "b.3") == ["queued", "queued", "created"]


def test_what_waits_for_a_whole_step_waits_for_all_its_runs(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 3), step("b", 2, needs=(0,)))
    agent = lab.agent()
    for grant in agent.take():
        assert pipe.states("b.1", "b.2") == ["created", "created"]
        agent.tell(*end(grant))
    assert pipe.states("b.1", "b.2") == ["queued", "queued"]


def test_it_waits_for_all_steps_that_it_needs(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b"), step("c", needs=(0, 1)))
    agent = lab.agent()
    first, second = agent.take()
    agent.tell(*end(first))
    assert (pipe.states("c"), pipe.blocked("c"), pipe.columns("c")["blocked"]) == (["created"], [1], 1)
    agent.tell(*end(second))
    assert (pipe.states("c"), pipe.blocked("c"), pipe.columns("c")["blocked"]) == (["queued"], [0], 0)


@pytest.mark.parametrize("whole", [False, True], ids=["singly", "whole"])
@pytest.mark.parametrize("reports", [1, 2])
def test_two_that_it_waits_for_let_it_in_once(lab: Lab, reports: int, whole: bool) -> None:
    last = step("b", needs=(0,)) if whole else step("b", singly=(((0, 0), (0, 1)),))
    pipe = submitted(lab, step("a", 2), last)
    agent = lab.agent()
    told = [end(grant) for grant in agent.take()]
    for items in told if reports == 2 else [told[0] + told[1]]:
        agent.tell(*items)
    assert pipe.states("b") == ["queued"]
    assert pipe.events("b") == ["created", "capture_before", "queued"]
    assert [grant.argv for grant in agent.take()] == [["b", "1"]]


def test_a_report_that_is_repeated_lets_nobody_in_again(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 2), step("b", singly=(((0, 0), (0, 1)),)), step("c", needs=(0,)))
    agent = lab.agent()
    first, second = agent.take()
    agent.tell(*end(first))
    before = lab.everything()
    for _ in range(3):
        agent.tell(*end(first))
    assert lab.everything() == before
    assert (pipe.blocked("b", "c"), pipe.open()["a"]) == ([1, 1], 1)
    agent.tell(*end(second))
    before = lab.everything()
    agent.tell(*end(first), *end(second))
    assert lab.everything() == before
    assert pipe.states("b", "c") == ["queued", "queued"] and pipe.open()["a"] == 0


def test_hubs_that_hear_at_once_let_it_in_once(lab: Lab) -> None:
    for _ in range(5):
        pipe = submitted(lab, step("a", 2), step("b", singly=(((0, 0), (0, 1)),)), step("c", needs=(0,)))
        agent = lab.agent()
        first, second = agent.take()
        with lab.twin() as other:
            at_once(partial(agent.tell, *end(first)), partial(agent.at(other).tell, *end(second)))
        assert pipe.states("b", "c") == ["queued", "queued"]
        assert [pipe.events(run).count("queued") for run in ("b", "c")] == [1, 1]
        assert do(agent) == ["b.1", "c.1"]


def test_one_that_is_tried_again_lets_nobody_in_before_it_is_well(lab: Lab) -> None:
    pipe = submitted(lab, step("a", retry=Retry(failures=1)), step("b", needs=(0,)), step("c", singly=(((0, 0),),)))
    agent = lab.agent()
    assert do(agent, fails=["a.1"]) == ["a.1"]
    assert pipe.states("a", "b", "c") == ["queued", "created", "created"] and pipe.open()["a"] == 1
    assert do(agent) == ["a.1"]
    assert pipe.states("a", "b", "c") == ["completed", "queued", "queued"]


def test_a_node_that_is_lost_or_gives_a_run_back_changes_nothing_for_who_waits(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b", needs=(0,)))
    first, second = lab.agent(), lab.agent()
    (grant,) = first.take()
    first.tell(staged(grant), running(grant))
    lab.lose(first)
    (grant,) = second.take()
    second.tell(returned(grant))
    assert pipe.states("a", "b") == ["queued", "created"] and pipe.open()["a"] == 1
    assert [do(second), do(second)] == [["a.1"], ["b.1"]]


def test_a_parent_is_over_with_its_last_child(lab: Lab) -> None:
    many = job_spec(("many",), repeat=3, label="many")
    pipe = submitted(lab, step("many", job=many), step("b", needs=(0,)), step("c", singly=(((0, 0),),)))
    agent = lab.agent()
    grants = agent.take(3)
    assert len(grants) == 3
    for grant in grants:
        assert pipe.states("b", "c") == ["created", "created"] and pipe.open()["many"] == 1
        agent.tell(*end(grant))
    assert pipe.states("b", "c") == ["queued", "queued"] and pipe.open()["many"] == 0


def test_a_parent_for_which_others_left_nothing_to_make_is_over_with_that(lab: Lab) -> None:
    """Its end follows from what a node takes, and is told nobody else."""
    shared = job_spec(("many",), nodes=2, total=2)
    pipe = submitted(lab, step("many", job=shared), step("b", needs=(0,)), step("c", singly=(((0, 1),),)))
    agent = lab.agent(queue=f"local#job{pipe.jobs['many']}.0")
    grants = agent.take(2)
    assert len(grants) == 2 and pipe.states("many.1", "many.2") == ["running", "completed"]
    assert pipe.open()["many"] == 1 and pipe.states("b", "c") == ["created", "queued"]
    for grant in grants:
        agent.tell(*end(grant))
    assert pipe.open()["many"] == 0 and pipe.states("b") == ["queued"]


def test_a_parent_that_waits_begins_with_all_its_children(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("many", job=job_spec(("many",), repeat=2), needs=(0,)))
    agent = lab.agent()
    assert do(agent) == ["a.1"]
    assert do(agent) == ["many", "many"] and pipe.state == "completed"


# --- given up ---------------------------------------------------------------------------------------------------------

_GIVEN_UP = ("cancelled", "dependency")


def ends(pipe: Pipeline, *runs: str) -> list[tuple[str, str]]:
    views = [pipe.show(run) for run in runs]
    return [(view["state"], view["reason"]) for view in views]


def test_a_failure_gives_up_the_chain_behind_it(lab: Lab) -> None:
    pipe = submitted(
        lab, step("a"), step("b", needs=(0,)), step("c", singly=(((1, 0),),)), step("d", needs=(2,)), step("other")
    )
    agent = lab.agent()
    assert do(agent, fails=["a.1"]) == ["a.1", "other.1"]
    assert ends(pipe, "b", "c", "d") == [_GIVEN_UP] * 3
    assert pipe.show("b")["message"] == f"{pipe.name('a')} failed"
    assert pipe.show("d")["message"] == f"{pipe.name('c')} was cancelled"
    assert pipe.events("d") == ["created", "capture_before", "ended"]
    assert do(agent) == [] and pipe.open() == dict.fromkeys(pipe.jobs, 0)
    assert pipe.state == "failed" and pipe.counts == {"failed": 1, "cancelled": 3, "completed": 1}


def test_one_side_of_a_diamond_is_enough(lab: Lab) -> None:
    pipe = submitted(
        lab, step("top"), step("left", needs=(0,)), step("right", needs=(0,)), step("end", needs=(1, 2)),
        step("beyond", singly=(((3, 0),),)),
    )  # fmt: skip
    agent = lab.agent()
    assert do(agent) == ["top.1"]
    left, right = agent.take()
    agent.tell(*end(left, 3))
    assert pipe.states("right", "end", "beyond") == ["starting", "cancelled", "cancelled"]
    agent.tell(*end(right))
    assert do(agent) == [] and pipe.open() == dict.fromkeys(pipe.jobs, 0)
    assert pipe.events("end").count("ended") == 1
    assert pipe.state == "failed"


@pytest.mark.parametrize("good_first", [True, False])
def test_both_sides_in_one_report(lab: Lab, good_first: bool) -> None:
    for last in (step("end", needs=(0, 1)), step("end", singly=(((0, 0), (1, 0)),))):
        pipe = submitted(lab, step("left"), step("right"), last)
        agent = lab.agent()
        left, right = agent.take()
        told = [end(left), end(right, 3)]
        agent.tell(*(item for items in (told if good_first else told[::-1]) for item in items))
        assert ends(pipe, "end") == [_GIVEN_UP] and pipe.open()["end"] == 0
        assert pipe.events("end") == ["created", "capture_before", "ended"]


def test_only_what_waits_for_the_run_that_failed_is_given_up(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 2), step("b", 2, singly=(((0, 0),), ((0, 1),))), step("c", needs=(1,)))
    agent = lab.agent()
    assert do(agent, fails=["a.1"]) == ["a.1", "a.2"]
    assert ends(pipe, "b.1", "c") == [_GIVEN_UP] * 2 and pipe.states("b.2") == ["queued"]
    assert do(agent) == ["b.2"]
    assert pipe.states("c") == ["cancelled"] and pipe.open() == {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_step_of_which_some_runs_failed_is_not_over_well(lab: Lab, failing: int) -> None:
    pipe = submitted(lab, step("a", 3), step("b", 2, needs=(0,)))
    agent = lab.agent()
    for grant in agent.take():
        agent.tell(*end(grant, 3 if _label(grant) == f"a.{failing}" else 0))
        assert pipe.open()["a"] >= 0
    assert ends(pipe, "b.1", "b.2") == [_GIVEN_UP] * 2
    assert (pipe.open(), pipe.state) == ({"a": 0, "b": 0}, "failed")
    assert pipe.counts == {"completed": 2, "failed": 1, "cancelled": 2}


@pytest.mark.parametrize("failing", [1, 2])
def test_a_step_of_which_one_run_failed_lets_nobody_in_when_a_parent_is_over(lab: Lab, failing: int) -> None:
    """The end of the parent and that of the other run are told in one report, and follow from it one by one."""
    two = job_spec(("two",), repeat=2)
    pipe = submitted(lab, step("two", job=two), step("a", 2), step("b", needs=(0, 1)))
    agent = lab.agent()
    told = [end(grant, 3 if _label(grant) == f"a.{failing}" else 0) for grant in agent.take()]
    agent.tell(*(item for items in told for item in items))
    assert ends(pipe, "b") == [_GIVEN_UP] and pipe.open() == {"two": 0, "a": 0, "b": 0}


def test_hubs_that_hear_good_and_bad_at_once_give_it_up(lab: Lab) -> None:
    for _ in range(5):
        pipe = submitted(lab, step("a", 2), step("b", 2, needs=(0,)), step("c", singly=(((0, 0), (0, 1)),)))
        agent = lab.agent()
        first, second = agent.take()
        with lab.twin() as other:
            at_once(partial(agent.tell, *end(first)), partial(agent.at(other).tell, *end(second, 3)))
        assert ends(pipe, "b.1", "b.2", "c") == [_GIVEN_UP] * 3
        assert pipe.open() == {"a": 0, "b": 0, "c": 0}


def test_a_parent_that_is_given_up_makes_no_children(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("many", job=job_spec(("many",), repeat=3), needs=(0,)))
    assert do(lab.agent(), fails=["a.1"]) == ["a.1"]
    record = lab.record(pipe.name("many"))
    assert (record.remaining, record.open_children, record.reason) == (0, 0, "dependency")
    assert pipe.counts == {"failed": 1, "cancelled": 3} and pipe.open() == {"a": 0, "many": 0}


def test_a_search_that_is_given_up_is_over(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("seek", job=seeking(), needs=(0,)))
    assert do(lab.agent(), fails=["a.1"]) == ["a.1"]
    for _ in range(2):
        tend(lab, pipe)
    assert ends(pipe, "seek") == [_GIVEN_UP] and standing(lab, pipe).state == searches_module.OVER
    assert lab.record(pipe.name("seek")).stage == Stage.CLOSED


def test_a_run_without_its_outputs_gives_up_who_waits_for_them(lab: Lab) -> None:
    runs = (RunSpec(argv=("a", "1"), outputs=("result.txt",)),)
    pipe = submitted(lab, step("a", runs=1, job=job_spec(("a",), runs=runs)), step("b", needs=(0,)))
    agent = lab.agent()
    (grant,) = agent.take()
    assert grant.outputs == ["result.txt"]
    agent.tell(*end(grant, missing=["result.txt"]))
    assert ends(pipe, "a", "b") == [("failed", "no_output"), _GIVEN_UP]


# --- cancelled --------------------------------------------------------------------------------------------------------


def test_a_run_that_waits_for_others_is_cancelled_at_once_and_who_waits_for_it_given_up(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b", 2, needs=(0,)), step("c", needs=(1,)), step("d", singly=(((1, 1),),)))
    assert pipe.cancel("b.1") == {pipe.name("b.1"): "cancelled"}
    assert ends(pipe, "b.1", "c") == [("cancelled", "user"), _GIVEN_UP]
    assert pipe.states("b.2", "d") == ["created", "created"]
    agent = lab.agent()
    assert [do(agent), do(agent), do(agent)] == [["a.1"], ["b.2"], ["d.1"]]
    assert pipe.open() == dict.fromkeys(pipe.jobs, 0) and pipe.state == "cancelled"


def test_cancelling_twice_changes_nothing(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b", needs=(0,)))
    pipe.cancel("b")
    before = lab.everything()
    assert pipe.cancel("b") == {pipe.name("b"): "over"}
    assert lab.everything() == before


def test_cancelling_all_leaves_nothing(lab: Lab) -> None:
    pipe = submitted(
        lab,
        step("a", 2),
        step("b", 2, singly=(((0, 0),), ((0, 1),))),
        step("c", needs=(1,)),
        step("late", late=LATE, needs=(2,)),
    )
    agent = lab.agent()
    (grant,) = agent.take(1)
    pipe.cancel_all()
    assert pipe.states("a.1", "a.2", "b.1", "b.2", "c") == ["starting"] + ["cancelled"] * 4
    assert ends(pipe, "a.2", "b.2", "c") == [("cancelled", "user")] * 3
    assert ends(pipe, "late") == [_GIVEN_UP]
    agent.tell(staged(grant), running(grant), ended(grant, cause="cancelled", exit_code=None), captured(grant))
    assert pipe.open() == dict.fromkeys(pipe.jobs, 0)
    assert pipe.state == "cancelled" and agent.take() == []


def test_one_that_was_cancelled_on_its_node_and_completed_all_the_same_lets_others_in(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b", needs=(0,)))
    agent = lab.agent()
    (grant,) = agent.take()
    assert pipe.cancel("a") == {pipe.name("a"): "requested"}
    assert pipe.states("b") == ["created"]
    agent.tell(*end(grant))
    assert pipe.states("a", "b") == ["completed", "queued"]


# --- late steps -------------------------------------------------------------------------------------------------------


def due(lab: Lab) -> list[str]:
    return [each.name for each in lab.read(late.due_steps)]


def at_gates(lab: Lab) -> list[str]:
    return [found.step.name for found in lab.read(late.at_gates)]


def look(lab: Lab) -> None:
    """At all runs that are at their gates."""
    blobs: Any = None
    for found in lab.read(late.at_gates):
        look_at(lab.store, blobs, found)


def make(lab: Lab, pipe: Pipeline, step: str, count: int = 1, *, outputs: tuple[str, ...] = ()) -> None:
    """So many runs, which wait for nothing but what their step waited for."""
    made = [RunPlan(label="", argv=(step, str(number)), outputs=outputs) for number in range(1, count + 1)]
    make_all(lab, pipe, StepPlan(name=step, runs=tuple(made)), whole=True)


def make_all(lab: Lab, pipe: Pipeline, made: StepPlan, *, whole: bool = False) -> None:
    job = pipe.jobs[made.name]
    before = lab.read(lambda connection: leaving.before_making(connection, job))
    made = replace(made, needs=tuple(before)) if whole else made
    lab.store.write(lambda tx: decide(tx, late.LateStep(job, made.name, {}), made, before))


def test_a_late_step_is_due_when_all_that_it_needs_is_over_well(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 2), step("b"), step("late", late=LATE, needs=(0, 1)), step("c", needs=(2,)))
    assert due(lab) == [] and pipe.made["late"] == []
    agent = lab.agent()
    first, second, third = agent.take()
    agent.tell(*end(first))
    agent.tell(*end(second))
    assert due(lab) == [] and pipe.columns("late")["blocked"] == 1
    agent.tell(*end(third))
    (found,) = lab.read(late.due_steps)
    assert (found.job, found.name, found.late) == (pipe.jobs["late"], "late", LATE)
    assert agent.take() == [] and pipe.states("c") == ["created"] and pipe.state == "running"


def test_its_runs_are_made_once(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("late", late=LATE, needs=(0,)), step("c", needs=(1,)))
    agent = lab.agent()
    do(agent)
    make(lab, pipe, "late", 2)
    before = lab.everything()
    make(lab, pipe, "late", 2)
    assert lab.everything() == before and due(lab) == []
    assert pipe.open()["late"] == 2 and pipe.states("late.1", "late.2", "c") == ["queued", "queued", "created"]
    assert do(agent) == ["late.1", "late.2"]
    assert do(agent) == ["c.1"] and pipe.state == "completed" and pipe.open() == {"a": 0, "late": 0, "c": 0}


def test_hubs_that_make_them_at_once_make_them_once(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("late", late=LATE, needs=(0,)))
    do(lab.agent())
    with lab.twin() as other:
        at_once(partial(make, lab, pipe, "late", 2), partial(make, other, pipe, "late", 2))
    assert pipe.open()["late"] == 2 and do(lab.agent()) == ["late.1", "late.2"]


def test_one_stands_for_the_runs_that_will_not_be_made(lab: Lab) -> None:
    pipe = submitted(
        lab, step("a"), step("late", late=LATE, needs=(0,)), step("later", late=LATE, needs=(1,)), step("c", needs=(2,))
    )
    assert do(lab.agent(), fails=["a.1"]) == ["a.1"]
    assert ends(pipe, "late", "later", "c") == [_GIVEN_UP] * 3
    assert [len(pipe._made_late(name)) for name in ("late", "later")] == [1, 1]
    assert due(lab) == [] and pipe.open() == dict.fromkeys(pipe.jobs, 0)
    assert pipe.state == "failed" and pipe.counts == {"failed": 1, "cancelled": 3}
    before = lab.everything()
    make(lab, pipe, "late", 2)
    assert lab.everything() == before


def test_a_late_step_that_several_failures_concern_has_one_stand_in(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 2), step("b"), step("late", late=LATE, needs=(0, 1)))
    agent = lab.agent()
    for grant in agent.take():
        agent.tell(*end(grant, 3))
    assert len(pipe._made_late("late")) == 1 and ends(pipe, "late") == [_GIVEN_UP]
    assert pipe.open() == {"a": 0, "b": 0, "late": 0}


def test_a_late_step_whose_runs_cannot_be_made_gives_up_who_waits_for_it(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("late", late=LATE, needs=(0,)), step("c", needs=(1,)))
    do(lab.agent())

    def give_up(tx: Tx) -> None:
        ledger = Ledger(tx)
        give_up_steps(tx, ledger, {pipe.jobs["late"]: Why("no file", Reason.UNMADE)})
        settle(tx, ledger)
        ledger.flush()

    lab.store.write(give_up)
    assert pipe.show("late")["message"] == "no file"
    assert ends(pipe, "late", "c") == [("failed", "unmade"), _GIVEN_UP] and pipe.state == "failed"
    assert pipe.show("c")["message"] == f"{pipe.name('late')} failed"
    before = lab.everything()
    lab.store.write(give_up)
    assert lab.everything() == before


def test_what_was_left_for_a_late_step(lab: Lab) -> None:
    runs = tuple(
        RunSpec(argv=("a", str(number)), label=f"a-{number}", params={"x": number}, outputs=("*.txt",))
        for number in (1, 2)
    )
    pipe = submitted(lab, step("a", job=job_spec(("a",), runs=runs)), step("b"), step("late", late=LATE, needs=(0,)))
    agent = lab.agent()
    for number, grant in enumerate(agent.take()):
        agent.tell(*end(grant, manifest=f"m{number}"))
    left = lab.read(lambda connection: leaving.before_making(connection, pipe.jobs["late"]))
    assert [(each.label, each.values, each.after, each.outputs, each.is_well) for each in left["a"]] == [
        ("a-1", {"x": 1}, "m0", ["*.txt"], True), ("a-2", {"x": 2}, "m1", ["*.txt"], True),
    ]  # fmt: skip
    assert left.keys() == {"a"}
    assert [each.id for each in left["a"]] == pipe.ids("a.1", "a.2")


def bearing(*needs: int) -> Step:
    """A late step that waits for the ends of others, whatever they are."""
    made = asking("late", *needs)
    return replace(made, spec=replace(made.spec, runs=()))


def asking(name: str, *needs: int, when: str = "always", job: JobSpec | None = None) -> Step:
    """A step with a condition, by which it asks about `a`."""
    steps = {"a": {"command": "a"}, name: {"command": name, "needs": "a", "when": when}}
    _, planned = plan(read({"steps": steps}, "p.yaml"), lambda pattern: []).steps
    assert planned.late is not None and planned.gate
    return step(name, needs=needs, late=planned.late.plain(), gate=planned.gate, job=job)


def take_up(lab: Lab, pipe: Pipeline, *later: str) -> Any:
    """The steps that are done again; `later` are those that should be, but for what is under way."""
    told: Any = lab.store.write(lambda tx: resume(tx, pipe.number))
    assert told["later"] == list(later)
    return told["steps"]


def test_a_late_step_that_bears_failures_waits_again_for_what_is_done_again(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b"), bearing(0, 1))
    agent = lab.agent()
    first, second = agent.take()
    agent.tell(*end(first, 3))
    assert pipe.columns("late")["blocked"] == 1
    assert take_up(lab, pipe).keys() == {"a"} and pipe.columns("late")["blocked"] == 2
    assert do(agent) == ["a.1"] and due(lab) == [], "the other is not over"
    agent.tell(*end(second))
    assert due(lab) == ["late"]


def test_runs_that_wait_for_runs_of_a_step_that_is_asked_again_are_made_anew(lab: Lab) -> None:
    """Their needs are no more, and others may be there."""
    pipe = submitted(lab, step("a"), asking("x", 0), step("y", late=LATE, needs=(1,)), step("z", needs=(2,)))
    agent = lab.agent()
    do(agent, fails=["a.1"])
    look(lab)
    do(agent)
    make(lab, pipe, "y")
    do(agent, fails=["y.1"])
    assert pipe.counts == {"completed": 1, "failed": 2, "cancelled": 1}
    assert list(take_up(lab, pipe)) == ["a", "x", "y", "z"] and due(lab) == []
    assert [step for step in ("x", "y") if pipe.columns(step)["blocked"] == 1] == ["x", "y"]
    assert do(agent) == ["a.1"] and at_gates(lab) == ["x"]
    look(lab)
    assert do(agent) == ["x.1"] and due(lab) == ["y"]
    make(lab, pipe, "y")
    assert [do(agent), do(agent)] == [["y.1"], ["z.1"]]
    assert (pipe.open(), pipe.state) == (dict.fromkeys(pipe.jobs, 0), "completed")


def test_what_is_under_way_keeps_what_it_was_made_of(lab: Lab) -> None:
    """What it reads would be gone. Who resumes the pipeline after that has it made anew, with what follows."""
    pipe = submitted(lab, step("a"), asking("x", 0), step("u", late=LATE, needs=(1,)))
    agent = lab.agent()
    do(agent, fails=["a.1"])
    look(lab)
    do(agent)
    make(lab, pipe, "u", 2)
    first, second = agent.take()
    agent.tell(*end(first, 3))
    assert list(take_up(lab, pipe, "x")) == ["a", "u"]
    assert do(agent) == ["a.1", "u.1"] and due(lab) == []
    agent.tell(*end(second))
    assert (pipe.state, due(lab)) == ("completed", [])
    assert list(take_up(lab, pipe)) == ["x", "u"] and at_gates(lab) == ["x"]
    look(lab)
    assert do(agent) == ["x.1"] and due(lab) == ["u"]
    make(lab, pipe, "u", 2)
    assert do(agent) == ["u.1", "u.2"] and pipe.state == "completed"
    assert take_up(lab, pipe) == {}


def x_leaves() -> JobSpec:
    return job_spec(("x",), label="x", runs=(RunSpec(argv=("x", "1"), outputs=("out/*",)),))


def test_what_is_in_the_queue_behind_it_is_given_what_it_left(lab: Lab) -> None:
    steps = step("z"), asking("x", 0, job=x_leaves()), step("c", needs=(1,)), step("d", needs=(2,))
    pipe, agent = submitted(lab, *steps), lab.agent()
    do(agent, fails=["z.1"])
    look(lab)
    (x,) = agent.take()
    agent.tell(*end(x, manifest="m1"))
    assert list(take_up(lab, pipe, "x")) == ["z"]
    given = {_label(grant): grant for grant in agent.take()}
    assert given.keys() == {"z.1", "c.1"} and given["c.1"].inputs == [("m1", ["out/*"])]
    for grant in given.values():
        agent.tell(*end(grant))
    assert do(agent) == ["d.1"] and (pipe.open(), pipe.state) == (dict.fromkeys(pipe.jobs, 0), "completed")
    assert list(take_up(lab, pipe)) == ["x", "c", "d"], "all that was made of what has changed"
    look(lab)
    assert [do(agent), do(agent), do(agent)] == [["x.1"], ["c.1"], ["d.1"]]
    assert (pipe.open(), pipe.state, take_up(lab, pipe)) == (dict.fromkeys(pipe.jobs, 0), "completed", {})


@pytest.mark.parametrize("whole", [True, False])
def test_what_still_waits_behind_it_waits_for_what_is_made_anew(lab: Lab, whole: bool) -> None:
    c = step("c", needs=(1, 2)) if whole else step("c", singly=(((1, 0), (2, 0)),))
    pipe = submitted(lab, step("z"), asking("x", 0, job=x_leaves()), step("b"), c)
    agent = lab.agent()
    z, b = agent.take()
    agent.tell(*end(z, 3))
    look(lab)
    (x,) = agent.take()
    agent.tell(*end(x, manifest="m1"))
    assert list(take_up(lab, pipe)) == ["z", "x"] and pipe.columns("c")["blocked"] == 2 * whole
    agent.tell(*end(b))
    assert do(agent) == ["z.1"] and do(agent) == []
    look(lab)
    (x,) = agent.take()
    agent.tell(*end(x, manifest="m2"))
    (grant,) = agent.take()
    assert (_label(grant), grant.inputs) == ("c.1", [("m2", ["out/*"])])
    agent.tell(*end(grant))
    assert (pipe.open(), pipe.state, take_up(lab, pipe)) == (dict.fromkeys(pipe.jobs, 0), "completed", {})


def test_what_was_made_of_single_runs_that_are_made_anew_is_made_anew(lab: Lab) -> None:
    pairs = ((2, 0),), ((2, 1),)
    steps = step("a"), asking("x", 0), step("b", 2, needs=(1,)), step("c", 2, singly=pairs), step("d", 2)
    pipe, agent = submitted(lab, *steps), lab.agent()
    do(agent, fails=["a.1"])
    look(lab)
    assert [do(agent), do(agent), do(agent)] == [["x.1"], ["b.1", "b.2"], ["c.1", "c.2"]]
    assert {step: len(runs) for step, runs in take_up(lab, pipe).items()} == {"a": 1, "x": 1, "b": 2, "c": 2}
    assert do(agent) == ["a.1"]
    look(lab)
    assert [do(agent), do(agent), do(agent)] == [["x.1"], ["b.1", "b.2"], ["c.1", "c.2"]]
    assert (pipe.open(), pipe.counts) == (dict.fromkeys(pipe.jobs, 0), {"completed": 8})


def test_a_late_step_is_made_of_the_files_that_count(lab: Lab, tmp_path: Path) -> None:
    """In our own language: what is found the second time, and nothing of the first."""
    texts = {
        "z": {"command": "z"},
        "a": {"command": "a", "needs": "z", "when": "always", "outputs": "out/*.txt"},
        "l": {"command": "l {file}", "each": "out/*.txt", "needs": "a"},
    }  # fmt: skip
    planned = plan(read({"steps": texts}, "p.yaml"), lambda pattern: []).steps
    jobs = [
        job_spec((each.name,), label=each.name, runs=tuple(
            RunSpec(argv=run.argv if each.name != "z" else ("z", "1"), outputs=run.outputs) for run in each.runs
        ))
        for each in planned
    ]  # fmt: skip
    needs = {"z": (), "a": (0,), "l": (1,)}
    pipe = submitted(lab, *(
        step(each.name, needs=needs[each.name], late=each.late.plain() if each.late else None, gate=each.gate, job=job)
        for each, job in zip(planned, jobs, strict=True)
    ))  # fmt: skip
    agent, blobs = lab.agent(), BlobStore(tmp_path)
    expander = Expander(lab.store, blobs, lambda job: None)

    def left(*files: str) -> str:
        whole = manifest.encode([manifest.Entry(file, 0o644, 1, manifest.digest_of(b"x")) for file in files])
        blobs.put_many([(manifest.digest_of(b"x"), b"x"), (manifest.digest_of(whole), whole)])
        return manifest.digest_of(whole)

    def do_all(*files: str, fails: str) -> list[str]:
        """What `l` does after `a` has left these."""
        assert expander.look()
        (grant,) = agent.take()
        agent.tell(*end(grant, manifest=left(*files)))
        assert expander.look()
        grants = agent.take()
        for grant in grants:
            agent.tell(*end(grant, int(grant.argv[-1].endswith(fails))))
        return [grant.argv[-1] for grant in grants]

    do(agent, fails=["z.1"])
    assert do_all("out/1.txt", "out/2.txt", fails="2.txt") == ["l out/1.txt", "l out/2.txt"]
    assert list(take_up(lab, pipe)) == ["z", "a", "l"]
    do(agent)
    assert do_all("out/3.txt", fails="none") == ["l out/3.txt"]
    assert (pipe.counts, pipe.state) == ({"completed": 3}, "completed")


def test_after_one_of_its_steps_was_deleted(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("b", needs=(0,)), step("c", needs=(0, 1)))
    agent = lab.agent()
    do(agent)
    do(agent, fails=["b.1"])
    lab.store.write(lambda tx: deletion.delete(tx, deletion.Wanted(jobs=[job_name(pipe.jobs["a"])])))
    assert list(take_up(lab, pipe)) == ["b", "c"]
    assert [do(agent), do(agent)] == [["b.1"], ["c.1"]]


def test_runs_that_are_due_no_more_are_not_made(lab: Lab) -> None:
    """Something before them is done again between the look that found them due, and what follows from it."""
    pipe = submitted(lab, step("a"), bearing(0))
    agent = lab.agent()
    do(agent, fails=["a.1"])
    assert due(lab) == ["late"]
    take_up(lab, pipe)
    before = lab.everything()
    make(lab, pipe, "late")
    assert lab.everything() == before and due(lab) == []
    assert do(agent) == ["a.1"] and due(lab) == ["late"]
    make(lab, pipe, "late")
    look(lab)
    assert do(agent) == ["late.1"] and pipe.open()["late"] == 0


@dataclass
class Interrupted:
    """A store in which something else is written between what is read and what is written, the first time."""

    store: Store
    meanwhile: Callable[[], object] | None

    def read(self) -> Any:
        return self.store.read()

    def write(self, work: Callable[[Tx], Any]) -> Any:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return self.store.write(work)


@pytest.mark.parametrize(("when", "state"), [("failure", "cancelled"), ("a.state = 'completed'", "queued")])
def test_a_step_is_not_decided_on_from_ends_that_count_no_more(lab: Lab, when: str, state: str, tmp_path: Path) -> None:
    """What it asks about failed when that was read, and has completed when it is decided on: resumed, and quick."""
    pipe, agent = submitted(lab, step("a"), asking("late", 0, when=when)), lab.agent()
    do(agent, fails=["a.1"])

    def meanwhile() -> None:
        take_up(lab, pipe)
        assert do(agent) == ["a.1"] and at_gates(lab) == ["late"]

    store: Any = Interrupted(lab.store, meanwhile)
    expander = Expander(store, BlobStore(tmp_path), lambda job: None)
    assert expander.look() and at_gates(lab) == ["late"], "what was read counts no more"
    assert expander.look() and at_gates(lab) == []
    assert pipe.states("late") == [state]


def test_nobody_is_let_past_a_gate(lab: Lab) -> None:
    """One that is held may be released; one at its gate is not held."""
    pipe, agent = submitted(lab, step("a"), asking("x", 0, when="failure")), lab.agent()
    do(agent)
    assert lab.store.write(lambda tx: steer.release(tx, pipe.ids("x"))) == [] and pipe.states("x") == ["created"]
    look(lab)
    assert ends(pipe, "x") == [("cancelled", "condition")] and do(agent) == []


def test_what_was_left_and_is_gone_is_no_run_that_waits_for_ever(lab: Lab, tmp_path: Path) -> None:
    texts = {"a": {"command": "a", "outputs": "*.txt"}, "x": {"command": "x {inputs}", "collect": "a"}}
    a, x = plan(read({"steps": texts}, "p.yaml"), lambda pattern: []).steps
    assert x.late is not None
    pipe = submitted(
        lab, step("a", job=of_files("a", 1, a.runs[0].outputs)), step("x", needs=(0,), late=x.late.plain(), gate=x.gate)
    )
    agent = lab.agent()
    (grant,) = agent.take()
    agent.tell(*end(grant, manifest="0" * 64))
    assert Expander(lab.store, BlobStore(tmp_path), lambda job: None).look()
    assert ends(pipe, "x") == [("failed", "unmade")] and pipe.state == "failed"


def skip(lab: Lab, pipe: Pipeline, late: str) -> None:
    def work(tx: Tx) -> None:
        ledger = Ledger(tx)
        give_up_steps(tx, ledger, {pipe.jobs[late]: Why("it is not to be done", Reason.CONDITION)})
        settle(tx, ledger)
        ledger.flush()

    lab.store.write(work)


def test_what_needs_a_step_that_was_skipped_is_skipped_when_all_else_is_taken_up_again(lab: Lab) -> None:
    """As if nothing else had failed first."""
    more = step("more", late=LATE, needs=(1, 2)), step("d", needs=(3, 4))
    pipe = submitted(lab, step("a"), step("late", late=LATE, needs=(0,)), step("b"), step("c", needs=(1, 2)), *more)
    agent = lab.agent()
    do(agent, fails=["b.1"])
    skip(lab, pipe, "late")
    assert pipe.counts == {"completed": 1, "failed": 1, "skipped": 1, "cancelled": 3}
    assert take_up(lab, pipe).keys() == {"b"}
    assert do(agent) == ["b.1"] and do(agent) == [] and due(lab) == []
    assert (pipe.open(), pipe.state) == (dict.fromkeys(pipe.jobs, 0), "completed")
    assert pipe.counts == {"completed": 2, "skipped": 4}
    before = lab.everything()
    assert take_up(lab, pipe) == {} and lab.everything() == before


def test_what_was_cancelled_and_needs_a_step_that_was_skipped_is_skipped_when_it_is_taken_up_again(lab: Lab) -> None:
    pipe = submitted(lab, step("late", late=LATE), step("c", 2, needs=(0,)), step("d", needs=(1,)))
    pipe.cancel("c.1", "c.2")
    skip(lab, pipe, "late")
    assert take_up(lab, pipe) == {} and pipe.counts == {"skipped": 4} and do(lab.agent()) == []


def test_a_run_that_waits_for_one_that_was_skipped_does_not_wait_for_ever(lab: Lab) -> None:
    """Also where it was given up for another that failed first, and is done again."""
    steps = step("a"), step("late", late=LATE, needs=(0,)), step("t", 2, needs=(1,)), step("v", 2)
    pairs = (((2, 0), (3, 0)), ((2, 1), (3, 1)))
    pipe = submitted(lab, *steps, step("u", 2, singly=pairs), step("w", needs=(4,)))
    agent = lab.agent()
    do(agent, fails=["v.1"])
    skip(lab, pipe, "late")
    assert [reason for _, reason in ends(pipe, "u.1", "u.2")] == ["dependency", "condition"]
    assert take_up(lab, pipe).keys() == {"v"}
    assert do(agent) == ["v.1"] and do(agent) == []
    assert (pipe.open(), pipe.state) == (dict.fromkeys(pipe.jobs, 0), "completed")
    assert pipe.counts == {"completed": 3, "skipped": 6}


def test_what_was_skipped_for_a_condition_that_is_asked_again_is_done_if_that_holds(lab: Lab) -> None:
    steps = step("a"), bearing(0), step("c", 2, needs=(1,)), step("d", 2, singly=(((2, 0),), ((2, 1),)))
    pipe = submitted(lab, *steps, step("e", needs=(3,)))
    agent = lab.agent()
    do(agent, fails=["a.1"])
    skip(lab, pipe, "late")
    assert pipe.counts == {"failed": 1, "skipped": 6}
    assert list(take_up(lab, pipe)) == ["a", "late", "c", "d", "e"]
    assert do(agent) == ["a.1"] and due(lab) == ["late"]
    make(lab, pipe, "late")
    look(lab)
    assert do(agent) == ["late.1"]
    assert [do(agent), do(agent), do(agent)] == [["c.1", "c.2"], ["d.1", "d.2"], ["e.1"]]
    assert (pipe.open(), pipe.state) == (dict.fromkeys(pipe.jobs, 0), "completed")


# --- what is handed on ------------------------------------------------------------------------------------------------


def of_files(name: str, runs: int, outputs: tuple[str, ...] = ("out/*",)) -> JobSpec:
    commands = tuple(RunSpec(argv=(name, str(number)), outputs=outputs) for number in range(1, runs + 1))
    return job_spec((name,), runs=commands)


def test_a_run_is_given_what_the_runs_left_that_it_waited_for(lab: Lab) -> None:
    submitted(
        lab, step("a", job=of_files("a", 2)), step("b", 2), step("one", singly=(((0, 1),),)), step("all", needs=(0, 1))
    )
    agent = lab.agent()
    for number, grant in enumerate(agent.take(), 1):
        assert grant.inputs == []
        agent.tell(*end(grant, manifest=f"m{number}"))
    given = {_label(grant): grant.inputs for grant in agent.take()}
    assert given == {"one.1": [("m2", ["out/*"])], "all.1": [("m1", ["out/*"]), ("m2", ["out/*"])]}


def test_a_late_run_is_given_all_that_was_left_before_it(lab: Lab) -> None:
    pipe = submitted(lab, step("a", job=of_files("a", 2)), step("late", late=LATE, needs=(0,)))
    agent = lab.agent()
    for number, grant in enumerate(agent.take(), 1):
        agent.tell(*end(grant, manifest=f"m{number}"))
    make(lab, pipe, "late", 2)
    assert [grant.inputs for grant in agent.take()] == [[("m1", ["out/*"]), ("m2", ["out/*"])]] * 2


def test_a_run_that_is_done_to_one_of_many_files_is_not_given_the_others(lab: Lab) -> None:
    """Neither those that were said as a pattern, nor the runs that left nothing but one of the others."""
    before = of_files("a", 1, ("parts/*", "head.txt")), of_files("b", 1, ("parts",)), of_files("c", 1, ("log/x",))
    plain = tuple(RunSpec(argv=("d", str(n)), outputs=(f"parts/{n}[*]",)) for n in (1, 2))
    runs = tuple(RunSpec(argv=("late", str(n)), params={"file": f"parts/{n}*"}) for n in (1, 2))
    last = step("late", needs=(0, 1, 2, 3), job=job_spec(("late",), runs=runs))
    steps = [step(name, job=job) for name, job in zip("abc", before, strict=True)]
    steps += [step("d", job=job_spec(("d",), runs=plain)), replace(last, spec=replace(last.spec, each="parts/*"))]
    submitted(lab, *steps)
    agent = lab.agent()
    for grant in agent.take():
        agent.tell(*end(grant, manifest=f"m-{_label(grant)}"))
    one, two = (dict(grant.inputs) for grant in agent.take())
    assert one == {
        "m-a.1": ["parts/*", "head.txt", "!./parts/*", "parts/1[*]"],
        "m-b.1": ["parts", "!./parts/*", "parts/1[*]"], "m-c.1": ["log/x"], "m-d.1": ["parts/1[*]"],
    }  # fmt: skip
    assert two.keys() == {"m-a.1", "m-b.1", "m-c.1", "m-d.2"}


def test_it_is_given_the_same_when_it_is_tried_again(lab: Lab) -> None:
    submitted(lab, step("a", job=of_files("a", 1)), step("b", job=of_files("b", 1), needs=(0,)))
    agent = lab.agent()
    (grant,) = agent.take()
    agent.tell(*end(grant, manifest="m1"))
    (grant,) = agent.take()
    agent.tell(staged(grant), running(grant))
    lab.lose(agent)
    (again,) = lab.agent().take()
    assert (again.attempt, again.inputs, again.outputs) == (2, [("m1", ["out/*"])], ["out/*"])
    assert again.inputs == grant.inputs and again.outputs == grant.outputs


# --- how it stands ----------------------------------------------------------------------------------------------------


def test_how_a_pipeline_stands(lab: Lab) -> None:
    pipe = submitted(lab, step("a", 2), step("b", needs=(0,)), step("late", late=LATE, needs=(1,)))
    assert (pipe.state, pipe.counts) == ("queued", {"queued": 2, "created": 2})
    agent = lab.agent()
    (grant,) = agent.take(1)
    assert (pipe.state, pipe.counts) == ("running", {"starting": 1, "queued": 1, "created": 2})
    agent.tell(*end(grant))
    do(agent)
    assert (pipe.state, pipe.counts) == ("running", {"completed": 2, "queued": 1, "created": 1})
    do(agent)
    assert (pipe.state, pipe.counts) == ("running", {"completed": 3, "created": 1})
    make(lab, pipe, "late", 2)
    assert (pipe.state, pipe.counts) == ("running", {"completed": 3, "queued": 2})
    do(agent)
    assert (pipe.state, pipe.counts) == ("completed", {"completed": 5})


@pytest.mark.parametrize(
    ("act", "state"),
    [
        (lambda pipe, agent: do(agent), "completed"),
        (lambda pipe, agent: do(agent, fails=["a.1"]), "failed"),
        (lambda pipe, agent: pipe.cancel_all(), "cancelled"),
    ],
    ids=["completed", "failed", "cancelled"],
)
def test_how_it_ended(lab: Lab, act: Callable[[Pipeline, Agent], object], state: str) -> None:
    pipe = submitted(lab, step("a"), step("b", needs=(0,)))
    agent = lab.agent()
    act(pipe, agent)
    do(agent)
    assert pipe.state == state
    counts = lab.read(lambda connection: job_counts(connection))
    assert state_of(counts[pipe.number]) == state and len(counts[pipe.number].steps) == 2


# --- a search as a step -----------------------------------------------------------------------------------------------


def seeking(seconds: float | None = None) -> JobSpec:
    space = to_plain({"x": Range(0, 1)})
    search = Search(sampler="random", space=space, aims=(Aim(metric="loss"),), runs=2, seconds=seconds)
    return job_spec(("seek",), search=search)


def tend(lab: Lab, pipe: Pipeline, name: str = "seek") -> None:
    Desk(lab.store, lambda runs: None).tend(pipe.jobs[name], set(), is_glance=True)


def standing(lab: Lab, pipe: Pipeline) -> Any:
    return lab.read(lambda connection: searches_module.standing(connection, pipe.jobs["seek"]))


def test_a_search_waits_and_then_begins(lab: Lab) -> None:
    pipe = submitted(lab, step("a"), step("seek", job=seeking(60.0), needs=(0,)), step("b", needs=(1,)))
    agent = lab.agent()
    tend(lab, pipe)
    assert pipe.states("seek", "b") == ["created", "created"] and standing(lab, pipe).deadline is None
    assert do(agent) == ["a.1"]
    assert pipe.states("seek", "b") == ["queued", "created"] and standing(lab, pipe).deadline is not None
    for _ in range(4):
        tend(lab, pipe)
        do(agent)
    tend(lab, pipe)
    assert pipe.states("a", "seek", "b") == ["completed"] * 3
    assert pipe.open() == {"a": 0, "seek": 0, "b": 0} and pipe.state == "completed"


def test_a_search_of_which_some_runs_failed_lets_others_in(lab: Lab) -> None:
    pipe = submitted(lab, step("seek", job=seeking()), step("b", needs=(0,)))
    agent = lab.agent()
    tend(lab, pipe)
    first, *_ = agent.take(1)
    agent.tell(*end(first, 3))
    for _ in range(3):
        tend(lab, pipe)
        do(agent)
    assert pipe.states("seek", "b") == ["completed", "completed"]
