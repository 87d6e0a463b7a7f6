"""Containers: how podman and docker are called. What they then do is in tests/acceptance/test_containers.py."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from turnout.agent import container_command as command
from turnout.agent import stage
from turnout.agent.attempt import Attempt
from turnout.agent.cache import Abandoned
from turnout.agent.contained import contain
from turnout.agent.container_command import CannotContain, Files, Inside, Mount, Name, Runtime
from turnout.agent.containers import Containers, NoContainer, clear, clear_strays, name_of, note_use
from turnout.agent.gpus import Gpus
from turnout.agent.rundir import RunDir
from turnout.agent.starting import make_order
from turnout.wire.gpus import GpuFacts
from turnout.wire.messages import ContainerOrder, Grant, InputOrder, JobOrder, SetupOrder

PODMAN, DOCKER = Runtime("/usr/bin/podman", "podman"), Runtime("/usr/bin/docker", "docker")
NAME, FILES = Name("turnout-abc-7-1", "turnout=abc"), Files("/r/ctl/container.env", "/r/ctl/container.id")
INSIDE = Inside(
    argv=["python3", "train.py", "--lr", "0.1"], env={"A": "1", "PATH": "/bin", "B": "x\ny"}, directory="/r/work",
    mounts=[Mount("/r", is_writable=True), Mount("/sdk")], umask=0o022,
)  # fmt: skip


def job_order(**changes: object) -> JobOrder:
    plain = JobOrder(
        job=1, experiment="e", workspace="w", kind="command", script=None, script_path=None, before=None,
        after=[], env={}, seconds=None, grace=1.0, memory=None, container=ContainerOrder("x"),
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def called(runtime: Runtime = PODMAN, order: ContainerOrder | None = None, **changes: object) -> list[str]:
    inside = INSIDE._replace(**changes)  # type: ignore[arg-type]
    return command.run(runtime, order or ContainerOrder("debian:12"), NAME, inside, FILES)


def test_the_whole_command() -> None:
    assert called() == [
        "/usr/bin/podman", "run", "--log-driver", "none", "--security-opt", "label=disable",
        "--workdir", "/r/work", "--umask", "0022",
        "--mount", "type=bind,source=/r,target=/r", "--mount", "type=bind,source=/sdk,target=/sdk,readonly",
        "--env-file", "/r/ctl/container.env", "--env", "A", "--env", "B",
        "--name", "turnout-abc-7-1", "--label", "turnout=abc", "--cidfile", "/r/ctl/container.id",
        "--rm", "--detach=false", "--entrypoint", "python3", "debian:12", "train.py", "--lr", "0.1",
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
    assert "--network host --shm-size 1g --name turnout-abc-7-1" in line
    assert line.endswith("--entrypoint python3 x train.py --lr 0.1")


def test_no_option_takes_its_name_away() -> None:
    argv = called(order=ContainerOrder("x", options=["--name", "web", "-d", "--rm=false", "--label", "turnout=z"]))
    last = {word: max(at for at, each in enumerate(argv) if each == word) for word in ("--name", "--label", "--rm")}
    assert argv[last["--name"] + 1] == NAME.name and argv[last["--label"] + 1] == NAME.label
    assert argv.index("--detach=false") > argv.index("-d") and last["--rm"] > argv.index("--rm=false")


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


@pytest.mark.parametrize(
    ("runtime", "options", "words"),
    [
        (DOCKER, [], ["--group-add", "44", "--group-add", "109"]),
        (DOCKER._replace(is_rootless=True), [], []),
        (PODMAN, [], ["--group-add", "44", "--group-add", "109"]),
        (PODMAN._replace(is_rootless=True), [], ["--group-add", "keep-groups"]),
        (PODMAN._replace(is_rootless=True), ["--group-add=wheel"], []),
        (PODMAN, ["--group-add", "keep-groups"], ["--group-add", "keep-groups"]),
    ],
)
def test_it_may_open_the_files_of_its_gpus(runtime: Runtime, options: list[str], words: list[str]) -> None:
    """Podman takes its word for all groups only without another beside it."""
    order = ContainerOrder("x", options=options)
    nodes = {"gpu_nodes": ["/dev/kfd", "/dev/dri/renderD128"], "gpu_groups": [44, 109]}
    argv = called(runtime, order, gpus=["0"], vendor="amd", **nodes)
    at = [index for index, word in enumerate(argv) if word == "--group-add"]
    assert [word for index in at for word in argv[index : index + 2]] == words
    assert "--group-add" not in called(runtime, gpus=["0"], vendor="nvidia")


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


class TestWhatIsShownOfItsDirectory:
    """`ctl/` is what agent and supervisor believe: what runs inside may not write there."""

    @pytest.fixture
    def attempt(self, tmp_path: Path) -> Attempt:
        (tmp_path / "runs").mkdir()
        directory = RunDir(f"{tmp_path}/runs/7.1")
        directory.make()
        directory.complete()
        grant = Grant(7, 1, name="run7", job=1, argv=["x"], params={}, slots=1.0, memory=0, gpus=0)
        made = Attempt(grant, [], directory)
        made.runtime = PODMAN
        return made

    def contained(self, attempt: Attempt, job: JobOrder, gpus: Gpus | None = None) -> list[str]:
        root = os.path.dirname(os.path.dirname(attempt.directory.path))
        order = make_order(attempt, job, gpus="")
        return contain(order, attempt, job, {}, root=root, sdk=f"{root}/sdk", gpus=gpus or Gpus()).argv

    def mounts(self, attempt: Attempt, job: JobOrder) -> dict[str, bool]:
        """Below the directory: whether each can be written."""
        found = {}
        for word in self.contained(attempt, job):
            if word.startswith(f"type=bind,source={attempt.directory.path}"):
                fields = word.split(",")
                found[os.path.relpath(fields[1].removeprefix("source="), attempt.directory.path)] = len(fields) == 3
        return found

    def test_its_files_and_what_it_logs(self, attempt: Attempt) -> None:
        expected = {"work": True, "home": True, "ctl/track": True, "ctl/output": False}
        assert self.mounts(attempt, job_order()) == expected

    def test_scripts_are_shown_and_cannot_be_changed(self, attempt: Attempt) -> None:
        job = job_order(script="true", setup=SetupOrder("s", lock="", activate="true"))
        found = self.mounts(attempt, job)
        assert (found["ctl/run.sh"], found["ctl/setup.sh"]) == (False, False)
        assert found["ctl/setup.sh.failed"] and os.path.exists(f"{attempt.directory.ctl}/setup.sh.failed")
        assert stage.entrance_trouble(attempt.directory) == ""

    def test_a_copy_of_its_data_can_be_changed_if_it_was_said(self, attempt: Attempt) -> None:
        for name in ("data", "model"):
            attempt.env[f"TURNOUT_{name.upper()}_DIR"] = f"{attempt.directory.path}/{name}"
        inputs = {
            "data": InputOrder("download", manifest="0" * 64, writable=True),
            "model": InputOrder("download", manifest="0" * 64),
        }
        found = self.mounts(attempt, job_order(inputs=inputs))
        assert (found["data"], found["model"]) == (True, False)

    def test_a_gpu_is_called_by_a_name_that_holds_everywhere(self, attempt: Attempt) -> None:
        """Its number counts those that the agent sees; a daemon may see more."""
        attempt.gpus = ["0", "1"]
        gpus = Gpus([GpuFacts("0", "GPU-aa"), GpuFacts("1")])
        argv = self.contained(attempt, job_order(), gpus)
        assert [word for word in argv if word.startswith("nvidia.com/")] == [
            "nvidia.com/gpu=GPU-aa",
            "nvidia.com/gpu=1",
        ]

    def test_the_groups_of_a_gpus_files_are_had_inside(self, attempt: Attempt, tmp_path: Path) -> None:
        groups = [109] if os.getuid() == 0 else [each for each in os.getgroups() if each not in (0, os.getgid())]
        if not groups:
            pytest.skip("this user is in no other group")
        attempt.gpus, attempt.runtime = ["0"], DOCKER
        node = tmp_path / "renderD128"
        node.touch()
        os.chown(node, -1, groups[0])
        gpus = Gpus([GpuFacts("0", "GPU-1", "AMD", 0, "amd")], nodes={"0": [str(node), "/nowhere"]})
        argv = self.contained(attempt, job_order(), gpus)
        assert argv[argv.index("--group-add") + 1] == str(groups[0])


class TestClearing:
    """The program is a stand-in that notes what it is asked."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> Path:
        program = tmp_path / "podman"
        program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\ncat {tmp_path}/names 2>/dev/null\n')
        program.chmod(0o755)
        note_use(str(tmp_path), str(program))
        (tmp_path / "runs").mkdir()
        (tmp_path / "asked").touch()
        return tmp_path

    def asked(self, node: Path) -> list[str]:
        return (node / "asked").read_text().splitlines()

    def test_the_program_is_the_nodes_and_the_name_the_attempts(self, node: Path) -> None:
        evil = node / "evil"
        evil.write_text(f"#!/bin/sh\ntouch {node}/executed\n")
        evil.chmod(0o755)
        directory = RunDir(f"{node}/runs/7.1")
        directory.make()
        directory.remember_container(str(evil), "x")
        clear(directory)
        assert not (node / "executed").exists()
        name = name_of(str(node), 7, 1).name
        assert self.asked(node) == [f"kill {name}", f"rm -f {name}"]

    def test_it_is_cleared_when_nothing_is_known_of_it_any_more(self, node: Path) -> None:
        clear(RunDir(f"{node}/runs/7.1"))
        assert len(self.asked(node)) == 2

    def test_nobody_is_asked_for_a_run_without_one(self, node: Path) -> None:
        directory = RunDir(f"{node}/runs/7.1")
        directory.make()
        directory.remember_gpus([])
        clear(directory)
        clear(RunDir(f"{node}/runs/strange"))
        assert self.asked(node) == []

    def test_of_strays_only_those_with_a_name_of_ours_are_ended(self, node: Path) -> None:
        stray, held, other = (name_of(root, run, 1).name for root, run in ((str(node), 9), (str(node), 7), ("/b", 9)))
        (node / "runs" / "7.1").mkdir()
        (node / "names").write_text(f"web\na-b\n{other}\n{held}\n{stray}-x\n{stray}\n")
        clear_strays(str(node))
        assert self.asked(node)[1:] == [f"kill {stray}", f"rm -f {stray}"]


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
        job = job_order(container=ContainerOrder(image, program=str(program), pull=pull))
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
