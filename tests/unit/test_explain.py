"""`turnout why`: each situation gives a sentence a person can act on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from turnout.model.spec import Resources
from turnout.model.state import Reason, RunState
from turnout.schedule.explain import Coming, Node, Place, Situation, explain
from turnout.wire.gpus import GpuRoom

NOTHING = Resources()
GB = 1 << 30
NODE = Node(name="n1", max_runs=2, memory=24 * GB, gpus=0, free_memory=24 * GB)


def run(state: str, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "name": "run7", "state": state, "reason": None, "exit_code": None, "signal": None, "message": "", "attempts": 1,
        "target": "local", "node": "n1", "children": [], "remaining": 0,
    }  # fmt: skip
    return {**plain, **more}


def attempt(number: int, **more: Any) -> dict[str, Any]:
    return {"attempt": number, "node": "n1", "cause": "infra", "exit_code": None, "signal": None, "message": "", **more}


def why(
    shown: dict[str, Any],
    *,
    attempts: list[dict[str, Any]] | None = None,
    ahead: int | None = None,
    need: Resources = NOTHING,
    concurrent: int | None = None,
    nodes: Sequence[Node] = (NODE,),
    trouble: str = "",
) -> str:
    situation = Situation(run=shown, attempts=attempts or [], ahead=ahead, need=need, concurrent=concurrent)
    return "\n".join(explain(situation, Place(nodes=nodes, trouble=trouble)))


# --- it waits ---------------------------------------------------------------------------------------------------------

QUEUED = run("queued", node=None, attempts=0)


def test_others_wait_before_it() -> None:
    assert why(QUEUED, ahead=3) == "3 runs wait before it on local, which runs 2 at once."
    assert why(QUEUED, ahead=1).startswith("1 run waits before it")


def test_it_is_next_and_no_slot_is_free() -> None:
    assert why(QUEUED, ahead=0) == "It is next on local: it waits for a free slot (0 of 2 free)."
    half = replace(NODE, free_slots=0.5)
    assert why(QUEUED, ahead=0, need=Resources(cpus=2), nodes=[half]).endswith("2 free slots (0.5 of 2 free).")


def at_a_site(*coming: Coming, nodes: Sequence[Node] = (), ahead: int = 0, need: Resources = NOTHING) -> str:
    situation = Situation(run=QUEUED, attempts=[], ahead=ahead, need=need)
    return "\n".join(explain(situation, Place(nodes=nodes, coming=coming, is_elastic=True, most=10)))


def test_its_node_waits_in_the_queue_of_the_site() -> None:
    first = Coming(node="local.1", id="4711", detail="Resources", since=300.0)
    assert at_a_site(first) == "local.1 waits in the queue of local for 5 min (job 4711): Resources."
    others = (first, Coming(node="local.2"), Coming(node="local.3"))
    assert at_a_site(*others).startswith("local.1 and 2 more wait in the queue of local for 5 min")
    assert at_a_site(first, nodes=[NODE], ahead=2).splitlines()[1].startswith("local.1 waits in the queue")


def test_no_node_of_the_site_has_so_many_slots() -> None:
    situation = Situation(run=QUEUED, attempts=[], ahead=0, need=Resources(cpus=8))
    (said,) = explain(situation, Place(is_elastic=True, max_runs=2))
    assert said.startswith("It can never start: it needs 8 cpus, and target local has `max-runs: 2`.")


def test_the_site_was_asked_for_enough_for_now() -> None:
    situation = Situation(run=QUEUED, attempts=[], ahead=0)
    (said,) = explain(situation, Place(is_elastic=True, restraint="no more than 3 nodes a minute"))
    assert said == "The next node of local is asked for later: no more than 3 nodes a minute."


def test_a_node_is_near_its_end() -> None:
    node = replace(NODE, free_slots=2.0, free_memory=NODE.memory or 0, seconds=300.0)
    text = at_a_site(nodes=[node], need=Resources(seconds=3600.0))
    assert text == "It is next on local: it waits for a node that has 60 min (5 min left)."
    assert at_a_site(nodes=[node], need=Resources(seconds=60.0)).endswith("is being given to n1.")
    assert at_a_site(nodes=[replace(node, seconds=0.0)]).endswith("it waits for the next node (0 s left).")


def test_the_site_gave_a_node_that_is_not_heard_yet() -> None:
    begun = Coming(node="local.1", id="4711", has_begun=True)
    assert at_a_site(begun) == "local.1 of local was given to us and is about to begin (job 4711)."


def test_at_a_site_no_run_is_too_large() -> None:
    assert "never" not in at_a_site(nodes=[NODE], need=Resources(cpus=64))


def test_it_is_next_and_others_have_the_memory_or_the_gpus() -> None:
    node = Node(name="n1", max_runs=8, memory=24 * GB, gpus=2, free_slots=6, free_memory=3 * GB, gpu_rooms=[GpuRoom()])
    text = why(QUEUED, ahead=0, need=Resources(memory=8 * GB), nodes=[node])
    assert text == "It is next on local: it waits for 8G of memory (3G of 24G not promised to others)."
    text = why(QUEUED, ahead=0, need=Resources(memory=8 * GB, gpus=2), nodes=[node])
    assert "8G of memory" in text and "and 2 GPUs (1 of 2 free)." in text


def test_it_is_next_and_the_gpus_are_in_the_hands_of_others_or_too_full() -> None:
    rooms = [GpuRoom(runs=0, foreign=True), GpuRoom(runs=0), GpuRoom(runs=1, memory=5 * GB), GpuRoom(memory=40 * GB)]
    sizes = (40 * GB,) * 4
    node = Node(name="n1", max_runs=8, gpus=4, gpu_memory=sizes, gpu_rooms=rooms, free_slots=6, free_memory=3 * GB)
    text = why(QUEUED, ahead=0, need=Resources(gpus=3), nodes=[node])
    assert text.endswith("3 GPUs (2 of 4 free, 1 used by others).")
    text = why(QUEUED, ahead=0, need=Resources(gpus=2, gpu_memory=20 * GB), nodes=[node])
    assert text.endswith("2 GPUs with 20G each (1 of 4 free, 1 used by others, 1 with too little free memory).")
    text = why(QUEUED, ahead=0, need=Resources(gpus=1, gpu_memory=80 * GB), nodes=[node])
    assert "can never start: it needs 1 GPU with 80G, and the largest GPU of target local has 40G." in text


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "The next one waits for 1 GPU (0 of 2 free) on local."),
        ({"made": 5}, ""),  # its sampler has to say what comes next
        ({"concurrent": 2}, ""),  # that is said already
    ],
)
def test_the_next_run_of_a_search_says_what_it_waits_for(more: dict[str, Any], said: str) -> None:
    shown = {
        "job": "job1", "state": "active", "message": "", "runs": 9, "asked": 5, "made": 4, "concurrent": None,
        "counts": {"live": 2}, **more,
    }  # fmt: skip
    node = replace(NODE, gpus=2, free_slots=2.0, gpu_rooms=[GpuRoom(runs=0)] * 2)
    parent = run("running", node=None, remaining=5)
    situation = Situation(run=parent, attempts=[], ahead=None, need=Resources(gpus=1), search=shown)
    first, *rest = explain(situation, Place(nodes=[node]))
    assert "runs of its search are made" in first and "\n".join(rest) == said


def test_it_is_next_and_its_job_has_enough_there() -> None:
    node = replace(NODE, free_slots=1.0, siblings=1)
    assert "another run of its job, of which at most 1" in why(QUEUED, ahead=0, concurrent=1, nodes=[node])


def test_it_is_next_and_there_is_room() -> None:
    assert why(QUEUED, ahead=0, nodes=[replace(NODE, free_slots=1)]) == "It is next on local, and is being given to n1."


def test_of_several_nodes_the_one_that_lacks_least_is_told_of() -> None:
    empty = Node(name="n2", max_runs=2, memory=4 * GB, gpus=0, free_slots=2, free_memory=GB)
    text = why(QUEUED, ahead=0, need=Resources(memory=2 * GB), nodes=[replace(NODE, free_memory=0), empty])
    assert text.endswith("it waits for 2G of memory (1G of 4G not promised to others) on n2.")


def test_nobody_is_there_yet() -> None:
    assert why(QUEUED, ahead=0, nodes=[]) == "An agent is being started on local."
    assert why(QUEUED, ahead=0, nodes=[replace(NODE, is_up=False)]) == "An agent is being started on local."


def test_nobody_can_be_started_there() -> None:
    text = why(QUEUED, ahead=0, nodes=[], trouble="no python3 found")
    assert text == "local is in trouble: no python3 found. It is tried again by itself."


def test_the_node_it_waits_for_fell_silent() -> None:
    text = why(QUEUED, ahead=0, nodes=[replace(NODE, is_silent=True, free_slots=2)])
    assert text == "n1 of local fell silent, and gets nothing before it is heard again."


def test_there_is_no_such_target() -> None:
    (line,) = explain(Situation(run=QUEUED, attempts=[], ahead=0), None)
    assert "no target 'local'" in line


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (Resources(cpus=8), "8 cpus, and the largest node of target local runs 2 at once"),
        (Resources(memory=64 * GB), "64G of memory, and the largest node of target local has 24G"),
        (Resources(gpus=1), "1 GPU, and the largest node of target local has none"),
        (Resources(memory=64 * GB, gpus=2), "64G of memory, and the largest node of target local has 24G; 2 GPUs"),
    ],
)
@pytest.mark.parametrize("is_up", [True, False])
def test_it_asks_for_more_than_there_is(need: Resources, said: str, is_up: bool) -> None:
    text = why(QUEUED, ahead=5, need=need, nodes=[replace(NODE, is_up=is_up)])
    assert said in text and "never" in text and "Cancel it" in text


def test_what_two_nodes_have_together_is_not_what_one_has() -> None:
    much, fast = replace(NODE, name="n2", memory=99 * GB), replace(NODE, name="n3", gpus=4)
    text = why(QUEUED, ahead=0, need=Resources(memory=64 * GB, gpus=1), nodes=[NODE, much, fast])
    assert "never" in text and "any one node" in text
    assert "never" not in why(QUEUED, ahead=0, need=Resources(memory=64 * GB), nodes=[NODE, much, fast])


def test_what_is_not_known_of_a_node_is_not_held_against_a_run() -> None:
    unknown = Node(name="n1", max_runs=2)
    assert "never" not in why(QUEUED, ahead=0, need=Resources(cpus=2, memory=1 << 60, gpus=99), nodes=[unknown])
    assert "never" not in why(QUEUED, ahead=0, need=Resources(memory=1 << 60), nodes=[NODE, unknown])


def test_it_waits_again_after_earlier_attempts() -> None:
    text = why(QUEUED, ahead=0, attempts=[attempt(1, message="silent"), attempt(2, cause="exit", exit_code=3)])
    assert "Attempt 1 on n1 ended: infra, silent." in text
    assert "Attempt 2 on n1 ended: exit, exit code 3." in text


def test_a_grant_that_was_given_back_is_not_called_an_end() -> None:
    assert "Attempt 1 on n1 was given back before it began." in why(QUEUED, ahead=0, attempts=[attempt(1, cause=None)])


# --- it is on its way -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "does"),
    [("starting", "prepares its directory"), ("running", "executes"), ("finishing", "keeps what it left behind")],
)
def test_it_is_on_a_node(state: str, does: str) -> None:
    assert why(run(state, attempts=2), attempts=[attempt(1), attempt(2)]) == (
        f"It {does} on n1, attempt 2.\nAttempt 1 on n1 ended: infra."
    )


def test_its_node_fell_silent() -> None:
    assert "That node has fallen silent" in why(run("running"), nodes=[replace(NODE, is_silent=True)])
    assert "silent" not in why(run("running"), nodes=[NODE, replace(NODE, name="n2", is_silent=True)])


def test_it_is_held() -> None:
    text = why(run("created", node=None, attempts=0))
    assert text == "It is held. `turnout release run7` lets it into the queue."


def test_a_parent_still_makes_children_or_waits_for_them() -> None:
    parent = run("running", attempts=0, node=None, children=["run7.1"])
    assert why({**parent, "remaining": 4}) == "4 of its children are still to be made, as nodes get free."
    assert "ends with the last of them" in why(parent)


# --- it is over -------------------------------------------------------------------------------------------------------


def test_it_completed() -> None:
    assert why(run("completed", exit_code=0)) == "It completed."


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"reason": "exit_code", "exit_code": 3}, "exit code 3"),
        ({"reason": "signal", "signal": 11}, "killed by signal 11"),
        ({"reason": "timeout"}, "time limit"),
        ({"reason": "oom"}, "more memory than it may"),
    ],
)
def test_a_failure_of_its_own_points_to_its_output(more: dict[str, Any], said: str) -> None:
    text = why(run("failed", **more))
    assert text.startswith("It failed: ") and said in text
    assert "`turnout logs run7`" in text


def test_a_failure_of_ours_says_what_failed_and_does_not_blame_the_output() -> None:
    text = why(run("failed", reason="infra", message="its supervisor was killed"))
    assert "(its supervisor was killed)" in text and "turnout logs" not in text
    assert "()" not in why(run("failed", reason="infra"))


def test_a_message_of_the_node_is_shown() -> None:
    assert "no such file: trian.py" in why(run("failed", reason="exit_code", message="no such file: trian.py"))
    stuck = "exit code 3; could not be ended: process 7"
    assert stuck in why(run("failed", reason="exit_code", exit_code=3, message=stuck))


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"reason": "exit_code", "exit_code": 3, "message": "exit code 3"}, "its command ended with exit code 3"),
        ({"reason": "signal", "signal": 15, "message": "killed by SIGTERM"}, "its command was killed by signal 15"),
        ({"reason": "timeout", "message": "time limit reached"}, "it ran longer than its time limit and was ended"),
    ],
)
def test_what_was_said_is_not_said_twice(more: dict[str, Any], text: str) -> None:
    assert why(run("failed", **more)) == f"It failed: {text}.\n`turnout logs run7` shows what it printed."


def test_a_failed_parent_tells_of_its_children() -> None:
    text = why(run("failed", reason="exit_code", children=["run7.1"], message="1 of its 2 children did not complete"))
    assert text == "It failed: 1 of its 2 children did not complete.\n`turnout show run7` lists them."


def test_it_was_cancelled_or_stopped() -> None:
    assert why(run("cancelled", reason="user")) == "It was cancelled: a person cancelled it."
    assert why(run("stopped", reason="pruned")) == "It was stopped: a stopper ended it early."


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_has_its_words(reason: Reason) -> None:
    assert "no reason was recorded" not in why(run("failed", reason=reason.value))


@pytest.mark.parametrize("state", list(RunState))
def test_every_state_has_its_words(state: RunState) -> None:
    assert why(run(state.value), ahead=0)
