"""Export and import of a workspace of 10,000 runs: whole commands, from the start of the process to its end.

``python -m benchmarks.archive [RUNS]``. Every run has ten events, three metrics of a hundred points, parameters, tags,
a kilobyte of output and two files of its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lab import TURNOUT, Line, fresh_home, held, seconds
from turnout.blobs import BlobStore
from turnout.home import Home
from turnout.model.spec import CommandKind, JobSpec, RunSpec
from turnout.store import metrics, schema
from turnout.store.database import sqlite_url
from turnout.store.jobs import insert_job
from turnout.store.store import Store
from turnout.store.streams import insert_output
from turnout.store.values import set_after
from turnout.store.writer import Tx
from turnout.wire.manifest import Entry, digest_of, encode

LIMIT = 20.0
_POINTS = 100
_EVENTS = ("started", "download_before", "running", "hparams", "metrics", "tags", "ended", "capture_after")


def main(count: int = 10_000) -> list[Line]:
    with fresh_home() as folder:
        home = Home(folder / "home")
        home.make()
        _fill(home, count)
        file = folder / "lab.turnout"
        out = seconds(lambda: _turnout("export", "lab", str(file)))
        size = file.stat().st_size
        _turnout("hub", "stop")
        os.environ["TURNOUT_HOME"] = str(folder / "second")
        into = seconds(lambda: _turnout("import", str(file)))
        told = json.loads(_turnout("list", "runs", "--json", "--last", "1"))
        assert told[0]["metrics"], told
        _turnout("hub", "stop")
    limit = f"limit {LIMIT:g} s"
    return [
        Line(f"export {count:,} runs", out, "s", limit, held(out, LIMIT)),
        Line(f"import {count:,} runs", into, "s", limit, held(into, LIMIT)),
        Line("size of the archive", size / 1e6, "MB"),
    ]


def _fill(home: Home, count: int) -> None:
    """The state that so many runs leave, written as the hub writes it."""
    blobs = BlobStore(home.blobs)
    blobs.put_many(_files(count))
    blobs.close()
    store = Store(sqlite_url(home.database_dir() / "turnout.db"))
    runs = tuple(
        RunSpec(argv=("train", str(index)), params={"lr": index / count, "kind": "a"}) for index in range(count)
    )
    spec = JobSpec(kind=CommandKind.COMMAND, display=("train",), runs=runs, workspace="lab", tags={"stage": "draft"})
    store.write(lambda tx: insert_job(tx, spec))
    for start in range(0, count, 1000):
        store.write(lambda tx: _finish(tx, range(start + 1, min(start + 1000, count) + 1)))  # noqa: B023
    store.close()


def _files(count: int) -> Iterator[tuple[str, bytes]]:
    for run in range(1, count + 1):
        for content in (_content(run), _manifest(run)):
            yield digest_of(content), content


def _content(run: int) -> bytes:
    return hashlib.sha256(b"%d" % run).digest() * 64


def _manifest(run: int) -> bytes:
    content = _content(run)
    return encode([Entry("output/weights.bin", 0o644, len(content), digest_of(content))])


def _finish(tx: Tx, runs: range) -> None:
    done = {"state": "completed", "waiting": None, "attempt": 1, "exit_code": 0, "node": "n", "ended": tx.now}
    table = schema.runs
    tx.connection.execute(table.update().where(table.c.id.between(runs[0], runs[-1])).values(done))
    tx.connection.execute(
        schema.attempts.insert(),
        [{"run_id": run, "attempt": 1, "agent": 1, "node": "n", "claimed": tx.now} for run in runs],
    )
    data = json.dumps({"seconds": 1.25, "message": "what usually stands here", "files": 3})
    events = [
        {"run_id": run, "seq": seq, "time": tx.now, "event": event, "data": data}
        for run in runs
        for seq, event in enumerate(_EVENTS, 3)
    ]
    tx.connection.execute(schema.events.insert(), events)
    streams = [{"run_id": run, "attempt": 1, "stream": "output", "size": 1024, "frames": 0} for run in runs]
    tx.connection.execute(schema.streams.insert(), streams)
    insert_output(
        tx, [{"run_id": run, "attempt": 1, "start": 0, "content": b"line of output\n" * 68 + b"...."} for run in runs]
    )
    points: metrics.RunMetrics = {}
    for run in runs:
        for name in ("loss", "accuracy", "rate"):
            series = points.setdefault((run, name), metrics.Series())
            for step in range(_POINTS):
                series.append(step, tx.now + step, 1.0 / (step + run))
    metrics.insert(tx, points)
    set_after(tx, {run: digest_of(_manifest(run)) for run in runs})


def _turnout(*words: str) -> str:
    done = subprocess.run([*TURNOUT, *words], stdout=subprocess.PIPE, text=True, check=True, cwd=Path.cwd())
    return done.stdout


if __name__ == "__main__":
    print("archive")
    for line in main(*map(int, sys.argv[1:2])):
        print(line)
