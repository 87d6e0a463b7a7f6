"""A pool: several boxes that are one target. The boxes are three hosts with real SSH servers."""

from __future__ import annotations

import site
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import turnout
from tests import components
from tests.harness import Cli, run_example, wait_until
from tests.netns import Yard, running_hosts

pytestmark = [pytest.mark.xdist_group("sshd"), pytest.mark.timeout(200)]


@pytest.fixture(scope="module")
def yard() -> Iterator[Yard]:
    with running_hosts(components.namespaces(), ["ada", "bob", "cyd"]) as made:
        yield made


@pytest.fixture
def lab(cli: Cli, yard: Yard) -> Cli:
    """A user with a pool of all three, that takes two runs at a time on each."""
    cli.home.mkdir(parents=True)
    (cli.home / "config.yaml").write_text(
        f"{yard.settings(**{'max-runs': 2})}compute-targets: {{lab: {{service: pool}}}}\n"
    )
    return cli


def test_runs_go_to_any_box_that_has_room(lab: Cli) -> None:
    """As many as each takes at once, so that all work; nodes have the names of the boxes."""
    gate = "while [ ! -e /tmp/go ]; do sleep 0.05; done; hostname"
    (parent,) = lab.json("run", "-d", "--target", "lab", "--runs", "6", "sh", "-c", gate)["runs"]

    def running() -> list[str]:
        return [view["node"] for view in lab.json("list", "runs", "--filter", "state=running") if "." in view["name"]]

    wait_until(lambda: len(running()) == 6, 90.0, "six runs at once")
    assert Counter(running()) == {"ada": 2, "bob": 2, "cyd": 2}
    rows = {row["name"]: row for row in lab.json("box", "list")}
    assert {(row["agents"], row["free"], *row["pools"]) for row in rows.values()} == {(1, 0, "lab")}
    for name in rows:
        lab("ssh", name, "touch /tmp/go")
    assert lab.json("show", parent)["target"] == "lab"
    wait_until(lambda: lab.json("show", parent)["state"] == "completed", 60.0)
    said = Counter(lab("logs", f"{parent}.{number}").stdout.strip() for number in range(1, 7))
    assert said == {"ada": 2, "bob": 2, "cyd": 2}
    lab("ssh", "ada", "rm /tmp/go")


def test_a_box_has_its_own_queue_too(lab: Cli) -> None:
    view = lab.json("run", "--wait", "--target", "bob", "true")
    assert (view["target"], view["node"]) == ("bob", "bob")


def test_a_pool_of_some(lab: Cli, yard: Yard) -> None:
    (lab.cwd / "turnout.yaml").write_text("compute-targets: {two: {service: pool, boxes: [bob, cyd]}}\n")
    names = lab.json("run", "-d", "--target", "two", "--runs", "4", "sleep", "1")["runs"]
    wait_until(lambda: lab.json("show", names[0])["state"] == "completed", 90.0)
    nodes = {lab.json("show", f"{names[0]}.{number}")["node"] for number in range(1, 5)}
    assert nodes <= {"bob", "cyd"}
    (lab.cwd / "turnout.yaml").write_text("compute-targets: {two: {service: pool, boxes: [bob, cyt]}}\n")
    done = lab("run", "--target", "two", "true", check=False)
    assert done.returncode == 2 and "no box 'cyt'" in done.stderr and "'cyd'" in done.stderr


def test_a_box_that_cannot_be_reached_harms_no_other(lab: Cli, yard: Yard) -> None:
    """Runs go to the others, and what is wrong is told; when it is back it works again."""
    ada = yard.hosts[0]
    ada.cut()
    try:
        view = lab.json("run", "--wait", "--target", "lab", "hostname", timeout=100.0)
        assert view["state"] == "completed" and view["node"] in ("bob", "cyd")
        told = lab("doctor", "lab", check=False)
        assert told.returncode == 1 and "ada cannot be used" in told.stdout and "bob answers" in told.stdout
    finally:
        ada.mend()
    assert lab("doctor", "lab").returncode == 0


def test_by_way_of_another_host(cli: Cli, yard: Yard) -> None:
    """A box that only another one can reach: ssh's own ProxyJump."""
    cli.home.mkdir(parents=True)
    (cli.home / "config.yaml").write_text(f"boxes:\n  inner: {yard.hosts[2].entry(via='ada')}\n")
    done = cli("run", "--wait", "--target", "inner", "hostname")
    assert done.stdout == "cyd\n"
    assert cli("ssh", "inner", "--", "hostname").stdout == "cyd\n"


def test_python_functions_on_its_boxes(lab: Cli, yard: Yard) -> None:
    """The users there have no part in our Python, but may read its packages."""
    python = yard.folder / "python"
    paths = ":".join([*site.getsitepackages(), str(Path(turnout.__file__).parents[1])])
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{paths}" exec /usr/bin/python3 "$@"\n')
    python.chmod(0o755)
    assert run_example(lab, "lab", f"{yard.subnet}.254", str(python)) == "pi is about 3.14\n"
    assert "completed" in {view["state"] for view in lab.json("list", "runs")} <= {"completed", "cancelled"}


def test_functions_where_no_worker_can_start(lab: Cli, yard: Yard) -> None:
    """Nobody waits for ever: it is said, and where to look."""
    done = run_example(lab, "lab", f"{yard.subnet}.254", "/bin/false", check=False)
    assert "EngineLost: all workers on lab have ended" in done
