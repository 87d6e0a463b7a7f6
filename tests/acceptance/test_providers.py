"""``turnout provider``: what is there, what it says of itself, whether it keeps its promises, and how to begin one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Cli

pytestmark = pytest.mark.xdist_group("providers")

#: A provider in a project, named by its path.
_OWN = """\
from dataclasses import dataclass, field
from turnout.providers.local import LocalProvider

@dataclass(frozen=True)
class Settings:
    depth: int = field(default=3, metadata={"doc": "How deep."})

class Cellar(LocalProvider):
    "Below this machine."
    name = "cellar"
    Settings = Settings
    def cancel(self, handles):
        print("nothing is ever ended here")
"""
_SETTINGS = """\
providers: {compute: {cellar: places.cellar.Cellar}}
compute-targets: {deep: {service: cellar, depth: 7}}
"""


@pytest.fixture
def project(cli: Cli) -> Cli:
    (cli.cwd / "places").mkdir()
    (cli.cwd / "places" / "cellar.py").write_text(_OWN)
    (cli.cwd / "turnout.yaml").write_text(_SETTINGS)
    return cli


def install_broken(
    folder: Path, name: str = "ruin", source: str = "import no_such_library_anywhere\n"
) -> dict[str, str]:
    """Variables with which turnout finds a package whose provider of that name cannot be imported."""
    about = folder / "ruin-2.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: ruin\nVersion: 2.0\n")
    (about / "entry_points.txt").write_text(f"[turnout.providers]\n{name} = ruin:Ruin\n")
    (folder / "ruin.py").write_text(source)
    return {"PYTHONPATH": str(folder)}


def test_list_tells_what_is_installed_and_where_it_is_from(cli: Cli) -> None:
    found = {each["name"]: each for each in cli.json("provider", "list")}
    assert {"local", "ssh", "slurm"} <= set(found)
    local = found["local"]
    assert (local["code"], local["package"]) == ("turnout.providers.local:LocalProvider", "turnout")
    assert local["targets"] == ["local"] and local["place"] is None
    shown = cli("provider", "list").stdout
    assert shown.startswith("NAME") and "turnout.providers.ssh:SshProvider" in shown


def test_list_tells_what_the_settings_name_by_its_path(project: Cli) -> None:
    (cellar,) = [each for each in project.json("provider", "list") if each["name"] == "cellar"]
    assert cellar["code"] == "places.cellar.Cellar" and cellar["targets"] == ["deep"]
    assert cellar["place"].endswith("turnout.yaml:1") and cellar["package"] is None


def test_show_tells_the_keys_of_its_targets(cli: Cli) -> None:
    told = cli.json("provider", "show", "slurm")
    assert told["capabilities"]["elastic"] is True and told["broken"] == ""
    (partition,) = [each for each in told["settings"] if each["key"] == "partition"]
    assert partition["kind"] == "text" and partition["default"] == "" and partition["doc"]
    shown = cli("provider", "show", "slurm").stdout
    assert "partition" in shown and "elastic=True" in shown


def test_show_tells_of_a_class_by_its_path(project: Cli) -> None:
    told = project.json("provider", "show", "cellar")
    assert told["settings"] == [{"key": "depth", "kind": "a whole number", "default": 3, "doc": "How deep."}]
    assert told["doc"] == "Below this machine."


def test_show_of_none_names_what_was_meant(cli: Cli) -> None:
    done = cli("provider", "show", "slrum", check=False)
    assert done.returncode == 3 and "did you mean 'slurm'?" in done.stderr


def test_a_broken_one_is_shown_with_where_it_fails(cli: Cli, tmp_path: Path) -> None:
    env = install_broken(tmp_path / "site")
    done = cli("provider", "show", "ruin", check=False, env=env)
    assert done.returncode == 7
    assert "ruin.py" in done.stderr and "no_such_library_anywhere" in done.stderr
    told = json.loads(cli("provider", "show", "ruin", "--json", check=False, env=env).stdout)
    assert "ruin" in told["broken"] and "ModuleNotFoundError" in told["trace"] and told["settings"] is None


def test_a_broken_one_is_found_by_doctor_and_harms_nothing_else(cli: Cli, tmp_path: Path) -> None:
    env = install_broken(tmp_path / "site")
    (cli.cwd / "turnout.yaml").write_text("compute-targets: {fallen: {service: ruin}}\n")
    done = cli("doctor", check=False, env=env)
    assert done.returncode == 1
    assert "provider ruin" in done.stdout and "no_such_library_anywhere" in done.stdout
    assert "target local" in done.stdout
    refused = cli("run", "--target", "fallen", "true", check=False, env=env)
    assert refused.returncode == 7 and "no_such_library_anywhere" in refused.stderr
    assert cli("run", "echo", "goes on", env=env).stdout.count("goes on") == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import os\nos._exit(3)\n", "its process ended with exit code 3"),
        ("import os\nos._exit(0)\n", "its process ended with exit code 0"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "its process was killed by signal 11"),
    ],
)
def test_one_that_ends_its_process_is_broken_as_well(project: Cli, tmp_path: Path, source: str, said: str) -> None:
    """An installed one, and one that is named by its path: both are told, and no other is."""
    env = install_broken(tmp_path / "site", source=source)
    (project.cwd / "places" / "cellar.py").write_text(source)
    found = [each["what"] for each in json.loads(project("doctor", "--json", check=False, env=env).stdout)]
    assert [what for what in found if what.startswith("provider ")] == [
        f"provider cellar: {said}",
        f"provider ruin: {said}",
    ]
    shown = project("provider", "show", "ruin", check=False, env=env)
    assert shown.returncode == 7 and said in shown.stderr and "Traceback" not in shown.stderr
    tested = project("provider", "test", "deep", check=False, env=env)
    assert tested.returncode == 7 and f"{said} amid the checks" in tested.stderr


def test_no_package_takes_the_place_of_ours(cli: Cli, tmp_path: Path) -> None:
    env = install_broken(tmp_path / "site", name="local")
    assert "goes on" in cli("run", "echo", "goes on", env=env).stdout
    (warning,) = [each for each in json.loads(cli("doctor", "--json", env=env).stdout) if each["level"] == "warning"]
    assert warning["what"] == "provider local: that of ruin is not used, for turnout has one of that name"


def test_a_broken_one_in_the_users_settings_keeps_no_hub_from_starting(cli: Cli, tmp_path: Path) -> None:
    env = install_broken(tmp_path / "site")
    own = Path(cli.json("config", "path")["user"])
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("compute-targets: {fallen: {service: ruin}}\n")
    assert "goes on" in cli("run", "echo", "goes on", env=env).stdout


def test_test_makes_the_checks_at_a_target(cli: Cli, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    names = ["it_has_a_name_and_capabilities", "cancel_ends_it", "an_exit_code_is_told"]
    words = [word for name in names for word in ("--check", name)]
    done = cli("provider", "test", "local", *words, "--report", str(report))
    assert [line.split()[:2] for line in done.stdout.splitlines() if not line.startswith(" ")][:3] == [
        ["passed", names[0]],
        ["passed", names[1]],
        ["skipped", names[2]],
    ]
    assert "2 passed, 0 failed, 1 skipped" in done.stdout
    told = json.loads(report.read_text())
    assert (told["target"], told["provider"], told["code"]) == (
        "local",
        "local",
        "turnout.providers.local:LocalProvider",
    )
    assert [each["name"] for each in told["checks"]] == names
    assert told == {**cli.json("provider", "test", "local", *words), "checks": told["checks"]}


def test_test_of_a_provider_that_breaks_its_promises_fails(project: Cli) -> None:
    words = ("--check", "cancel_ends_it", "--check", "it_prints_nothing", "--patience", "1")
    done = project("provider", "test", "deep", *words, check=False)
    assert done.returncode == 1
    assert "failed  cancel_ends_it" in done.stdout and "promised: What is cancelled is gone" in done.stdout
    assert "it prints: 'nothing is ever ended here" in done.stdout
    told = json.loads(project("provider", "test", "deep", *words, "--json", check=False).stdout)
    assert (told["failed"], told["code"]) == (2, "places.cellar:Cellar")


def test_test_of_an_unknown_target_or_check_names_what_was_meant(cli: Cli) -> None:
    done = cli("provider", "test", "locl", check=False)
    assert done.returncode == 3 and "did you mean 'local'?" in done.stderr
    done = cli("provider", "test", "local", "--check", "cancel_end_it", check=False)
    assert done.returncode == 3 and "did you mean 'cancel_ends_it'?" in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [[], ["--batch"]], ids=["plain", "batch"])
def test_new_writes_a_package_that_works_as_it_is(cli: Cli, how: list[str]) -> None:
    made = cli.json("provider", "new", "my-place", *how)
    directory = Path(made["directory"])
    assert directory == cli.cwd / "turnout-provider-my-place"
    assert made["class"] == "turnout_provider_my_place:MyPlaceProvider"
    env = {**os.environ, "PYTHONPATH": str(directory / "src")}
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(argv, cwd=directory, env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout


def test_new_takes_no_name_that_another_provider_has(cli: Cli) -> None:
    done = cli("provider", "new", "local", check=False)
    assert done.returncode == 4 and "there is a provider 'local' already" in done.stderr
    assert list(cli.cwd.iterdir()) == []


def test_new_says_what_is_wrong_and_does_nothing(cli: Cli) -> None:
    done = cli("provider", "new", "../evil", check=False)
    assert done.returncode == 2 and list(cli.cwd.iterdir()) == []
    cli("provider", "new", "mine")
    (cli.cwd / "turnout-provider-mine" / "README.md").write_text("changed")
    done = cli("provider", "new", "mine", check=False)
    assert done.returncode == 4 and "is there already" in done.stderr
    assert (cli.cwd / "turnout-provider-mine" / "README.md").read_text() == "changed"
