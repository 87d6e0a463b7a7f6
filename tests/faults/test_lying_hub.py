"""The agent's side alone: a hub that refuses, repeats, forgets and talks nonsense harms nobody but itself."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults.lying_hub import Answer, LyingHub, agent_of
from tests.faults.scene import children_of, kill
from tests.harness import wait_until
from turnout.agent import record


@pytest.fixture
def hub() -> Iterator[LyingHub]:
    with tempfile.TemporaryDirectory(prefix="to-", dir="/tmp") as directory:  # short, for a socket's name
        yield LyingHub(Path(directory))


def test_all_is_told_once_to_a_hub_that_mostly_fails(hub: LyingHub) -> None:
    """Every third request is refused, and of the answers to the others two of three are lost, or nonsense."""
    requests, answers = count(), count()

    def refuse(path: str, message: Any) -> Answer | None:
        return (503, b"trouble") if next(requests) % 3 == 0 else None

    def lose(path: str, answer: Answer) -> Answer:
        return [(500, b"what?"), (200, b"[nonsense"), answer][next(answers) % 3]

    hub.meddle, hub.spoil = refuse, lose
    for run in range(1, 6):
        hub.grant(run, "bash", "-c", f"for i in 1 2 3; do echo run{run} $i; sleep 0.05; done")
    with agent_of(hub):
        wait_until(lambda: all(hub.is_over(run) for run in range(1, 6)), 30.0)
    for run in range(1, 6):
        assert hub.facts[run, 1] == ["staged", "running", "ended", "captured"]
        assert hub.streams[f"{run}.1/output"] == "".join(f"run{run} {i}\n" for i in (1, 2, 3)).encode()


def test_a_grant_that_comes_again_and_again_is_run_once(hub: LyingHub) -> None:
    marks = hub.directory / "marks"
    hub.grant(1, "bash", "-c", f"echo x >> {marks}")
    hub.repeat = list(hub.grants.values())
    with agent_of(hub):
        wait_until(lambda: hub.is_over(1))
        hub.grant(2, "true")
        wait_until(lambda: hub.is_over(2))
    assert marks.read_text() == "x\n"


def test_what_is_refused_does_not_hold_up_the_rest(hub: LyingHub) -> None:
    """The hub will have nothing of run 1, which runs on all the same; run 2 is told of."""

    def refuse_one(path: str, message: Any) -> Answer | None:
        told = [*message.get("facts", ()), *message.get("chunks", ())] if path == "/wire/report" else []
        return (422, b"no") if any(item["run"] == 1 for item in told) else None

    hub.meddle = refuse_one
    hub.grant(1, "bash", "-c", f"while [ ! -e {hub.directory}/go ]; do sleep 0.05; done; echo fine")
    with agent_of(hub) as agent:
        wait_until(lambda: record.read_running(str(hub.directory / "node" / "runs" / "1.1" / "ctl")))
        for run in (2, 3):
            hub.grant(run, "echo", "hi")
            wait_until(lambda: hub.is_over(run), 20.0)  # noqa: B023
        hub.meddle = lambda path, message: None
        (hub.directory / "go").touch()
        wait_until(lambda: hub.is_over(1))
        assert agent.poll() is None
    assert hub.bodies[1, 1, "ended"]["exit_code"] == 0
    assert hub.streams["1.1/output"] == b"fine\n"


@pytest.mark.timeout(90)
def test_what_cannot_be_told_at_all_is_let_go_of_and_not_executed_again(hub: LyingHub) -> None:
    """The hub will not even hear that it failed. It sees from the polls that the agent has it no more; an agent that
    comes later finds that it was executed, and tells so."""
    marks = hub.directory / "marks"
    held: list[Any] = []
    newest = 0

    def refuse_one(path: str, message: Any) -> Answer | None:
        nonlocal newest
        said = message.get("poll", message)
        if said.get("number", -1) >= newest:  # one that was overtaken says what was before
            newest, held[:] = said["number"], said["held"]
        told = [*message.get("facts", ()), *message.get("chunks", ())] if path == "/wire/report" else []
        return (422, b"no") if any(item["run"] == 1 for item in told) else None

    hub.meddle = refuse_one
    hub.grant(1, "bash", "-c", f"echo x >> {marks}")
    with agent_of(hub) as agent:
        wait_until(lambda: [1, 1] in held)
        wait_until(lambda: [1, 1] not in held, 60.0, "the agent names it no more")
        hub.grant(2, "true")
        wait_until(lambda: hub.is_over(2))
        assert [1, 1] not in held, "though the hub grants it again and again"
        agent.kill()
    Path(hub.socket).unlink()
    hub.meddle = lambda path, message: None
    with agent_of(hub):
        wait_until(lambda: hub.is_over(1))
    assert marks.read_text() == "x\n"
    assert hub.bodies[1, 1, "ended"]["exit_code"] == 0


def test_what_an_agent_says_is_numbered_on_when_it_begins_anew(hub: LyingHub) -> None:
    """So that nothing it said before can be taken for news, however late it arrives."""
    lives: list[list[int]] = []

    def listen(path: str, message: Any) -> Answer | None:
        said = message.get("poll", message)
        if path == "/wire/hello":
            lives.append([said["number"]])
        elif "number" in said:
            lives[-1].append(said["number"])
        return None

    hub.meddle = listen
    with agent_of(hub) as agent:
        wait_until(lambda: lives and len(lives[0]) > 3)
        (launcher,) = children_of(agent.pid)
        kill(launcher)
        wait_until(lambda: len(lives) == 2 and len(lives[1]) > 3)
        agent.kill()
    Path(hub.socket).unlink()
    hub.meddle = listen
    with agent_of(hub):
        wait_until(lambda: len(lives) == 3 and len(lives[2]) > 3)
    first, second, third = lives
    assert first[0] == min(first) and second[0] == min(second) and third[0] == min(third), "a hello comes before"
    assert max(first) < min(second) and max(second) < min(third)


def test_files_the_hub_lost_are_sent_again(hub: LyingHub) -> None:
    """It took them, and does not have them when the run is to end."""

    def want_them_twice(path: str, message: Any) -> Answer | None:
        facts = message.get("facts", ()) if path == "/wire/report" else ()
        return (409, b"not here") if any(fact["kind"] == "captured" for fact in facts) and hub.puts < 2 else None

    hub.meddle = want_them_twice
    hub.grant(1, "bash", "-c", "echo x > output/file")
    with agent_of(hub):
        wait_until(lambda: hub.is_over(1), 30.0)
    assert hub.puts == 2 and hub.bodies[1, 1, "captured"]["files"] == 1


def test_an_agent_that_is_not_wanted_ends_what_it_runs_and_goes(hub: LyingHub) -> None:
    pids = hub.directory / "pids"
    hub.grant(1, "bash", "-c", f"trap '' TERM; setsid sleep 1000 & echo $! >> {pids}; echo $$ >> {pids}; wait")
    with agent_of(hub) as agent:
        wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
        hub.meddle = lambda path, message: (401, b"who are you?")
        assert agent.wait(10) == 0
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids.read_text().split())
        assert not list((hub.directory / "node" / "runs").iterdir())
