"""Containers: how podman and docker are called. What they then do is in tests/acceptance/test_containers.py."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from turnout.agent import container_command as command
from turnout.agent.cache import Abandoned
from turnout.agent.container_command import CannotContain, Files, Inside, Mount, Name, Runtime
from turnout.agent.containers import Containers, NoContainer, name_of
from turnout.wire.messages import ContainerOrder, JobOrder

PODMAN, DOCKER = Runtime("/usr/bin/podman", "podman"), Runtime("/usr/bin/docker", "docker")
NAME, FILES = Name("turnout-abc-7-1", "turnout=abc"), Files("/r/ctl/container.env", "/r/ctl/container.id")
INSIDE = Inside(
    argv=["python3", "train.py", "--lr", "0.1"], env={"A": "1", "PATH": "/bin", "B": "x\ny"}, directory="/r/work",
    mounts=[Mount("/r", is_writable=True), Mount("/sdk")], umask=0o022,
)  # fmt: skip


def called(runtime: Runtime = PODMAN, order: ContainerOrder | None = None, **changes: object) -> list[str]:
    inside = INSIDE._replace(**changes)  # type: ignore[arg-type]
    return command.run(runtime, order or ContainerOrder("debian:12"), NAME, inside, FILES)


def test_the_whole_command() -> None:
    assert called() == [
        "/usr/bin/podman", "run", "--rm", "--name", "turnout-abc-7-1", "--label", "turnout=abc",
        "--cidfile", "/r/ctl/container.id", "--log-driver", "none", "--security-opt", "label=disable",
        "--workdir", "/r/work", "--umask", "0022",
        "--mount", "type=bind,source=/r,target=/r", "--mount", "type=bind,source=/sdk,target=/sdk,readonly",
        "--env-file", "/r/ctl/container.env", "--env", "A", "--env", "B",
        "--entrypoint", "python3", "debian:12", "train.py", "--lr", "0.1",
    ]  # fmt: skip


def test_its_files_belong_to_who_submits() -> None:
    assert "--userns" not in called() and "keep-id" in called(PODMAN._replace(is_rootless=True))
    docker = called(DOCKER)
    assert docker[docker.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert "--user" not in called(DOCKER._replace(is_rootless=True))


def test_what_is_limited_and_asked_for() -> None:
    order = ContainerOrder("x", options=["--shm-size", "1g"], network="host")
    argv = called(PODMAN._replace(has_init=True), order, limits=(2, 1 << 30))
    line = " ".join(argv)
    assert "--init" in argv and "--cpus 2 --memory 1073741824" in line
    assert line.endswith("--network host --shm-size 1g --entrypoint python3 x train.py --lr 0.1")


@pytest.mark.parametrize(
    ("runtime", "vendor", "words"),
    [
        (DOCKER, "nvidia", ["--gpus", '"device=0,3"']),
        (PODMAN, "nvidia", ["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=3"]),
        (DOCKER, "amd", ["--device", "/dev/kfd", "--device", "/dev/dri/renderD128"]),
    ],
)
def test_its_gpus_and_no_others(runtime: Runtime, vendor: str, words: list[str]) -> None:
    argv = called(runtime, gpus=["0", "3"], vendor=vendor, gpu_nodes=["/dev/kfd", "/dev/dri/renderD128"])
    at = argv.index(words[0])
    assert argv[at : at + len(words)] == words
    assert words[0] not in called(runtime, vendor=vendor)


def test_a_path_with_a_comma_stays_one() -> None:
    assert 'type=bind,"source=/a,b","target=/a,b",readonly' in called(mounts=[Mount("/a,b")])


def test_no_value_is_an_argument() -> None:
    env = {"TOKEN": "hunter2", "HOME": "/secret/home", "LINES": "a\nb"}
    assert not any("hunter2" in word or "/secret" in word or "\n" in word for word in called(env=env))
    assert command.environment_file(env) == "HOME=/secret/home\n"
    client = command.client_environment(
        env, {"HOME": "/root", "PATH": "/bin", "SHLVL": "1", "DOCKER_HOST": "unix:///x"}
    )
    assert client == {
        "HOME": "/root", "PATH": "/bin", "DOCKER_HOST": "unix:///x", "TOKEN": "hunter2", "LINES": "a\nb",
    }  # fmt: skip


def test_what_has_no_place_in_a_line_is_refused() -> None:
    with pytest.raises(CannotContain, match="HOME cannot be handed"):
        command.environment_file({"HOME": "a\nb"})


def test_a_name_is_of_one_agent_and_attempt() -> None:
    names = {name_of(root, run, attempt).name for root in ("/a", "/b") for run in (1, 2) for attempt in (1, 2)}
    assert len(names) == 8
    assert name_of("/a", 1, 2).label == name_of("/a", 5, 6).label != name_of("/b", 1, 2).label


class TestTheImageIsBrought:
    """No registry can be had where tests run: the program is a stand-in that notes what it is asked."""

    @pytest.fixture
    def program(self, tmp_path: Path) -> Path:
        """It has the image once that was pulled; it can pull `good`, pulls `slow` for ever, and knows no other."""
        made = tmp_path / "podman"
        made.write_text(
            f"""#!/bin/sh
echo "$*" >> {tmp_path}/asked
case "$*" in
    --version) echo podman version 9 ;;
    info*) echo false ;;
    "image inspect"*) test -e {tmp_path}/have ;;
    "pull good") touch {tmp_path}/have ;;
    "pull slow") sleep 100 ;;
    *) echo "Error: no such thing" >&2; exit 125 ;;
esac
"""
        )
        made.chmod(0o755)
        return made

    def prepare(self, program: Path, image: str, pull: str, *, is_wanted: bool = True) -> list[str]:
        """What it was asked about images."""
        job = JobOrder(
            job=1, name="job1", experiment="e", workspace="w", kind="command", script=None, script_path=None,
            before=None, after=[], env={}, seconds=None, grace=1.0, memory=None,
            container=ContainerOrder(image, program=str(program), pull=pull),
        )  # fmt: skip
        runtime = Containers(str(program.parent)).prepare(job, lambda: is_wanted)
        assert runtime.program == str(program) and runtime.kind == "podman"
        asked = (program.parent / "asked").read_text().splitlines()
        return [line.split()[0] for line in asked if line.startswith(("image", "pull"))]

    def test_when_it_is_missing(self, program: Path) -> None:
        assert self.prepare(program, "good", "missing") == ["image", "pull"]
        assert self.prepare(program, "good", "missing") == ["image", "pull", "image"], "it is there now"

    def test_always_or_never(self, program: Path) -> None:
        with pytest.raises(NoContainer, match="no image good on this node, and it is never pulled; `podman pull good`"):
            self.prepare(program, "good", "never")
        (program.parent / "have").touch()
        (program.parent / "asked").unlink()
        assert self.prepare(program, "good", "never") == ["image"]
        assert self.prepare(program, "good", "always") == ["image", "image", "pull"]

    def test_what_its_program_says_is_told_when_it_cannot_be(self, program: Path) -> None:
        with pytest.raises(
            NoContainer, match=r"image bad could not be pulled \(exit code 125\):\nError: no such thing"
        ):
            self.prepare(program, "bad", "missing")

    def test_nobody_waits_for_an_image_that_is_not_wanted_any_more(self, program: Path) -> None:
        with pytest.raises(Abandoned):
            self.prepare(program, "slow", "missing", is_wanted=False)
