"""The hub did it, and its answer got lost: the client asks again. It is done once, and answered as it would have been.

And what was answered is done, also when the hub is killed right after.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import Scene
from tests.harness import wait_until
from tests.integration.storing import at_once
from turnout.client import Client
from turnout.errors import Conflict, NotFound
from turnout.wire.http import Answer, Connection, Unreachable


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """From the call on, the first answer to each request that changes something is lost; gives the list of those."""
    really = Connection.request

    def begin() -> list[str]:
        lost: list[str] = []

        def request(self: Connection, method: str, path: str, *args: Any, **options: Any) -> Answer:
            answer = really(self, method, path, *args, **options)
            what = f"{method} {path.partition('?')[0]}"
            if method != "GET" and what not in lost:
                lost.append(what)
                answer.read()
                raise Unreachable("the answer is lost")
            return answer

        monkeypatch.setattr(Connection, "request", request)
        return lost

    return begin


def test_everything_is_done_once(scene: Scene, tmp_path: Path, lose: Callable[[], list[str]]) -> None:
    client = scene.client
    runs = [scene.submit("--workspace", name, "true") for name in ("lab", "lab", "old")]
    held = scene.submit("--held", "true")
    for run in runs:
        scene.wait_for(run)
    (tmp_path / "cat").write_text("meow")
    lost = lose()

    export = client.export_workspace("lab", tmp_path / "lab.turnout")
    told = client.import_archive(tmp_path / "lab.turnout", workspace="copy")
    assert told["imported"] and told["runs"] == 2 and told["counts"] == export["counts"]
    with pytest.raises(Conflict, match="this archive was imported"):
        client.import_archive(tmp_path / "lab.turnout", workspace="copy")
    assert len(client.runs(["workspace=copy"])) == 2

    assert client.upload([tmp_path / "cat"], "pets")["files"] == 1
    assert client.delete_share("pets")["files"] == 1
    with pytest.raises(NotFound):
        client.delete_share("pets")

    assert client.delete(workspace="old")["runs"] == 1
    lost.remove("POST /api/delete")
    assert client.delete(runs=[runs[0]]) == {"deleted": True, "runs": 1, "jobs": ["job1"]}
    with pytest.raises(NotFound):
        client.delete(runs=[runs[0]])

    client.set_tags([held], {"kind": "late"})
    assert client.release(held) == [held]
    assert scene.wait_for(held)["tags"] == {"kind": "late"}
    assert scene.events(held).count("queued") == 1 and scene.events(held).count("tags") == 1
    assert {"PUT /api/import", "POST /api/delete", "DELETE /api/shares/pets", "POST /api/release"} <= set(lost)


def test_what_was_answered_is_done_although_the_hub_is_killed_right_after(scene: Scene, tmp_path: Path) -> None:
    held, other = scene.submit("--held", "true"), scene.submit("--held", "true")
    scene.client.set_tags([held, other], {"kind": "late"})
    assert scene.client.release(held) == [held]
    scene.kill_hub()
    assert scene.client.release(held) == [], "again, which is nothing"
    view = scene.wait_for(held)
    assert (view["state"], view["attempts"], view["tags"]) == ("completed", 1, {"kind": "late"})
    assert scene.show(other)["state"] == "created", "nobody released this one"


def test_a_notice_is_given_although_the_hub_dies_of_it(scene: Scene) -> None:
    """Its command kills the hub that runs it, the first time. Then it is run once more, and never again."""
    command = (
        'cat >> "$SIDE/told"; echo >> "$SIDE/told"; [ -e "$SIDE/died" ] || { touch "$SIDE/died"; kill -9 "$PPID"; }'
    )
    scene.cli("run", "-d", "--no-snapshot", "--notify", command, "true", env={"SIDE": str(scene.side)})
    wait_until(lambda: (scene.side / "died").exists(), 30.0)
    scene.client.close()
    scene.start_hub()
    wait_until(lambda: len(scene.lines("told")) >= 2, 30.0)
    scene.wait_for(scene.submit("true"))  # rounds of the engine pass
    told = scene.lines("told")
    assert len(told) == 2 and all('"state": "completed"' in line for line in told)


def test_two_imports_of_one_archive_at_once(scene: Scene, tmp_path: Path) -> None:
    scene.wait_for(scene.submit("--workspace", "lab", "true"))
    scene.client.export_workspace("lab", tmp_path / "lab.turnout")

    def take(*, again: bool) -> str:
        try:
            done = Client().import_archive(tmp_path / "lab.turnout", workspace="copy", again=again)
            return "imported" if done["imported"] else "here"
        except Conflict as error:
            return type(error).__name__

    for again, other in ((True, "here"), (False, "Conflict")):
        told = at_once(*[lambda: take(again=again)] * 4)  # noqa: B023
        assert sorted(told) == sorted(["imported", *[other] * 3])
        assert len(scene.client.runs(["workspace=copy"])) == 1
        scene.client.delete(workspace="copy")
