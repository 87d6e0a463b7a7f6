"""Providers by the path of their class: found beside the file that names them, run in a process of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, processes_of, user_environment, wait_until

#: Agents on this machine, as `local` has them, but for a process that is not the hub's.
PROVIDER = """
import os
from pathlib import Path
from turnout.plugin.provider import Finding
from turnout.providers.local import LocalProvider

class Yard(LocalProvider):
    name = "yard"
    Settings = None

    def check(self):
        return [Finding("ok", f"yard {self.settings.get('gate')} is open, pid {os.getpid()}")]
"""
SETTINGS = """
compute-targets:
  here: {service: yard, gate: north}
providers:
  compute: {yard: own.places.Yard}
"""


@pytest.fixture
def project(cli: Cli) -> Path:
    (cli.cwd / "own").mkdir()
    (cli.cwd / "own" / "places.py").write_text(PROVIDER)
    (cli.cwd / "turnout.yaml").write_text(SETTINGS)
    return cli.cwd


def hosts(cli: Cli) -> list[int]:
    """The processes of plugins."""
    return [pid for pid in processes_of(cli.home) if b"turnout.compat.child" in _command(pid)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def findings(cli: Cli, target: str = "here") -> list[dict[str, Any]]:
    done = cli("doctor", "--json", target, check=False)
    return list(json.loads(done.stdout))


def test_a_class_in_a_directory_of_the_project_serves_a_target(cli: Cli, project: Path) -> None:
    """Its package needs no ``__init__.py``, and the command may be given below the project."""
    view = cli.json("run", "--wait", "--target", "here", "echo", "hello")
    assert (view["state"], view["target"]) == ("completed", "here")
    (project / "deep").mkdir()
    done = cli("run", "--wait", "--target", "here", "echo", "again", cwd=project / "deep")
    assert done.stdout == "again\n"
    (found,) = findings(cli)
    assert found["level"] == "ok" and found["what"].startswith("yard north is open, pid ")
    assert int(found["what"].split()[-1]) in hosts(cli), "not in the hub's process"


def test_a_class_on_the_python_path(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "yards.py").write_text(PROVIDER)
    (cli.cwd / "turnout.yaml").write_text(SETTINGS.replace("own.places", "yards"))
    env = {"PYTHONPATH": str(tmp_path / "lib")}
    assert cli("run", "--wait", "--target", "here", "echo", "hello", env=env).stdout == "hello\n"


def test_a_class_that_the_users_own_file_names_is_found_beside_that(cli: Cli) -> None:
    cli.home.mkdir(mode=0o700)
    (cli.home / "places").mkdir()
    (cli.home / "places" / "yard.py").write_text(PROVIDER)
    (cli.home / "config.yaml").write_text(SETTINGS.replace("own.places", "places.yard"))
    assert cli("run", "--wait", "--target", "here", "echo", "hello").stdout == "hello\n"
    cli("hub", "stop")
    assert cli("run", "--wait", "--target", "here", "echo", "after a restart").stdout == "after a restart\n"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nothing_like_it\n", "own.places cannot be imported: ModuleNotFoundError: No module named"),
        ("class Other: pass\n", "there is no class Yard in "),
        (f"{PROVIDER}\n    def __init__(self, settings):\n        raise KeyError('zone')\n", "made: KeyError: 'zone'"),
        ("class Yard:\n    def submit_job(self): pass\n", "has not all methods of XT's BackendInterface: adjust_run"),
    ],
    ids=["import", "class", "constructor", "methods"],
)
def test_a_broken_plugin_is_told_where_it_is_named_and_harms_nothing_else(
    cli: Cli, project: Path, source: str, said: str
) -> None:
    (project / "own" / "places.py").write_text(source)
    done = cli("run", "-d", "--target", "here", "true", check=False)
    assert done.returncode == 7 and "turnout.yaml:5: " in done.stderr and said in done.stderr
    (found,) = findings(cli)
    assert found["level"] == "problem" and said in found["what"] and "plugin-Yard-" in found["hint"]
    if "raise" in source or "import" in source[:6]:
        assert "Traceback" in found["what"] and "own/places.py" in found["what"]
    assert cli("run", "--wait", "echo", "fine").stdout == "fine\n"
    assert [run["name"] for run in cli.json("list", "runs")] == ["run1"], "nothing of it was submitted"


def test_a_package_that_is_nowhere_and_a_key_that_is_nearly_right(cli: Cli, project: Path) -> None:
    (project / "turnout.yaml").write_text(SETTINGS.replace("own.places", "elsewhere.places"))
    done = cli("run", "-d", "--target", "here", "true", check=False)
    assert done.returncode == 2
    assert "turnout.yaml:5: no package 'elsewhere' for elsewhere.places.Yard" in done.stderr
    assert f"put the package 'elsewhere' into {project}" in done.stderr
    (project / "turnout.yaml").write_text(SETTINGS.replace("compute: {", "comopute: {"))
    done = cli("run", "-d", "--target", "here", "true", check=False)
    assert "turnout.yaml:5: unknown key 'comopute' in providers" in done.stderr
    assert "did you mean 'compute'?" in done.stderr


def test_keys_that_a_class_does_not_take_are_told(cli: Cli, project: Path) -> None:
    keys = "\n    from dataclasses import make_dataclass\n    Settings = make_dataclass('S', [('gat', str, 'x')])\n"
    (project / "own" / "places.py").write_text(PROVIDER + keys)
    done = cli("run", "-d", "--target", "here", "true", check=False)
    assert "unknown key 'gate' of target here; did you mean 'gat'?" in done.stderr


#: Its handles are words of its own, and no numbers of processes.
RENAMED = """
    def submit(self, launches):
        return [f"yard-{each}" if isinstance(each, str) else each for each in super().submit(launches)]

    def observe(self, handles):
        return {f"yard-{key}": each for key, each in super().observe([each[5:] for each in handles]).items()}

    def cancel(self, handles):
        super().cancel([each[5:] for each in handles])

    def find(self, token):
        found = super().find(token)
        return found and f"yard-{found}"
"""


def test_what_a_handle_says_is_the_affair_of_its_provider(cli: Cli, project: Path) -> None:
    (project / "own" / "places.py").write_text(PROVIDER + RENAMED)
    assert cli("run", "--wait", "--target", "here", "echo", "hello").stdout == "hello\n"
    (agent,) = cli.json("hub", "status")["agents"]
    assert (agent["target"], agent["pid"]) == ("here", None)
    assert cli.json("hub", "stop")["stopped"] is True


def test_what_a_provider_raises_is_told_with_its_place(cli: Cli, project: Path) -> None:
    source = PROVIDER.replace("return [Finding", "raise KeyError('zone')\n        return [Finding")
    (project / "own" / "places.py").write_text(source)
    line = source[: source.index("raise KeyError")].count("\n") + 1
    (found,) = findings(cli)
    assert f"check: KeyError: 'zone' ({project / 'own' / 'places.py'}:{line})" in found["what"]
    assert "Traceback" in found["what"] and "turnout provider test here" in found["hint"]


def test_the_trouble_of_code_that_was_changed_is_no_trouble_of_the_target(cli: Cli, project: Path) -> None:
    refusal = "\n    def submit(self, launches):\n        raise KeyError('zone')\n"
    (project / "own" / "places.py").write_text(PROVIDER + refusal)
    cli("run", "-d", "--target", "here", "true")
    wait_until(lambda: "KeyError: 'zone'" in cli("why", "run1").stdout)
    cli("cancel", "run", "run1")
    (project / "own" / "places.py").write_text(PROVIDER)
    (found,) = findings(cli)
    assert found["level"] == "ok"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("\n    Settings = {'gate': 'x'}\n", "Settings of own.places.Yard is no dataclass"),
        ("\n    capabilities = {'same_host': True}\n", "capabilities of own.places.Yard is no Capabilities"),
        ("\n    def __init__(self, settings):\n        raise KeyError('zone')\n", "cannot be made: KeyError: 'zone'"),
    ],
    ids=["settings", "capabilities", "constructor"],
)
def test_the_kit_tells_once_what_keeps_it_from_every_check(cli: Cli, project: Path, more: str, said: str) -> None:
    (project / "own" / "places.py").write_text(PROVIDER + more)
    done = cli("provider", "test", "here", check=False)
    assert done.returncode == 7 and done.stdout == "" and done.stderr.count(said) == 1
    assert "`turnout provider show yard` looks again" in done.stderr


def test_changed_code_is_another_process(cli: Cli, project: Path) -> None:
    (first,) = findings(cli)
    (project / "own" / "places.py").write_text(PROVIDER.replace("is open", "is shut"))
    (second,) = findings(cli)
    assert "is open" in first["what"] and "is shut" in second["what"]
    assert first["what"].split()[-1] != second["what"].split()[-1] and len(hosts(cli)) == 2


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_its_process_ends_with_the_hub(cli: Cli, project: Path, how: str) -> None:
    findings(cli)
    assert len(hosts(cli)) == 1
    if how == "kill":
        os.kill(cli.json("hub", "status")["pid"], signal.SIGKILL)
    else:
        cli("hub", "stop")
    wait_until(lambda: not hosts(cli), 5.0)


def test_a_hub_that_starts_again_knows_it_without_loading_it(cli: Cli, project: Path) -> None:
    cli("run", "-d", "--held", "--target", "here", "echo", "later")
    cli("hub", "stop")
    (project / "own" / "places.py").write_text("raise ValueError('not now')\n")
    assert cli.json("status", "run1")["state"] == "created"
    assert hosts(cli) == []
    cli("release", "run1")
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed")


def test_what_was_submitted_with_some_code_runs_with_it(cli: Cli, project: Path) -> None:
    """Whatever becomes of the file, and of the hub; what comes next runs with what is there then."""
    marked = (
        PROVIDER
        + """
    def submit(self, launches):
        Path(self.settings["gate"]).open("a").write("%s\\n")
        return super().submit(launches)
"""
    )
    marks = project.parent / "marks"
    (project / "turnout.yaml").write_text(SETTINGS.replace("north", str(marks)))
    (project / "own" / "places.py").write_text(marked % "first")
    cli("run", "-d", "--held", "--target", "here", "true")
    cli("hub", "stop")
    (project / "own" / "places.py").write_text(marked % "second")
    cli("release", "run1")
    wait_until(lambda: cli.json("show", "run1")["state"] == "completed")
    assert marks.read_text() == "first\n"
    cli("run", "--wait", "--target", "here", "true")
    assert marks.read_text() == "first\nsecond\n"


def test_a_shared_hub_takes_no_code(cli: Cli, project: Path) -> None:
    hub = subprocess.Popen(
        [sys.executable, "-m", "turnout.hub", "--shared"], env=user_environment(cli.home), stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: (cli.home / "hub.json").exists())
        done = cli("run", "-d", "--target", "here", "true", check=False)
        assert done.returncode == 5
        assert "this hub is shared and takes no code: own.places.Yard" in done.stderr
        assert "install its package on the hub" in done.stderr
        assert cli("run", "--wait", "echo", "fine").stdout == "fine\n"
    finally:
        hub.terminate()
        hub.wait(20)
