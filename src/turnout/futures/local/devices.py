"""GPUs of this machine: no two executors have the same one, and no two workers, unless they share on purpose."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections import Counter

from turnout.errors import InvalidInput, Unavailable

VISIBLE = "CUDA_VISIBLE_DEVICES"


class Devices:
    """So many places for workers, `per_gpu` on each GPU. They are this executor's alone until `close`, or until this
    process ends. InvalidInput when there are too few; Unavailable when others have them."""

    def __init__(self, places: int, per_gpu: int = 1) -> None:
        self._per_gpu = per_gpu
        self._locks: dict[str, int] = {}
        self._used: Counter[str] = Counter()
        try:
            self.resize(places)
        except BaseException:
            self.close()
            raise

    def resize(self, places: int) -> None:
        """More are taken; what is too much is kept."""
        wanted = -(-places // self._per_gpu)
        if wanted <= len(self._locks):
            return
        known = _visible()
        if len(known) < wanted:
            what = f"{VISIBLE} names {len(known)}" if VISIBLE in os.environ else f"this machine shows {len(known)}"
            raise InvalidInput(f"the workers need {wanted} GPUs, and {what}", hint="take fewer workers, or share GPUs")
        for each in known:
            if len(self._locks) < wanted and each not in self._locks:
                lock = _lock(each)
                if lock is not None:
                    self._locks[each] = lock
        if len(self._locks) < wanted:
            missing = wanted - len(self._locks)
            raise Unavailable(
                f"{missing} of the {wanted} GPUs for the workers are another executor's", hint="try later"
            )

    def take(self, count: int) -> list[str]:
        """There have to be as many."""
        free = sorted(self._locks, key=lambda each: self._used[each])[:count]
        self._used.update(free)
        return free

    def give_back(self, taken: list[str]) -> None:
        self._used.subtract(taken)

    def close(self) -> None:
        for lock in self._locks.values():
            os.close(lock)
        self._locks.clear()


def _visible() -> list[str]:
    """As CUDA takes them: those this process was given, or all."""
    given = os.environ.get(VISIBLE)
    if given is not None:
        return [each.strip() for each in given.split(",") if each.strip() not in ("", "-1")]
    try:
        ask = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        said = subprocess.run(ask, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return said.stdout.split()


def _lock(device: str) -> int | None:
    """Held by this process alone; None when another has it. Unavailable where others could hold it against us."""
    folder = os.path.join(tempfile.gettempdir(), f"turnout-gpus-{os.getuid()}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    if os.lstat(folder).st_uid != os.getuid() or os.path.islink(folder):
        raise Unavailable(
            f"{folder} is another user's, who could keep GPUs from you", hint="have it removed, or set TMPDIR"
        )
    how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(os.path.join(folder, device.replace("/", "_")), how, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file
