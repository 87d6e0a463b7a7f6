"""A stand-in for ``nvidia-smi``: answers the queries that the real one answers, from a file that tests write.

`FakeGpus` writes both, the program and the file. Run as a program, this module needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

STATE = "nvidia-smi.json"
_MEBIBYTES = ("memory.total", "memory.used", "memory.free", "used_memory", "used_gpu_memory")


@dataclass
class FakeProcess:
    """`memory` in MiB; None = not told, as for processes of other containers."""

    pid: int
    memory: int | None = 0


@dataclass
class FakeGpu:
    """`memory` and `used` in MiB; `used` is beside what its processes use. `parts` are (profile, uuid) of a GPU that is
    cut into parts."""

    uuid: str
    name: str = "NVIDIA A100-SXM4-40GB"
    memory: int = 40960
    used: int = 0
    processes: list[FakeProcess] = field(default_factory=list)
    parts: list[tuple[str, str]] = field(default_factory=list)


class FakeGpus:
    """So many GPUs in `folder`, which has to be first on the PATH of who shall see them."""

    def __init__(self, folder: Path, count: int = 1, *, memory: int = 40960) -> None:
        self.folder = folder
        self.gpus = [FakeGpu(f"GPU-{number:08x}-0000-0000-0000-000000000000", memory=memory) for number in range(count)]
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "nvidia-smi"
        run = shlex.join([sys.executable, "-I", "-S", __file__, str(folder / STATE)])
        program.write_text(f'#!/bin/sh\nexec {run} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
        self.save()

    def save(self, *, failure: str = "") -> None:
        """From now on it answers by what `gpus` says; with `failure`, by that."""
        state = {"gpus": [asdict(gpu) for gpu in self.gpus], "failure": failure}
        temporary = self.folder / f"{STATE}.new"
        temporary.write_text(json.dumps(state), encoding="utf-8")
        os.replace(temporary, self.folder / STATE)

    def compute(self, gpu: int, pid: int, memory: int | None = 1000) -> None:
        """That process computes there."""
        self.gpus[gpu].processes.append(FakeProcess(pid, memory))
        self.save()

    def rest(self) -> None:
        """Nobody computes anywhere."""
        for gpu in self.gpus:
            gpu.processes, gpu.used = [], 0
        self.save()

    @property
    def asked(self) -> int:
        """How often the program was started."""
        log = self.folder / f"{STATE}.log"
        return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0

    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.folder}:{os.environ.get('PATH', '')}"}


def answer(state: dict[str, Any], words: list[str]) -> tuple[int, str]:
    """Exit code and output of the program when it is called with these words."""
    if state["failure"]:
        return 9, state["failure"] + "\n"
    options = dict(word.partition("=")[::2] for word in words)
    if "-L" in options or "--list-gpus" in options:
        return 0, "".join(map(_listed, range(len(state["gpus"])), state["gpus"]))
    form = options.get("--format", "").split(",")
    if "csv" not in form:
        return 2, 'Option "--format=csv" is required with queries.\n'
    if "--query-gpu" in options:
        rows = [_gpu_row(index, gpu) for index, gpu in enumerate(state["gpus"])]
        return _table(options["--query-gpu"], rows, list(_gpu_row(0, asdict(FakeGpu("")))), form)
    if "--query-compute-apps" in options:
        rows = [_app_row(gpu, process) for gpu in state["gpus"] for process in gpu["processes"]]
        known = ["gpu_uuid", "gpu_name", "pid", "process_name", "used_memory", "used_gpu_memory"]
        return _table(options["--query-compute-apps"], rows, known, form)
    return 2, f"Invalid combination of input arguments: {shlex.join(words)}\n"


def _gpu_row(index: int, gpu: dict[str, Any]) -> dict[str, object]:
    used = gpu["used"] + sum(process["memory"] or 0 for process in gpu["processes"])
    return {
        "index": index, "uuid": gpu["uuid"], "gpu_uuid": gpu["uuid"], "name": gpu["name"],
        "memory.total": gpu["memory"], "memory.used": used, "memory.free": gpu["memory"] - used,
    }  # fmt: skip


def _app_row(gpu: dict[str, Any], process: dict[str, Any]) -> dict[str, object]:
    used = "[N/A]" if process["memory"] is None else process["memory"]
    return {
        "gpu_uuid": gpu["uuid"], "gpu_name": gpu["name"], "pid": process["pid"], "process_name": "python",
        "used_memory": used, "used_gpu_memory": used,
    }  # fmt: skip


def _table(asked: str, rows: list[dict[str, object]], known: list[str], form: list[str]) -> tuple[int, str]:
    names = [name.strip() for name in asked.split(",")]
    for name in names:
        if name not in known:
            return 2, f'Field "{name}" is not a valid field to query.\n\n'
    lines = [] if "noheader" in form else [", ".join(_title(name) for name in names)]
    lines += [", ".join(_value(row[name], name, form) for name in names) for row in rows]
    return 0, "".join(f"{line}\n" for line in lines)


def _title(name: str) -> str:
    return f"{name} [MiB]" if name in _MEBIBYTES else name


def _value(value: object, name: str, form: list[str]) -> str:
    return f"{value} MiB" if name in _MEBIBYTES and isinstance(value, int) and "nounits" not in form else str(value)


def _listed(index: int, gpu: dict[str, Any]) -> str:
    parts = [f"  MIG {name:<12}Device {at:>2}: (UUID: {uuid})\n" for at, (name, uuid) in enumerate(gpu["parts"])]
    return f"GPU {index}: {gpu['name']} (UUID: {gpu['uuid']})\n" + "".join(parts)


def main(path: str, *words: str) -> int:
    with open(f"{path}.log", "a", encoding="utf-8") as log:
        log.write(f"{shlex.join(words)}\n")
    with open(path, encoding="utf-8") as file:
        code, said = answer(json.load(file), list(words))
    sys.stdout.write(said)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
