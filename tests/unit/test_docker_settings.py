"""``docker:``: the name of an image or more, in a target or a setup, and what of it a job gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnout import config
from turnout.client.containers import specify
from turnout.config.containers import DockerSettings
from turnout.errors import InvalidInput
from turnout.model.container import Container
from turnout.model.setup import Setup
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.spec.check import check


def settings(folder: Path, text: str, project: str = "") -> config.Config:
    (folder / "config.yaml").write_text(text)
    (folder / "turnout.yaml").write_text(project)
    return config.gather(folder / "config.yaml", folder / "turnout.yaml").config()


def in_container(container: Container) -> JobSpec:
    return JobSpec(kind=CommandKind.COMMAND, display=("true",), runs=(RunSpec(argv=("true",)),), container=container)


def test_short_and_long(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        "compute-targets:\n  a: {docker: 'python:3.12'}\n  c: {}\n"
        "  b: {docker: {image: x, options: [--shm-size, 8g]}}\n"
        "boxes: {d: {address: localhost, docker: y}}\nsetups: {e: {docker: {image: z, pull: never, network: host}}}\n",
    )
    targets = found.targets
    assert targets["a"].docker == DockerSettings(image="python:3.12")
    assert targets["b"].docker == DockerSettings(image="x", options=("--shm-size", "8g"))
    assert targets["c"].docker is None and targets["d"].docker == DockerSettings(image="y")
    assert found.setups["e"].docker == DockerSettings(image="z", pull="never", network="host")


def test_layers_are_merged_and_may_take_it_away(tmp_path: Path) -> None:
    user = "compute-targets: {a: {docker: {image: x, network: none}}}\n"
    merged = settings(tmp_path, user, "compute-targets: {a: {docker: y}}\n").targets["a"].docker
    assert merged == DockerSettings(image="y", network="none")
    assert settings(tmp_path, user, "compute-targets: {a: {docker: ~}}\n").targets["a"].docker is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("compute-targets: {a: {docker: {imge: x}}}", "unknown key 'imge'"),
        ("compute-targets: {a: {docker: {image: x, pull: often}}}", "expected one of never, missing, always"),
        ("compute-targets: {a: {docker: [x]}}", "expected names and values"),
    ],
)
def test_what_is_none_is_told_with_its_place(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    (problem,) = config.gather(tmp_path / "config.yaml", None).problems
    assert words in str(problem) and "config.yaml:1" in str(problem)


class TestWhatAJobGets:
    target = DockerSettings(image="x", network="none", pull="never")

    def test_nothing_where_nothing_is_said(self) -> None:
        assert specify(None, None, None, None) is None
        assert specify("none", None, self.target, self.target) is None

    def test_the_targets_unless_its_setup_says_another(self) -> None:
        assert specify(None, None, None, self.target) == Container(image="x", network="none", pull="never")
        assert specify(None, None, DockerSettings(image="y"), self.target) == Container(image="y")

    def test_another_image_with_the_rest_of_it(self) -> None:
        assert specify("z", None, None, self.target) == Container(image="z", network="none", pull="never")
        assert specify("z", None, None, None) == Container(image="z")

    def test_no_image_and_packages_are_told(self) -> None:
        with pytest.raises(InvalidInput, match="no image is named"):
            specify(None, None, None, DockerSettings(network="none"))
        with pytest.raises(InvalidInput, match="setup s installs packages"):
            specify(None, Setup(name="s", pip=("numpy",)), None, self.target)
        assert specify(None, Setup(name="s", activate="true"), None, self.target) is not None


@pytest.mark.parametrize(
    "container", [Container(image=""), Container(image="--privileged"), Container(image="x", pull="often")]
)
def test_a_hub_takes_no_other(container: Container) -> None:
    with pytest.raises(InvalidInput):
        check(in_container(container))


@pytest.mark.parametrize(
    "option",
    ["--name", "--name=web", "-d", "-dit", "-itd", "-d=true", "--detach", "--detach=true", "--cidfile", "--rm=false"],
)
def test_what_a_run_is_found_by_is_not_to_be_had(option: str) -> None:
    """Else nobody could end its container, or it would go on without its run."""
    with pytest.raises(InvalidInput, match=f"docker: option {option} ") as refused:
        check(in_container(Container(image="x", options=("--shm-size", "8g", option, "web"))))
    assert refused.value.hint == "leave it out of `options:`"


def test_other_options_are_taken() -> None:
    options = ("--rm", "-it", "-v/data:/data", "-eDEBUG=d", "-wd", "--detach-keys", "x", "--device", "/dev/x")
    check(in_container(Container(image="x", options=options)))
