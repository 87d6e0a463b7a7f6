"""What is shown of runs, jobs and agents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.storing import Lab, captured, ended, running
from tests.integration.storing import lab as lab
from turnout.errors import NotFound
from turnout.model.spec import Resources, RunSpec
from turnout.store import agents, reads, requests
from turnout.store.queue import live_runs, places_in_use, queues_with_waiting_runs
from turnout.store.search import newest_jobs, snapshots_of
from turnout.store.writer import Tx

#: The stable form of a run, as documented.
STABLE = [
    "name", "job", "experiment", "workspace", "state", "reason", "exit_code", "attempts", "target", "node", "command",
    "params", "tags", "metrics", "created", "queued", "started", "ended", "parent", "children",
]  # fmt: skip


def job(lab: Lab, number: int = 1) -> dict[str, Any]:
    (view,) = lab.read(lambda connection: reads.show_jobs(connection, [number]))
    return view


def test_a_run_has_its_stable_form(lab: Lab) -> None:
    lab.submit(("python", "train.py"))
    view = lab.show("run1")
    assert [name for name in STABLE if name not in view] == []
    assert not [name for name in view if name.startswith("_")]
    assert view["command"] == ["python", "train.py"] and view["job"] == "job1"
    assert view["created"].endswith("Z") and "T" in view["created"]


def test_runs_are_found_by_name(lab: Lab) -> None:
    lab.submit(repeat=2)
    lab.agent().take()
    assert [lab.show(name)["name"] for name in ("run1", "run1.1", "run1.2")] == ["run1", "run1.1", "run1.2"]


@pytest.mark.parametrize("name", ["run2", "run1.7", "nobody", "", "run", "job1", "run1'"])
def test_what_is_not_there_is_not_found(lab: Lab, name: str) -> None:
    lab.submit()
    with pytest.raises(NotFound, match="no run") as error:
        lab.id(name)
    assert "list runs" in error.value.hint


def test_a_label_is_the_newest_run_that_has_it(lab: Lab) -> None:
    lab.submit(label="best")
    lab.submit(repeat=2, label="best")
    lab.agent().take()
    assert lab.show("best")["name"] == "run2"


def test_jobs_are_found_by_name_and_label(lab: Lab) -> None:
    lab.submit(label="sweep")
    lab.submit(label="sweep")
    assert lab.read(lambda connection: reads.find_job(connection, "job1")) == 1
    assert lab.read(lambda connection: reads.find_job(connection, "sweep")) == 2
    with pytest.raises(NotFound, match="no job"):
        lab.read(lambda connection: reads.find_job(connection, "job3"))


def test_runs_come_in_the_order_they_were_asked_for(lab: Lab) -> None:
    """Also when there are more than fit into one statement; unknown ones are left out."""
    lab.submit(*((str(index),) for index in range(1200)))
    ids = [*range(1200, 0, -1), 5000]
    found = lab.read(lambda connection: reads.show_runs(connection, ids))
    assert [view["name"] for view in found] == [f"run{number}" for number in range(1200, 0, -1)]


def test_a_job_has_the_state_of_its_runs(lab: Lab) -> None:
    lab.submit(("a",), ("b",), ("c",))
    agent = lab.agent()
    assert (job(lab)["state"], job(lab)["runs"], job(lab)["counts"]) == ("queued", 3, {"queued": 3})
    (first,) = agent.take(1)
    assert job(lab)["state"] == "running"
    agent.run(first)
    assert (job(lab)["state"], job(lab)["counts"]) == ("running", {"completed": 1, "queued": 2})
    second, third = agent.take()
    agent.run(second)
    agent.run(third, exit_code=1)
    assert (job(lab)["state"], job(lab)["counts"]) == ("failed", {"completed": 2, "failed": 1})


def test_a_job_that_was_cancelled_says_so(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    lab.cancel("run1", "run2")
    assert job(lab)["state"] == "cancelled"


def test_a_parent_counts_as_its_children(lab: Lab) -> None:
    lab.submit(repeat=4)
    agent = lab.agent()
    first, _ = agent.take(2)
    agent.run(first)
    assert job(lab)["counts"] == {"completed": 1, "starting": 1, "queued": 2}
    assert job(lab)["runs"] == 4


def test_what_a_job_was_asked_for(lab: Lab) -> None:
    git = {"commit": "abc", "dirty": True}
    lab.submit(display=("train.py", "--fast"), before="d" * 64, resources=Resources(gpus=2), git=git)
    view = job(lab)
    assert view["command"] == ["train.py", "--fast"] and view["snapshot"] == "d" * 64
    assert view["git"] == git and view["resources"]["gpus"] == 2


def test_newest_jobs_first(lab: Lab) -> None:
    for _ in range(4):
        lab.submit()
    assert lab.read(lambda connection: newest_jobs(connection, limit=2, offset=1)) == [3, 2]


def test_live_runs(lab: Lab) -> None:
    lab.submit(("a",), ("b",))
    lab.submit()
    lab.cancel("run1")
    assert sorted(lab.read(live_runs)) == [2, 3]
    assert lab.read(lambda connection: live_runs(connection, job=1)) == [2]


def test_queues_where_runs_wait(lab: Lab) -> None:
    lab.submit(("x",), ("y",), target="a")
    lab.submit(target="b")
    lab.submit(target="a", nodes=2)
    lab.submit(target="c", place="c~0123")
    lab.agent("b").take()
    assert lab.read(queues_with_waiting_runs) == ["a", "a#job3.0", "a#job3.1", "c~0123"]
    assert lab.read(places_in_use) == {"a", "b", "c~0123"}


def test_what_a_run_was_given_and_left(lab: Lab) -> None:
    agent, grant = lab.started(before="d" * 64)
    assert lab.read(lambda connection: snapshots_of(connection, grant.run)) == {"before": "d" * 64, "after": None}
    agent.tell(running(grant), ended(grant), captured(grant, manifest="e" * 64))
    assert lab.read(lambda connection: snapshots_of(connection, grant.run)) == {"before": "d" * 64, "after": "e" * 64}


def test_parameters_of_a_run_are_told_to_its_node_as_submitted(lab: Lab) -> None:
    lab.submit(runs=(RunSpec(argv=("x",), params={"lr": 0.1, "deep": {"a": [1]}}),))
    (grant,) = lab.agent().take()
    assert grant.params == {"lr": 0.1, "deep": {"a": [1]}}


# Agents


def find(lab: Lab, token: str) -> agents.Agent | None:
    return lab.read(lambda connection: agents.find_by_token(connection, token))


def launch(tx: Tx, token: str = "secret") -> int:
    return agents.insert_agent(
        tx, target="local", node="n", directory="", launch_token="l", token_hash=agents.hash_token(token)
    )


def test_an_agent_is_known_by_its_token(lab: Lab) -> None:
    made = lab.store.write(launch)
    found = find(lab, "secret")
    assert found is not None and (found.id, found.state, found.handle) == (made, "launching", None)
    assert find(lab, "Secret") is None and find(lab, agents.hash_token("secret")) is None
    assert "secret" not in repr(lab.everything())


def test_a_new_token_makes_the_old_one_worthless(lab: Lab) -> None:
    made = lab.store.write(launch)
    lab.store.write(lambda tx: agents.set_token(tx, made, agents.hash_token("newer")))
    assert find(lab, "secret") is None and find(lab, "newer") is not None


def test_an_agent_that_is_gone_is_known_no_more(lab: Lab) -> None:
    made = lab.store.write(launch)
    assert lab.store.write(lambda tx: agents.set_up(tx, made, '{"cpus": 8}'))
    (live,) = lab.read(agents.live_agents)
    assert (live.state, live.cpus) == ("up", 8)
    lab.store.write(lambda tx: agents.set_gone(tx, made))
    assert find(lab, "secret") is None and lab.read(agents.live_agents) == []
    assert not lab.store.write(lambda tx: agents.set_up(tx, made, "{}"))
    assert lab.read(agents.live_agents) == []


# Answers already given


def test_answers_are_kept_for_a_week(lab: Lab) -> None:
    def keep(tx: Tx, key: str, age: float) -> None:
        tx.now -= age
        requests.keep_answer(tx, "me", key, "hash", {"job": key})
        tx.now += age

    lab.store.write(lambda tx: keep(tx, "old", 8 * 86400))
    lab.store.write(lambda tx: keep(tx, "recent", 6 * 86400))
    lab.store.write(lambda tx: keep(tx, "new", 0))

    def answer(key: str) -> dict[str, object] | None:
        found = lab.store.write(lambda tx: requests.find_answer(tx, "me", key))
        return found.answer if found is not None else None

    assert [answer(key) for key in ("old", "recent", "new")] == [None, {"job": "recent"}, {"job": "new"}]
