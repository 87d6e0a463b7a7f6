"""What a snapshot costs: the first capture against ``tar``, an unchanged second one against ``git status``.

``python benchmarks/snapshot.py [FILES]``. A committed git repository of small source files is made in the temp folder;
the contenders take turns, so that a busy moment of the machine hits all of them, and the best round of each counts. The
first capture includes handing every blob to a durable store (``tar`` writes its file without a sync); both captures
include the question to git and the manifest.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from turnout.blobs import BlobStore
from turnout.snapshot import capture, deliver

ROUNDS = 7
PER_DIRECTORY = 100
FIRST_LIMIT = 3.0  # × tar
SECOND_LIMIT = 4.0  # × git status
WORDS = [
    "alpha", "batch", "config", "data", "epoch", "field", "grid", "hidden_size", "index", "join", "kernel", "layer",
    "model_parameters", "node", "output", "parse_arguments", "query", "rate", "state", "train_loader", "update",
    "validation_metrics", "weight", "x_coordinate", "yield_rate", "zero_grad",
]  # fmt: skip


def source_lines(rng: random.Random) -> list[str]:
    """Lines as code has them."""
    lines = []
    for _ in range(4000):
        a, b, c = rng.choices(WORDS, k=3)
        lines.append(
            rng.choice(
                [
                    f"    {a} = compute_{b}({c}, scale={rng.random():.4f})\n",
                    f"    if {a} is None or len({b}) > {rng.randrange(1000)}:\n",
                    f"        raise ValueError(f'{a} of {{{b}}} is not a {c}')\n",
                    f"def {a}_{b}({c}: int, *, {b}: str = 'default') -> None:\n",
                    f"    # {a} before {b}: the {c} must be known here\n",
                    f"    self.{a}[{b!r}] = {c}.copy()\n",
                    "\n",
                ]
            )
        )
    return lines


def make_tree(root: Path, count: int) -> int:
    """`count` source files of 2.5 KB on average, committed; their bytes."""
    rng = random.Random(1)
    lines = source_lines(rng)
    total = 0
    for number in range(count):
        folder = root / f"package{number // (10 * PER_DIRECTORY):02d}" / f"module{number // PER_DIRECTORY:03d}"
        if number % PER_DIRECTORY == 0:
            folder.mkdir(parents=True)
        text = f"# file {number}\n" + "".join(rng.choices(lines, k=max(1, int(rng.lognormvariate(3.5, 0.9)))))
        total += (folder / f"part_{number % PER_DIRECTORY}.py").write_text(text)
    (root / ".gitignore").write_text("*.log\nbuild/\ndist/\n*.ckpt\nwandb/\n")
    git = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "all")):
        subprocess.run([*git, *arguments], cwd=root, check=True)
    time.sleep(2.1)  # files this young are never believed unchanged
    return total


def seconds(what: Callable[[], object]) -> float:
    begin = time.perf_counter()
    what()
    return time.perf_counter() - begin


def measure(root: Path, space: Path) -> dict[str, float]:
    """The best time of each contender."""
    cache, store, archive = space / "cache", space / "blobs", space / "all.tar"

    def first() -> None:
        deliver(capture(root, cache=cache), BlobStore(store))

    def second() -> str:
        return capture(root, cache=cache).digest

    def tar() -> None:
        subprocess.run(["tar", "cf", archive, "--exclude=.git", "."], cwd=root, check=True)

    def status() -> None:
        subprocess.run(["git", "status", "--porcelain"], cwd=root, check=True, stdout=subprocess.DEVNULL)

    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        shutil.rmtree(cache, ignore_errors=True)
        shutil.rmtree(store, ignore_errors=True)
        archive.unlink(missing_ok=True)
        for contender in (tar, first, status, second, status, second):
            os.sync()  # what one left to be written must not be paid by the next
            taken = seconds(contender)
            best[contender.__name__] = min(taken, best.get(contender.__name__, taken))
    return best


def main() -> int:
    """Prints the table; the exit code is 1 when a limit is missed."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    with tempfile.TemporaryDirectory(prefix="turnout-bench-") as folder:
        root = Path(folder, "tree")
        total = make_tree(root, count)
        best = measure(root, Path(folder))
    print(f"snapshot: {count:,} files, {total / 1e6:.0f} MB, best of {ROUNDS} rounds")
    met = True
    for name, ours, theirs, limit in (
        ("first capture, into a store", "first", "tar", FIRST_LIMIT),
        ("second capture, unchanged", "second", "status", SECOND_LIMIT),
    ):
        ratio = best[ours] / best[theirs]
        met = met and ratio <= limit
        against = "git status" if theirs == "status" else "tar cf"
        print(
            f"  {name:28} {best[ours] * 1e3:7.0f} ms   {against:10} {best[theirs] * 1e3:7.0f} ms"
            f"   {ratio:5.2f} × {against} (limit {limit:.0f}): {'met' if ratio <= limit else 'MISSED'}"
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
