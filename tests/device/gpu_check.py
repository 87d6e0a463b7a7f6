"""The agent's GPU code on a machine that has a real GPU: ``python tests/device/gpu_check.py`` prints a verdict as JSON.

It needs nothing but Python 3.9 and this checkout: no hub, no network, no package. What the agent finds is compared with
what ``nvidia-smi`` says; two runs share a GPU through the agent's own launcher and supervisors, and hold memory there;
a third process, of nobody's, then has to be told from them. It exits with 1 when a check fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

from turnout.agent import launcher, nvml, probe, record
from turnout.agent.attempt import Attempt
from turnout.agent.gpu_sources import Sight, Source
from turnout.agent.gpu_watch import attribute, owner_of
from turnout.agent.gpus import Gpus, Seen
from turnout.agent.rundir import RunDirs
from turnout.agent.starting import job_environment, make_order
from turnout.wire.messages import Grant, JobOrder

_GIB = 1 << 30
_HOLD = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_ulonglong()
count = ctypes.c_int()
steps = [
    lambda: cuda.cuInit(0),
    lambda: cuda.cuDeviceGetCount(ctypes.byref(count)),
    lambda: cuda.cuDeviceGet(ctypes.byref(device), 0),
    lambda: cuda.cuCtxCreate_v2(ctypes.byref(context), 0, device),
    lambda: cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(int(sys.argv[1]))),
]
codes = [step() for step in steps]
print(os.environ.get("CUDA_VISIBLE_DEVICES"), count.value, codes, flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.05)
"""


class Verdict:
    def __init__(self) -> None:
        self.checks: list[dict[str, Any]] = []
        self.found: dict[str, Any] = {"python": sys.version.split()[0]}

    def check(self, what: str, is_right: bool, **told: Any) -> None:
        self.checks.append({"check": what, "ok": bool(is_right), **told})

    @property
    def ok(self) -> bool:
        return all(each["ok"] for each in self.checks)


def main() -> int:
    verdict = Verdict()
    warm = launcher.start()  # as the agent does: before all else
    source, devices = probe.find_gpus()
    verdict.check("there is a driver, and it tells of a GPU", source is not None and bool(devices))
    if source is not None and devices:
        verdict.found["gpus"] = [vars(device.facts) for device in devices]
        _compare(verdict, source)
        with tempfile.TemporaryDirectory() as folder:
            _share(verdict, warm, source, folder)
    warm.close()
    print(json.dumps({"ok": verdict.ok, **verdict.found, "checks": verdict.checks}, indent=1))
    return 0 if verdict.ok else 1


def _compare(verdict: Verdict, source: Source) -> None:
    """With what the driver's program says, asked in another way, and with its library."""
    listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, text=True, check=False).stdout
    devices = source.devices()
    verdict.check("as many as nvidia-smi -L lists", len(devices) == listed.count("UUID"), listed=listed.splitlines())
    verdict.check("each with the uuid that is listed", all(device.facts.uuid in listed for device in devices))
    verdict.check("each has memory", all(device.facts.memory > _GIB for device in devices))
    began = time.monotonic()
    sight = source.look()
    verdict.found["look_seconds"] = round(time.monotonic() - began, 4)
    library = nvml.find_library()
    verdict.check("the driver's library is there", library is not None)
    if library is None:
        return
    other = nvml.Nvml(library)
    began = time.monotonic()
    seen = other.look()
    verdict.found["nvml_look_seconds"] = round(time.monotonic() - began, 4)
    same = [(a.facts.uuid, a.facts.name) for a in devices] == [(b.facts.uuid, b.facts.name) for b in other.devices()]
    verdict.check("program and library tell of the same GPUs", same)
    sizes = {device.facts.uuid: device.facts.memory for device in other.devices()}
    close = [abs(device.facts.memory - sizes.get(device.facts.uuid, 0)) < _GIB for device in devices]
    verdict.check("and of the same memory", all(close))
    used = {uuid: (amount, seen.used.get(uuid, -_GIB)) for uuid, amount in sight.used.items()}
    verdict.check("in use is as much", all(abs(a - b) < _GIB for a, b in used.values()), used=used)


def _share(verdict: Verdict, warm: launcher.Launcher, source: Source, folder: str) -> None:
    devices = source.devices()
    gpus = Gpus([device.facts for device in devices], most=2)
    dirs = RunDirs(folder)
    dirs.prepare()
    gate = os.path.join(folder, "go")
    before = source.look().used
    job = _job()
    warm.define(1, job_environment(job, node="here", sdk=folder))
    runs = [_start(verdict, warm, gpus, dirs, job, number, gate) for number in (1, 2)]
    verdict.check("two runs share the first GPU where each has one", len(devices) > 1 or runs[0].gpus == runs[1].gpus)
    said = [_wait(lambda run=run: _output(run)) for run in runs]  # type: ignore[misc]
    verdict.found["said"] = said
    verdict.check("each sees one GPU, and has memory there", all(text.endswith("1 [0, 0, 0, 0, 0]\n") for text in said))
    seen = _see(source, gpus, dirs, warm)
    verdict.found["seen"] = {"used": seen.used, "runs": {f"{k[1]} on {k[0]}": v for k, v in seen.runs.items()}}
    grown = {uuid: used - before.get(uuid, 0) for uuid, used in source.look().used.items()}
    verdict.check("the memory in use has grown by what they hold", sum(grown.values()) > 2 * _GIB, grown=grown)
    verdict.found["processes_are_told"] = bool(source.look().processes)
    if source.look().processes:  # in many containers the driver tells of none
        verdict.check("both are known as ours", {key for _, key in seen.runs} == {"1.1", "2.1"})
        verdict.check("nobody is taken for a stranger", not seen.foreign)
        _stranger(verdict, source, gpus, dirs, warm)
    Path(gate).touch()
    for run in runs:
        _wait(lambda run=run: record.read_exit(run.directory.ctl))  # type: ignore[misc]
        gpus.free(run)
    verdict.check("all is free again", all(room.runs == 2 for room in gpus.rooms()))
    third = _attempt(dirs, 3)
    verdict.check("what is promised is not free", gpus.take(third) and _promised(gpus, third))


def _stranger(verdict: Verdict, source: Source, gpus: Gpus, dirs: RunDirs, warm: launcher.Launcher) -> None:
    gate = os.path.join(dirs.runs, "leave")
    other = subprocess.Popen([sys.executable, "-c", _HOLD, str(_GIB), gate], stdout=subprocess.PIPE)
    assert other.stdout is not None
    other.stdout.readline()
    seen = _see(source, gpus, dirs, warm)
    gpus.learn(seen)
    verdict.check("a stranger is told from them", bool(seen.foreign), foreign=sorted(seen.foreign))
    verdict.check("and its GPU is given to nobody", any(room.foreign and room.runs == 0 for room in gpus.rooms()))
    Path(gate).touch()
    other.wait()
    os.unlink(gate)
    gpus.learn(_see(source, gpus, dirs, warm))


def _start(
    verdict: Verdict, warm: launcher.Launcher, gpus: Gpus, dirs: RunDirs, job: JobOrder, number: int, gate: str
) -> Attempt:
    attempt = _attempt(dirs, number)
    attempt.grant.argv.extend([sys.executable, "-c", _HOLD, str(_GIB), gate])
    dirs.make(attempt.directory)
    verdict.check(f"run {number} gets a GPU", gpus.take(attempt), gpus=attempt.gpus)
    attempt.directory.remember(attempt.grant, [], [])
    attempt.directory.remember_gpus(attempt.gpus)
    warm.start(make_order(attempt, job, gpus=gpus.vendor))
    return attempt


def _attempt(dirs: RunDirs, number: int) -> Attempt:
    grant = Grant(number, 1, f"run{number}", 1, [], {}, 1.0, 0, 1, gpu_memory=2 * _GIB)
    return Attempt(grant, [], dirs.of(number, 1))


def _job() -> JobOrder:
    return JobOrder(
        job=1, experiment="check", workspace="default", kind="command", script=None, script_path=None,
        before=None, after=[], env={"PATH": os.environ.get("PATH", "")}, seconds=60.0, grace=1.0, memory=None,
    )  # fmt: skip


def _see(source: Source, gpus: Gpus, dirs: RunDirs, warm: launcher.Launcher) -> Seen:
    sight: Sight = source.look()
    seen = attribute(sight, source.devices(), lambda pid: owner_of(pid, dirs.runs, {}, warm.pid))
    gpus.learn(seen)
    return seen


def _promised(gpus: Gpus, attempt: Attempt) -> bool:
    (at,) = [at for at, facts in enumerate(gpus.facts) if facts.id == attempt.gpus[0]]
    free = gpus.rooms()[at].memory
    return free is not None and free <= gpus.facts[at].memory - 2 * _GIB


def _output(attempt: Attempt) -> str:
    try:
        return Path(attempt.directory.output).read_text()
    except OSError:
        return ""


def _wait(look: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    return ""


if __name__ == "__main__":
    sys.exit(main())
