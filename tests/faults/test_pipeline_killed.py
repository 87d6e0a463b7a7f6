"""Who drives a pipeline is killed amid it: each run once, none before all it needs is over and there in full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from tests.faults import deaths
from tests.faults.deaths import Hub, Scenario
from tests.faults.scene import Scene, fill, kill
from tests.harness import wait_until
from tests.integration.storing import Lab, job_spec, returned
from tests.integration.test_store_pipelines import Pipeline, Step, end, step, submission
from turnout.engine import steer
from turnout.engine.expanding import Expander
from turnout.engine.submit import submit_pipeline
from turnout.model.ids import parse_job_name
from turnout.model.spec import RunSpec
from turnout.pipeline.native import plan, read
from turnout.store import schema
from turnout.wire import manifest
from turnout.wire.manifest import Entry, digest_of

ROOT = Path(__file__).parents[2]
WIDE, PARTS, KILLS = 49, 50, 20
#: Says beside turnout what it is about to do, and then prints its inputs, all of which have to be there.
WORK = """\
set -e
side=$1; shift
echo "$TURNOUT_RUN_NAME $TURNOUT_ATTEMPT $*" >> "$side/did"
cat "$@"
"""


def started(scene: Scene, steps: Mapping[str, Any]) -> dict[str, Any]:
    """What was answered to a pipeline with these steps."""
    file = scene.cli.cwd / "p.yaml"
    file.write_text(yaml.safe_dump({"pipeline": {"steps": steps}}))
    told: dict[str, Any] = scene.cli.json("pipeline", "-d", "p.yaml")
    return told


def over(scene: Scene, job: str, timeout: float = 60.0) -> dict[str, Any]:
    """The job once nothing of it is left to do."""
    view: dict[str, Any] = {}

    def is_over() -> bool:
        view.update(scene.client.job(job))
        return view["state"] in ("completed", "failed", "cancelled")

    wait_until(is_over, timeout, f"{job} is over")
    return view


def runs_of(scene: Scene, told: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = scene.client.runs([f"job={told['steps'][name]['job']}"], limit=10_000)
    return sorted(found, key=lambda view: int(view["name"].removeprefix("run")))


def left_by(scene: Scene, run: str, path: str) -> str:
    scene.cli("extract", run, run)
    return (scene.cli.cwd / run / "after" / path).read_text()


def did(scene: Scene) -> Counter[str]:
    """How often each run was executed."""
    return Counter(line.split()[0] for line in scene.lines("did"))


def fans(scene: Scene) -> dict[str, Any]:
    """Many, each followed by one; what brings them together says which there will be next; and all of these again."""
    work = f"bash {scene.script('work.sh', WORK)} {scene.side}"
    names = [f"{number:02}" for number in range(WIDE)]
    cut = f"split -n r/{PARTS} -d --additional-suffix=.txt all parts/"
    return {
        "make": {
            "command": f"{work} /dev/null; seq {{x}} {{x}}99 > {{output}}",
            "matrix": {"x": names},
            "outputs": "a/{x}",
        },
        "turn": {"command": f"{work} {{input}} > {{output}}", "each": "make", "outputs": "b/{x}"},
        "cut": {"command": f"{work} {{inputs}} > all; {cut}", "collect": "turn", "outputs": "parts/*.txt"},
        "late": {
            "command": f"{work} {{file}} > {{output}}",
            "each": "parts/*.txt",
            "needs": "cut",
            "outputs": "c/{stem}",
        },
        "sum": {"command": f"{work} {{inputs}} > {{output}}", "collect": "late", "outputs": "sum.txt"},
    }


def check_fans(scene: Scene, told: Mapping[str, Any]) -> None:
    """All of it was done, each once, and nothing was lost on the way."""
    right = sorted(line for x in range(WIDE) for line in _seq(f"{x:02}"))
    runs = [view for name in told["steps"] for view in runs_of(scene, told, name)]
    assert len(runs) == 2 * WIDE + PARTS + 2 and {view["state"] for view in runs} == {"completed"}
    assert did(scene) == Counter({view["name"]: 1 for view in runs}), "each was executed once"
    for view in runs:
        events = Counter(scene.events(view["name"]))
        assert events["queued"] == events["capture_after"] == 1 and not events["node_lost"], (view["name"], events)
    (last,) = runs_of(scene, told, "sum")
    assert sorted(left_by(scene, last["name"], "sum.txt").split()) == right


def _seq(x: str) -> list[str]:
    return [str(number) for number in range(int(x), int(f"{int(x)}99") + 1)]


@pytest.mark.timeout(150)
def test_a_pipeline_goes_on_when_the_hub_is_killed_twenty_times(scene: Scene) -> None:
    told = started(scene, fans(scene))
    for kills in range(1, KILLS + 1):
        due = kills * (2 * WIDE + PARTS) // (KILLS + 1)
        wait_until(lambda: len(scene.lines("did")) >= due, 60.0, f"{due} runs have begun")  # noqa: B023
        scene.kill_hub()
        scene.start_hub()
    assert over(scene, told["job"])["state"] == "completed"
    check_fans(scene, told)


@pytest.mark.timeout(90)
def test_a_hub_that_dies_before_it_makes_late_runs_makes_them_when_it_is_back(scene: Scene) -> None:
    """It hears of the end after which they are due, or finds it, when it begins again."""
    work = f"bash {scene.script('work.sh', WORK)} {scene.side}"
    wait = f"while [ ! -e {scene.side}/go ]; do sleep 0.01; done"
    told = started(scene, {
        "cut": {"command": f"{work} /dev/null; {wait}; touch parts/1 parts/2", "outputs": "parts/*"},
        "late": {"command": f"{work} {{file}}", "each": "parts/*", "needs": "cut"},
        "last": {"command": f"{work} /dev/null", "needs": "late"},
    })  # fmt: skip
    wait_until(lambda: len(scene.lines("did")) == 1, what="the first is under way")
    scene.kill_hub()
    scene.allow("go")
    scene.start_hub()
    for kills in (1, 2):
        wait_until(lambda: len(scene.lines("did")) > kills, what="the next are under way")  # noqa: B023
        scene.kill_hub()
        scene.start_hub()
    assert over(scene, told["job"])["state"] == "completed"
    assert sorted(did(scene).values()) == [1] * 4
    assert [view["params"]["file"] for view in runs_of(scene, told, "late")] == ["parts/1", "parts/2"]


@pytest.mark.timeout(90)
def test_agents_that_are_killed_amid_it_cost_nothing(scene: Scene) -> None:
    work = f"bash {scene.script('work.sh', WORK)} {scene.side}"
    many = [str(number) for number in range(8)]
    told = started(scene, {
        "a": {"command": f"{work} /dev/null; echo {{x}} > {{output}}", "matrix": {"x": many}, "outputs": "a/{x}"},
        "b": {"command": f"{work} {{input}} > {{output}}", "each": "a", "outputs": "b/{x}"},
        "late": {"command": f"{work} {{file}} > {{output}}", "each": "b/*", "needs": "b", "outputs": "c/{stem}"},
        "sum": {"command": f"{work} {{inputs}} > {{output}}", "collect": "late", "outputs": "sum"},
    })  # fmt: skip
    for due in (3, 11, 19):
        wait_until(lambda: len(scene.lines("did")) >= due, 30.0, f"{due} have begun")  # noqa: B023
        kill(scene.agent())
    view = over(scene, told["job"])
    assert (view["state"], view["counts"]) == ("completed", {"completed": 25})
    executed = did(scene)
    runs = [each for name in told["steps"] for each in runs_of(scene, told, name)]
    assert executed == Counter({each["name"]: 1 for each in runs}), "supervisors go on, and the next agent takes over"
    assert left_by(scene, runs[-1]["name"], "sum").split() == many


# --- what is not there in full ----------------------------------------------------------------------------------------


@pytest.mark.timeout(90)
def test_nobody_begins_on_what_a_full_disk_has_cut_off(small_disk: Path, scene: Scene) -> None:
    """The outputs of a run cannot be kept. It is not over before there is room, and who needs them waits."""
    make = (
        f"touch {scene.side}/up; while [ ! -e {scene.side}/go ]; do sleep 0.02; done; cp {scene.side}/large {{output}}"
    )
    (scene.side / "large").write_bytes(os.urandom(3 << 20))
    told = started(scene, {
        "a": {"command": f"{make}; touch {scene.side}/made", "outputs": "large"},
        "b": {"command": f"cmp {{input}} {scene.side}/large && echo same >> {scene.side}/did", "each": "a"},
    })  # fmt: skip
    wait_until(lambda: (scene.side / "up").exists())
    filler = small_disk / "filler"
    fill(filler, leave=5 << 20)  # enough for the file itself, and not for the hub's copy of it
    scene.allow("go")
    wait_until(lambda: (scene.side / "made").exists(), what="it has written all of it")
    (first,), (second,) = (runs_of(scene, told, name) for name in "ab")
    scene.wait_for(first["name"], "finishing")
    other = scene.submit("true")
    assert scene.wait_for(other)["state"] == "completed", "what leaves nothing goes on meanwhile"
    assert (scene.show(first["name"])["state"], scene.show(second["name"])["state"]) == ("finishing", "created")
    filler.unlink()
    assert over(scene, told["job"])["state"] == "completed"
    assert scene.lines("did") == ["same"]


@pytest.mark.timeout(90)
def test_nobody_begins_without_what_was_left_and_is_gone(scene: Scene) -> None:
    """A blob of it is removed behind the hub's back, and the node has no copy any more."""
    (scene.side / "large").write_bytes(content := os.urandom(1 << 20))
    told = started(scene, {
        "a": {"command": f"cp {scene.side}/large large; echo kept > other", "outputs": ["large", "other"]},
        "gate": {"command": f"touch {scene.side}/up; while [ ! -e {scene.side}/go ]; do sleep 0.02; done"},
        "b": {"command": f"cat large other >> {scene.side}/did", "inputs": ["large", "other"], "needs": "gate"},
        "c": {"command": f"echo c >> {scene.side}/did", "needs": "b"},
    })  # fmt: skip
    (first,), (second,), (third,) = (runs_of(scene, told, name) for name in "abc")
    scene.wait_for(first["name"], "completed")
    wait_until(lambda: (scene.side / "up").exists())
    copies = list(scene.cli.home.rglob(f"*{digest_of(content)}*"))
    assert copies, "it is kept by its digest"
    for copy in copies:
        copy.unlink()
    scene.allow("go")
    assert over(scene, told["job"])["state"] == "failed" and scene.lines("did") == []
    why = scene.show(second["name"])
    assert why["state"] == "failed" and why["reason"] == "infra", why
    given_up = scene.show(third["name"])
    assert (given_up["state"], given_up["reason"]) == ("cancelled", "dependency")


# --- killed at any line -----------------------------------------------------------------------------------------------


FILLED = ["bash", "-euo", "pipefail", "-c", "fill parts/x.txt parts/y.txt parts/z.txt"]
#: How many runs of each step are not over in the end.
OPEN = {"late": 3, "c": 1, "then": 3, "fill": 1}


class Expand(Scenario):
    """One look of who decides late: at a step whose runs are to be made of what was left, one that follows it, one for
    which there is nothing to do, runs at their gates, and a pipeline that shall end with its first failure."""

    parts = (
        "engine/expanding.py", "engine/late_runs.py", "engine/gates.py", "engine/waiting.py", "engine/left.py",
        "engine/following.py", "engine/steer.py", "store/pipelines.py", "store/late.py", "store/waiting.py",
        "store/leaving.py", "store/jobs.py", "store/new_rows.py", "store/writer.py",
    )  # fmt: skip

    def prepare(self, directory: Path) -> None:
        with Hub(directory) as hub:
            files = [Entry(f"parts/{name}.txt", 0o644, 1, digest_of(name.encode())) for name in "xyz"]
            listing = manifest.encode(files)
            hub.blobs.put_many([(digest_of(listing), listing)])
            first = step("a", job=job_spec(("a",), runs=(RunSpec(argv=("a",), outputs=("parts/*",)),)))
            some, none = late("parts/*.txt"), late("parts/*.csv")
            self.made = submitted(hub.lab, first, some["late"], step("c", needs=(1,)), *list(some.values())[1:]).jobs
            self.none = submitted(hub.lab, first, none["late"], step("c", needs=(1,))).jobs
            self.ended = submitted(hub.lab, step("bad"), step("b", 2), step("c", needs=(0,)), fail_fast=True).jobs
            agent = hub.lab.agent()
            for grant in agent.take():
                code = 3 if grant.argv[0] == "bad" else 0
                told = end(grant, code, digest_of(listing) if grant.outputs else None)
                agent.tell(*(told if grant.argv[0] != "b" else [returned(grant)]))

    def work(self, directory: Path) -> None:
        with Hub(directory) as hub:

            def end_all(job: int) -> None:
                hub.store.write(lambda tx: steer.cancel(tx, [], by="--fail-fast", job=job))

            Expander(hub.store, hub.blobs, end_all).look()

    def check(self, directory: Path) -> None:
        with Hub(directory) as hub:
            assert states(hub, self.made["late"]) in ([], ["queued"] * 3), "all, or nothing"
            assert states(hub, self.made["then"]) == []
            assert states(hub, self.made["ask"]) in (["created"], ["cancelled"])
            assert (states(hub, self.made["fill"]), argv(hub, self.made["fill"])) in (
                (["created"], ["fill"]), (["queued"], FILLED),
            )  # fmt: skip
            assert (states(hub, self.none["late"]), states(hub, self.none["c"])) in (
                ([], ["created"]), (["failed"], ["cancelled"]),
            )  # fmt: skip
            assert states(hub, self.ended["b"]) in (["queued"] * 2, ["cancelled"] * 2)
        self.work(directory)
        for _ in range(2):
            self.work(directory)
            with Hub(directory) as hub:
                assert [states(hub, self.made[name]) for name in ("late", "c")] == [["queued"] * 3, ["created"]]
                assert [states(hub, self.none[name]) for name in ("late", "c")] == [["failed"], ["cancelled"]]
                assert [states(hub, self.ended[name]) for name in "bc"] == [["cancelled"] * 2, ["cancelled"]]
                assert [states(hub, self.made[name]) for name in ("ask", "fill")] == [["cancelled"], ["queued"]]
                assert states(hub, self.made["then"]) == ["created"] * 3
                assert argv(hub, self.made["fill"]) == FILLED
                assert counts(hub) == {self.made[name]: count for name, count in OPEN.items()}


def submitted(lab: Lab, *steps: Step, fail_fast: bool = False) -> Pipeline:
    order = submission(*steps)
    order = replace(order, spec=replace(order.spec, job=replace(order.spec.job, fail_fast=fail_fast)))
    answer: Any = lab.store.write(lambda tx: submit_pipeline(tx, order))
    jobs = {name: parse_job_name(each["job"]) or 0 for name, each in answer["steps"].items()}
    return Pipeline(lab, parse_job_name(answer["job"]) or 0, jobs, {})


def late(pattern: str) -> dict[str, Step]:
    """What is done to each file that the step before it left, what follows that, and what is decided at gates."""
    steps = {
        "a": {"command": "a", "outputs": "parts/*"},
        "late": {"command": "wc {file}", "each": pattern, "needs": "a"},
        "then": {"command": "then", "each": "late"},
        "ask": {"command": "ask", "needs": "a", "when": "failure"},
        "fill": {"command": "fill {inputs}", "collect": "a"},
    }
    places = {"a": 0, "late": 1}
    _, *found = plan(read({"steps": steps}, "p.yaml"), lambda pattern: []).steps
    return {
        each.name: step(
            each.name, needs=[places[on] for on in each.needs], follows=[places[on] for on in each.follows],
            late=each.late.plain(), gate=each.gate,
            job=job_spec((each.name,), label=each.name, runs=tuple(RunSpec(argv=(each.name,)) for _ in each.runs)),
        )
        for each in found
        if each.late is not None
    }  # fmt: skip


def argv(hub: Hub, job: int) -> list[str]:
    """Of the only run of a step."""
    select = sa.select(schema.runs.c.argv).where(schema.runs.c.job_id == job)
    found: list[str] = json.loads(hub.lab.read(lambda connection: connection.execute(select).scalar_one()))
    return found


def states(hub: Hub, job: int) -> list[str]:
    select = sa.select(schema.runs.c.state).where(schema.runs.c.job_id == job).order_by(schema.runs.c.id)
    return hub.lab.read(lambda connection: list(connection.execute(select).scalars()))


def counts(hub: Hub) -> dict[int, int]:
    """Of each step that is not over, how many of its runs are not."""
    select = sa.select(schema.jobs.c.id, schema.jobs.c.open).where(schema.jobs.c.open != 0)
    return hub.lab.read(lambda connection: {row.id: row.open for row in connection.execute(select)})


def test_who_makes_late_runs_is_killed_at_any_line(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "tests.faults.test_pipeline_killed", str(tmp_path), "15"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 15, "so many times, at least, it was killed before it was through"


if __name__ == "__main__":
    deaths.SCENARIOS["expand"] = Expand
    deaths.main("expand", Path(sys.argv[1]), int(sys.argv[2]))
