"""The runs of a job in groups, as `turnout why JOB` tells of them."""

from __future__ import annotations

from typing import Any

from tests.integration.storing import Lab, running
from tests.integration.storing import lab as lab
from turnout.schedule.summary import explain_job
from turnout.store import reads
from turnout.store.groups import groups_of


def told(lab: Lab, job: int = 1) -> list[dict[str, Any]]:
    keys = ("state", "count", "names", "nodes")
    return [{key: group[key] for key in keys} for group in lab.read(lambda connection: groups_of(connection, job))]


def why(lab: Lab, job: int = 1) -> list[str]:
    (view,) = lab.read(lambda connection: reads.show_jobs(connection, [job]))
    return explain_job(view, lab.read(lambda connection: groups_of(connection, job)), ["others are before it."])


def test_those_that_wait_and_those_on_nodes(lab: Lab) -> None:
    lab.submit(*[("true",)] * 6)
    agent = lab.agent()
    first, second = agent.take(slots=2)
    agent.tell(running(first))
    assert told(lab) == [
        {"state": "queued", "count": 4, "names": ["run3", "run4", "run5"], "nodes": []},
        {"state": "running", "count": 2, "names": ["run1", "run2"], "nodes": ["node1"]},
    ]
    assert "run3, run4, run5 and 1 more wait. run3: others are before it." in why(lab)
    assert "run1, run2 are on node1." in why(lab) and why(lab)[-1] == "`turnout attach job1` follows it."
    for grant in (first, second):
        agent.run(grant)
    assert [group["state"] for group in told(lab)] == ["queued"]


def test_those_that_are_held(lab: Lab) -> None:
    lab.submit(held=True)
    assert why(lab) == ["Its only run is created.", "run1 is held; `turnout release job1` lets it go."]
    lab.submit(("a",), ("b",), held=True)
    assert "run2, run3 are held; `turnout release job2` lets them go." in why(lab, 2)


def test_those_that_ended_badly_by_cause_the_most_frequent_first(lab: Lab) -> None:
    lab.submit(*[("true",)] * 6)
    agent = lab.agent()
    for grant, code in zip(agent.take(slots=5), (3, 4, 4, 0, None), strict=True):
        agent.run(grant, exit_code=code, **({"cause": "signal", "signal": 9} if code is None else {}))
    lab.cancel("run6")
    assert [group["names"] for group in told(lab)] == [["run2", "run3"], ["run1"], ["run5"], ["run6"]]
    lines = why(lab)
    assert "run2, run3 failed with exit code 4; `turnout why run2` tells more." in lines
    assert "run1 failed with exit code 3; `turnout why run1` tells more." in lines
    assert "run5 failed by signal 9; `turnout why run5` tells more." in lines
    assert "run6 cancelled: user; `turnout why run6` tells more." in lines
    assert lines[-1] == "`turnout list runs --filter 'job=job1 and state=failed'` lists those that failed."


def test_a_parent_is_told_of_by_its_children(lab: Lab) -> None:
    lab.submit(repeat=2)
    agent = lab.agent()
    for grant in agent.take():
        agent.run(grant, exit_code=5)
    assert [(group["state"], group["names"]) for group in told(lab)] == [("failed", ["run1.1", "run1.2"])]


def test_a_job_that_went_well_has_no_groups(lab: Lab) -> None:
    agent, grant = lab.started()
    agent.run(grant)
    assert told(lab) == [] and why(lab)[-1] == "`turnout list runs --filter job=job1` lists its runs."
