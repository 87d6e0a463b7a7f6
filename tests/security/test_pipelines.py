"""A pipeline that no client of ours would send: refused before anything is written, and no trouble afterwards."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.security.doors import LivingHub, a_spec

pytestmark = pytest.mark.xdist_group("security names")

WHOLE = {"kind": "pipeline", "display": ["p.yaml"], "runs": []}
TERMS = {"job": {"kind": "command", "display": [], "runs": []}}
STEP = {"name": "a", "terms": 0, "runs": [{"argv": ["true"]}], "display": ["true"]}
AFTER = {**STEP, "name": "b"}


def a_pipeline(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"job": WHOLE, "terms": [TERMS], "steps": list(steps or [STEP]), **more}


def late(**plain: Any) -> dict[str, Any]:
    return {**STEP, "runs": [], "late": plain}


BAD = {
    "a language that nobody knows": (a_pipeline(late(language="cobol")), "no language 'cobol'"),
    "no language": (a_pipeline(late()), "no language 'None'"),
    "nothing that could be made": (a_pipeline(late(language="native")), "cannot be read"),
    "nothing that a template is": (a_pipeline(late(language="metapipe", step="1")), "cannot be read"),
    "a step of the wrong kinds": (a_pipeline(late(language="native", step=[], where=3)), "cannot be read"),
    "files that are not here": (a_pipeline(job={**WHOLE, "before": "a" * 64}), "is not here"),
    "a target that is not here": (a_pipeline(job={**WHOLE, "target": "moon"}), "no target 'moon'"),
    "a run that is waited for twice": (
        a_pipeline(STEP, {**AFTER, "run_needs": [[[0, 0], [0, 0]]]}), "waits for a run twice",
    ),
    "a pipeline in a pipeline": (
        a_pipeline(terms=[{"job": {**TERMS["job"], "kind": "pipeline", "script": "x"}}]), "has steps, and is none of",
    ),
}  # fmt: skip


def submit(hub: LivingHub, content: dict[str, Any], path: str = "/api/pipelines") -> Any:
    return hub.api("POST", path, content, key=uuid.uuid4().hex)


@pytest.mark.parametrize("what", BAD)
def test_it_is_refused(what: str, hub: LivingHub) -> None:
    content, told = BAD[what]
    before = hub.state()
    answer = submit(hub, content)
    assert answer.status in (404, 422) and told in answer.body.decode(), answer.body
    assert hub.state() == before


def test_a_sound_one_is_not(hub: LivingHub) -> None:
    answer = submit(hub, a_pipeline(STEP, {**AFTER, "run_needs": [[[0, 0]]]}))
    assert answer.status == 200, answer.body
    hub.cli("attach", answer.json()["job"])


def test_a_job_is_no_pipeline(hub: LivingHub) -> None:
    before = hub.state()
    answer = submit(hub, a_spec(kind="pipeline", script="true"), "/api/jobs")
    assert answer.status == 422 and "has steps, and is none of" in answer.body.decode(), answer.body
    assert hub.state() == before


# --- outputs that are links -------------------------------------------------------------------------------------------

#: What a command makes of its output: to have the node read for it what it may not have, or without end.
HOSTILE = {
    "a link to itself": "ln -s {output} {output}",
    "a circle": "ln -s b {output}; ln -s c b; ln -s {output} c",
    "the directory it lies in": "ln -s . {output}",
    "directories in each other": "mkdir p q; ln -s ../q p/q; ln -s ../p q/p; ln -s .. p/up; ln -s p {output}",
    "a maze": "for i in {{1..60}}; do mkdir $i; ln -s ../$((i+1)) $i/a; ln -s ../$((i+1)) $i/b; done; ln -s 1 {output}",
    "a chain": "for i in {{1..2000}}; do ln -s $((i + 1)) $i; done; touch 2001; ln -s 1 {output}",
    "a pipe": "mkfifo p; ln -s p {output}",
    "a pipe elsewhere": 'mkfifo "$ELSEWHERE/p"; ln -s "$ELSEWHERE/p" {output}',
    "a device without end": "ln -s /dev/zero {output}",
    "a directory of devices": "ln -s /dev {output}",
    "all there is": "ln -s / {output}",
    "what the agent has for an environment": "ln -s /proc/self/environ {output}",
    "what the agent has open": "ln -s /proc/self/fd {output}",
    "what the kernel says": "ln -s /proc/cpuinfo {output}",
    "what the agent keeps of the run": "ln -s ../ctl/record {output}",
    "what it prints, with its secrets": "ln -s output.txt {output}",
    "a directory elsewhere": 'ln -s "$ELSEWHERE" {output}',
    "something behind it": 'mkdir d; ln -s "$ELSEWHERE" d/e; ln -s d {output}; ln -s d/e/other f',
}


def test_links_to_what_is_no_file_of_the_run(hub: LivingHub, tmp_path: Path) -> None:
    """The node waits for none of them, sends none of it, and goes on."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("of another")
    steps = {
        f"s{number}": {"command": command.replace("$ELSEWHERE", str(tmp_path)), "outputs": f"out{number}"}
        for number, command in enumerate(HOSTILE.values())
    }
    (hub.cli.cwd / "p.yaml").write_text(json.dumps({"pipeline": {"steps": steps}}))
    done = hub.cli("pipeline", "--json", "p.yaml", check=False, timeout=60.0)
    assert done.returncode == 1, done.stdout
    view = json.loads(done.stdout)
    (hub.cli.cwd / "p.yaml").unlink()
    for what, step in zip(HOSTILE, view["steps"], strict=True):
        (run,) = hub.cli.json("list", "runs", "--filter", f"job = {step['job']}", "--all")
        (captured,) = [each for each in hub.cli.json("events", run["name"]) if each["event"] == "capture_after"]
        assert (run["reason"], captured["data"]["files"]) == ("no_output", 0), (what, run, captured)
        assert "a link to" in run["message"], (what, run["message"])
    assert hub.cli("run", "echo", "fine").stdout == "fine\n"
