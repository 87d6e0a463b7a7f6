"""The agent's GPUs: what drivers say of them, which ones it may give, and whose processes compute there."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.harness import wait_until
from turnout.agent import nvidia_smi
from turnout.agent.attempt import Attempt, Phase
from turnout.agent.gpu_neighbours import Neighbours
from turnout.agent.gpu_sources import CannotLook, Computing, Device, Sight, environment, visible
from turnout.agent.gpu_watch import GpuWatch, attribute, owner_of
from turnout.agent.gpus import Gpus, Seen
from turnout.agent.holding import Holding, poll_numbers
from turnout.agent.kfd import Kfd
from turnout.agent.nvidia_smi import Smi
from turnout.agent.rundir import RunDir
from turnout.agent.starter import Starter
from turnout.testing.nvidia_smi import FakeGpus
from turnout.wire.gpus import GpuFacts, GpuRoom
from turnout.wire.messages import Grant, NodeFacts

GB = 1 << 30
MIB = 1 << 20

#: As drivers 470 to 550 printed it.
DEVICES = """\
0, GPU-6e8a1f0c-1d6f-4a66-9d55-0a3c6c9a3b11, NVIDIA H200, 143771
1, GPU-0b0f6f0e-7d1b-3f0f-2a64-6ba2b4f62c51, NVIDIA GeForce RTX 2080 Ti, 11264
Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU
"""
PROCESSES = """\
GPU-6e8a1f0c-1d6f-4a66-9d55-0a3c6c9a3b11, 4117, 5218
GPU-6e8a1f0c-1d6f-4a66-9d55-0a3c6c9a3b11, 4118, [N/A]
GPU-0b0f6f0e-7d1b-3f0f-2a64-6ba2b4f62c51, 977, [Insufficient Permissions]
"""
PARTS = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77)
  MIG 1g.5gb      Device  0: (UUID: MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f)
  MIG 3g.20gb     Device  1: (UUID: MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-db75ae88-e6f0-4a45-a5a1-6c8e4d1fa5ff)
"""
TWO = [Device(GpuFacts("0", "GPU-aaaa", "A", 40 * GB)), Device(GpuFacts("1", "GPU-bbbb", "B", 40 * GB))]


def attempt(run: int, gpus: int = 1, gpu_memory: int = 0) -> Attempt:
    grant = Grant(run, 1, f"run{run}", 1, [], {}, 1.0, 0, gpus, gpu_memory=gpu_memory)
    return Attempt(grant, [], RunDir(f"/nowhere/{run}.1"))


class TestWhatDriversSay:
    def test_of_the_gpus(self) -> None:
        first, second = (device.facts for device in nvidia_smi.parse_devices(DEVICES))
        assert first == GpuFacts("0", "GPU-6e8a1f0c-1d6f-4a66-9d55-0a3c6c9a3b11", "NVIDIA H200", 143771 * MIB)
        assert (second.id, second.name) == ("1", "NVIDIA GeForce RTX 2080 Ti")

    def test_of_processes_whose_memory_may_be_nobodys_business(self) -> None:
        found = nvidia_smi.parse_processes(PROCESSES)
        assert [(process.pid, process.memory) for process in found] == [(4117, 5218 * MIB), (4118, None), (977, None)]
        assert nvidia_smi.parse_processes("") == []

    def test_of_a_gpu_that_is_cut_into_parts(self) -> None:
        whole = nvidia_smi.parse_devices(
            "0, GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77, NVIDIA A100-SXM4-40GB, 40536\n"
            "1, GPU-db75ae88-e6f0-4a45-a5a1-6c8e4d1fa5ff, NVIDIA A100-SXM4-40GB, 40536\n"
        )
        found = nvidia_smi.with_parts(whole, PARTS)
        assert [device.facts.id for device in found] == [
            "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "MIG-cba663e8-9bed-5b25-b243-5985ef7c9beb", "1",
        ]  # fmt: skip
        assert [device.facts.memory for device in found][:2] == [5 * 10**9, 20 * 10**9]
        assert found[0].whole == "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77"

    def test_through_their_program(self, tmp_path: Path) -> None:
        fake = FakeGpus(tmp_path, 2, memory=1000)
        fake.compute(1, 42, 300)
        source = Smi(str(tmp_path / "nvidia-smi"))
        assert [(device.facts.id, device.facts.memory) for device in source.devices()] == [
            ("0", 1000 * MIB), ("1", 1000 * MIB),
        ]  # fmt: skip
        second = fake.gpus[1].uuid
        assert source.look() == Sight({fake.gpus[0].uuid: 0, second: 300 * MIB}, [Computing(second, 42, 300 * MIB)])
        fake.save(failure="NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
        with pytest.raises(CannotLook, match="exit code 9: NVIDIA-SMI has failed"):
            source.look()

    def test_the_stand_in_refuses_what_the_real_one_refuses(self, tmp_path: Path) -> None:
        FakeGpus(tmp_path)
        asked = [str(tmp_path / "nvidia-smi"), "--query-gpu=nonsense", "--format=csv"]
        done = subprocess.run(asked, capture_output=True, text=True)
        assert (done.returncode, done.stdout.strip()) == (2, 'Field "nonsense" is not a valid field to query.')

    def test_of_amds(self, tmp_path: Path) -> None:
        write = {
            "class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
            "class/kfd/kfd/topology/nodes/0/gpu_id": "0",
            "class/kfd/kfd/topology/nodes/1/properties": "simd_count 304\nunique_id 1311768467463790320\n"
            "drm_render_minor 128\n",
            "class/kfd/kfd/topology/nodes/1/gpu_id": "51140",
            "class/kfd/kfd/topology/nodes/1/name": "gfx942",
            "class/drm/renderD128/device/mem_info_vram_total": "206141652992",
            "class/drm/renderD128/device/mem_info_vram_used": "300000000",
            "class/kfd/kfd/proc/777/vram_51140": "200000000",
            "class/kfd/kfd/proc/778/vram_51140": "0",
        }
        for name, text in write.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        assert Kfd.is_there(str(tmp_path)) and not Kfd.is_there(str(tmp_path / "elsewhere"))
        (device,) = Kfd(str(tmp_path)).devices()
        uuid = "GPU-123456789abcdef0"
        assert device.facts == GpuFacts("0", uuid, "gfx942", 206141652992, "amd")
        assert device.nodes == ("/dev/kfd", "/dev/dri/renderD128")
        sight = Kfd(str(tmp_path)).look()
        assert sight == Sight({uuid: 300000000}, [Computing(uuid, 777, 200000000)])


class TestWhatMayBeSeen:
    def ids(self, said: str | None, devices: list[Device] = TWO) -> list[str]:
        env = {} if said is None else {"CUDA_VISIBLE_DEVICES": said}
        return [device.facts.id for device in visible(devices, env)]

    def test_all_unless_the_environment_says_which(self) -> None:
        assert self.ids(None) == ["0", "1"]
        assert self.ids("1") == ["1"]
        assert self.ids("1,0") == ["1", "0"]
        assert self.ids("") == self.ids("-1") == self.ids("NoDevFiles") == []

    def test_names_stay_names(self) -> None:
        assert self.ids("GPU-bb") == ["GPU-bb"]
        (device,) = visible(TWO, {"CUDA_VISIBLE_DEVICES": "GPU-bb"})
        assert (device.facts.uuid, device.facts.memory) == ("GPU-bbbb", 40 * GB)
        part = Device(GpuFacts("MIG-1234", "MIG-1234", "MIG 1g.5gb", 5 * GB), "GPU-aaaa")
        assert self.ids("MIG-1234", [part, TWO[1]]) == ["MIG-1234"]

    def test_what_follows_one_that_is_not_there_does_not_count(self) -> None:
        assert self.ids("1,7,0") == ["1"]

    def test_it_is_believed_where_no_driver_can_be_asked(self) -> None:
        assert self.ids("2,3", []) == ["2", "3"]
        assert self.ids("MIG-GPU-1/2/0", []) == ["MIG-GPU-1/2/0"]
        assert self.ids("NoDevFiles", []) == []

    def test_amds_have_variables_of_their_own(self) -> None:
        amd = [Device(GpuFacts(str(n), f"GPU-{n}", vendor="amd")) for n in range(3)]
        assert [each.facts.id for each in visible(amd, {"ROCR_VISIBLE_DEVICES": "1,2"})] == ["1", "2"]
        assert environment("amd", ["1", "2"]) == {"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "0,1"}
        assert environment("amd", []) == {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}

    def test_in_a_container_they_are_counted_anew(self) -> None:
        assert environment("nvidia", ["2", "3"])["CUDA_VISIBLE_DEVICES"] == "2,3"
        assert environment("nvidia", ["2", "3"], inside=True)["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert environment("nvidia", ["MIG-1"], inside=True)["CUDA_VISIBLE_DEVICES"] == "MIG-1"


class TestWhatIsLeft:
    def test_each_run_gets_its_own(self) -> None:
        gpus = Gpus([device.facts for device in TWO])
        first, second, third = attempt(1), attempt(2), attempt(3)
        assert gpus.take(first) and gpus.take(second) and not gpus.take(third)
        assert {*first.gpus, *second.gpus} == {"0", "1"} and third.gpus == []
        gpus.free(first)
        gpus.free(first)
        assert gpus.take(third)

    def test_all_at_once(self) -> None:
        gpus = Gpus([device.facts for device in TWO])
        both = attempt(1, 2)
        assert gpus.take(both) and both.gpus == ["0", "1"]

    def test_runs_share_as_many_as_may(self) -> None:
        gpus = Gpus([device.facts for device in TWO], most=2)
        taken = [attempt(number) for number in range(5)]
        assert [gpus.take(each) for each in taken] == [True, True, True, True, False]
        assert sorted(each.gpus[0] for each in taken[:4]) == ["0", "0", "1", "1"]

    def test_a_promise_counts_until_it_is_used(self) -> None:
        gpus = Gpus([TWO[0].facts], most=3)
        first = attempt(1, gpu_memory=15 * GB)
        assert gpus.take(first) and gpus.rooms() == [GpuRoom(2, 25 * GB)]
        gpus.learn(Seen({"0": 10 * GB}, {("0", "1.1"): 10 * GB}, set()))
        assert gpus.rooms() == [GpuRoom(2, 25 * GB)], "of what is in use, ten are what it was promised"
        gpus.learn(Seen({"0": 20 * GB}, {("0", "1.1"): 20 * GB}, set()))
        assert gpus.rooms() == [GpuRoom(2, 20 * GB)], "it uses more than it asked for"
        gpus.learn(Seen({"0": 12 * GB}, {("0", "1.1"): None}, set()))
        assert gpus.rooms() == [GpuRoom(2, 28 * GB)], "it computes, with nobody knows how much of what is in use"
        assert not gpus.take(attempt(2, gpu_memory=30 * GB))

    def test_where_others_compute_nobody_goes_unless_that_is_wanted(self) -> None:
        facts = [device.facts for device in TWO]
        for shares, runs in ((False, 0), (True, 1)):
            gpus = Gpus(facts, shares_with_others=shares)
            assert gpus.learn(Seen({"0": 30 * GB}, {}, {"0"}))
            assert gpus.rooms() == [GpuRoom(runs, 10 * GB, True), GpuRoom(1, 40 * GB)]

    def test_who_is_granted_and_not_started_has_a_claim(self) -> None:
        gpus = Gpus([device.facts for device in TWO])
        assert [room.runs for room in gpus.rooms([attempt(1)])] == [0, 1]
        assert [room.runs for room in gpus.rooms([attempt(1), attempt(2, 0), attempt(3)])] == [0, 0]

    def test_one_that_is_gone_may_still_be_claimed(self) -> None:
        """An earlier agent gave it to a run; the machine came back without it."""
        gpus, old = Gpus([TWO[0].facts]), attempt(1)
        gpus.claim(old, ["7"])
        assert gpus.rooms() == [GpuRoom(1, 40 * GB)]
        gpus.free(old)


class TestWhoseItIs:
    def test_ours_by_the_environment_or_by_their_ancestors(self) -> None:
        sleeper = [sys.executable, "-c", "input()"]
        marked = {**os.environ, "TURNOUT_SPOOL": "/a/runs/12.1/ctl/track"}
        child = subprocess.Popen(sleeper, stdin=subprocess.PIPE, env=marked)
        try:
            wait_until(lambda: owner_of(child.pid, "/a/runs", {}, 0) == "12.1")  # its environment comes a moment later
            assert owner_of(child.pid, "/b/runs", {}, 0) is None
            assert owner_of(child.pid, "/b/runs", {os.getpid(): "3.2"}, 0) == "3.2"
            assert owner_of(child.pid, "/b/runs", {}, os.getpid()) == ""
        finally:
            child.communicate(b"\n")

    def test_what_each_uses(self) -> None:
        me = os.getpid()
        sight = Sight(
            {"GPU-aaaa": 5 * GB, "GPU-none": 1},
            [Computing("GPU-aaaa", me, 2 * GB), Computing("GPU-aaaa", me, GB), Computing("GPU-bbbb", 1, None)],
        )
        owners = {me: "7.1"}
        seen = attribute(sight, TWO, owners.get)
        assert seen == Seen({"0": 5 * GB}, {("0", "7.1"): 3 * GB}, {"1"})
        assert attribute(Sight({}, [Computing("GPU-bbbb", 2**22 + 7, 1)]), TWO, owners.get).foreign == set()


def test_who_waits_for_one_has_them_looked_at_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Somebody may have begun to compute there since the last of the looks that are made every so often."""

    class Source:
        looks = 0

        def look(self) -> Sight:
            self.looks += 1
            return Sight({}, [])

    class AtOnce:
        is_busy = False

        def do(self, work: Any, then: Any) -> None:
            then(work())

    source, holding = (
        Source(),
        Holding(
            NodeFacts("host", 2, 1 << 30, ["0"], "boot", 1, "3.11", "/"), poll_numbers(0), Gpus([d.facts for d in TWO])
        ),
    )
    holding.is_gpu_wanted = True
    watch = GpuWatch(
        cast(Any, source), TWO, holding, cast(Any, AtOnce()), runs=str(tmp_path), launcher=0,
        neighbours=Neighbours(str(tmp_path / "a")), on_change=lambda: None,
    )  # fmt: skip
    assert not watch.knows(), "nothing was seen yet"
    watch.tend()
    assert watch.knows() and source.looks == 1
    watch.tend()
    assert source.looks == 1, "nobody waits for it"
    monkeypatch.setattr("turnout.agent.gpu_watch._FRESH", -1.0)
    assert not watch.knows()
    watch.tend()
    assert source.looks == 2


def test_what_cannot_be_written_down_fails_its_run_and_not_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ender:
        def fail(self, failed: Attempt, message: str) -> None:
            told.append((failed.key, message))

    told: list[tuple[str, str]] = []
    facts = NodeFacts("host", 2, 1 << 30, ["0"], "boot", 1, "3.11", "/", gpu_facts=[GpuFacts("0")])
    holding = Holding(facts, poll_numbers(0))
    holding.welcome = replace(holding.welcome, max_runs=2)
    monkeypatch.setattr(holding, "has_lease", lambda: True)
    ready = attempt(1)
    ready.phase, ready.confirmed = Phase.READY, True
    holding.add(ready)
    no_launcher, ender = cast(Any, None), cast(Any, Ender())
    Starter(holding, no_launcher, ender, "sdk", lambda: True, Neighbours(str(tmp_path / "1"))).start_ready()
    ((key, message),) = told
    assert key == "1.1" and message.startswith("it could not be started: ")
