"""A TrialKeeper whose hub is killed: what the trial printed and reported is there, all of it, and once."""

from __future__ import annotations

import http.client
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import Scene
from tests.harness import user_environment, wait_until

pytestmark = pytest.mark.timeout(150)

KILLS = 5
#: Prints and reports, by both ways of NNI's library, until it is told to stop; says outside how often.
TRIAL = """\
import json, os, sys, time
side, place = sys.argv[1], os.environ["NNI_SYS_DIR"]
os.mkdir(f"{place}/.nni")
count = 0
while not os.path.exists(f"{side}/finish"):
    print(f"line {count}", flush=True)
    told = json.dumps({"type": "PERIODICAL", "sequence": count, "value": json.dumps({"printed": count})})
    print(f"NNISDK_MEb'{told}'", flush=True)
    told = json.dumps({"type": "PERIODICAL", "sequence": count, "value": json.dumps({"written": count})}) + "\\n"
    with open(f"{place}/.nni/metrics", "a") as file:
        file.write(f"ME{len(told):06d}{told}")
    count += 1
    time.sleep(0.01)
with open(f"{side}/count", "w") as file:
    file.write(str(count))
sys.exit(5)
"""


def submit(scene: Scene, listen: str = "127.0.0.1:0") -> tuple[str, str, str]:
    """A run that waits for a keeper: its name, its ticket, and where the hub listens."""
    (scene.cli.cwd / "turnout.yaml").write_text("compute-targets: {cloud: {service: trialkeeper}}\n")
    scene.cli("hub", "start", "--listen", listen)
    run = scene.submit("--target", "cloud", "anything")
    wait_until(lambda: scene.cli("trialkeeper", "--print-token", run, check=False).returncode == 0)
    where = str(scene.cli.json("hub", "status")["tcp"])
    return run, scene.cli.json("trialkeeper", "--print-token", run)["ticket"], where


def start(scene: Scene, ticket: str, where: str, command: str, *more: str) -> subprocess.Popen[bytes]:
    host, _, port = where.partition(":")
    address = ("--nnimanager_ip", host, "--nnimanager_port", port)
    return subprocess.Popen(
        scene.cli.argv("trialkeeper", "--trial_command", command, *address, *more), cwd=scene.side,
        env={**user_environment(scene.cli.home), "TURNOUT_TRIAL_TOKEN": ticket}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def check(scene: Scene, run: str, printed: bytes) -> dict[str, Any]:
    """Nothing is lost, and nothing is there twice."""
    count = int((scene.side / "count").read_text())
    lines = [line for line in printed.splitlines() if line.startswith(b"line ")]
    assert lines == [b"line %d" % number for number in range(count)]
    assert scene.output(run) == printed
    for name in ("printed", "written"):
        points = scene.client.metrics(run)[name]
        assert [(point["step"], point["value"]) for point in points] == [(n, float(n)) for n in range(count)], name
    view = scene.show(run)
    assert (view["state"], view["exit_code"], view["attempts"]) == ("failed", 5, 1)
    return view


def test_the_hub_is_killed_while_the_trial_goes_on(scene: Scene) -> None:
    run, ticket, where = submit(scene)
    process = start(scene, ticket, where, f"python3 {scene.script('trial.py', TRIAL)} {scene.side}")
    for _ in range(KILLS):
        before = len(scene.output(run))
        wait_until(lambda before=before: len(scene.output(run)) > before, what="more has arrived")  # type: ignore[misc]
        scene.kill_hub()
        scene.cli("hub", "start", "--listen", where)
    scene.allow("finish")
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 5, said
    check(scene, run, printed)
    assert not list(scene.side.glob(".turnout-*")), "nothing of ours is left"


def test_a_hub_that_stays_away_is_told_later(scene: Scene) -> None:
    """The trial's end waits only so long; what was not told is kept, and told when somebody says so."""
    run, ticket, where = submit(scene)
    process = start(scene, ticket, where, f"python3 {scene.script('trial.py', TRIAL)} {scene.side}", "--patience", "1")
    wait_until(lambda: len(scene.output(run)) > 100)
    scene.kill_hub()
    scene.allow("finish")
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 5 and b"did not answer for 1 s" in said
    (left,) = scene.side.glob(".turnout-*")
    assert f"--resend {left}".encode() in said and (left / "trial.json").stat().st_mode & 0o777 == 0o600
    scene.cli("hub", "start", "--listen", where)
    scene.cli("trialkeeper", "--resend", str(left))
    check(scene, run, printed)
    assert not left.exists()


def test_without_a_hub_nothing_is_executed(scene: Scene) -> None:
    """It would have no parameters, and nobody would hear of it: it is waited for, and then given up."""
    run, ticket, where = submit(scene)
    scene.kill_hub()
    process = start(scene, ticket, where, "touch begun", "--patience", "1")
    printed, said = process.communicate(timeout=60)
    assert (process.returncode, printed) == (126, b"") and b"does not answer" in said and b"not executed" in said
    waiting = start(scene, ticket, where, "touch begun; exit 4")
    assert waiting.stderr is not None and b"waiting for up to 300 s" in waiting.stderr.readline()
    assert not (scene.side / "begun").exists()
    scene.cli("hub", "start", "--listen", where)
    waiting.communicate(timeout=60)
    view = scene.wait_for(run)
    assert (waiting.returncode, view["state"], view["exit_code"], view["attempts"]) == (4, "failed", 4, 1)
    assert (scene.side / "begun").exists() and not list(Path(scene.side).glob(".turnout-*"))


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_a_run_of_nni_s_keeper_can_be_ended_after_a_start_of_the_hub(scene: Scene, is_asked_before: bool) -> None:
    """That keeper said one line, and never another."""
    run, _, where = submit(scene)
    host, _, port = where.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    told = {"tag": "trial", "stdOutputType": "Stdout", "msg": "one"}
    token = scene.cli.json("trialkeeper", "--print-token", run)["token"]
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("POST", f"/api/v1/nni-pai/stdout/job1/{run}", json.dumps(told), headers)
    assert connection.getresponse().status == 200
    if is_asked_before:
        scene.cli("cancel", "run", run)
    scene.kill_hub()
    scene.cli("hub", "start")
    if not is_asked_before:
        assert scene.show(run)["state"] == "running"
        scene.cli("cancel", "run", run)
    assert scene.wait_for(run)["state"] == "cancelled" and scene.output(run) == b"one\n"
