"""A pipeline that no client of ours would send: refused before anything is written, and no trouble afterwards."""

from __future__ import annotations

import uuid
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
