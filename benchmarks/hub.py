"""The hub: submits, points, listings, memory.

``python -m benchmarks.hub``
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from benchmarks.lab import TURNOUT, Line, fresh_home, held, job, median, seconds, warm
from turnout.client import Client
from turnout.client.connect import connect
from turnout.home import Home

MANY = 10_000
POINTS = 400_000


def submit() -> list[Line]:
    """10,000 distinct runs in one job, acknowledged on disk."""
    with fresh_home():
        client = Client()
        client.hub()
        spec = job([("sh", "-c", f"exit {number % 2}", str(number)) for number in range(MANY)])
        taken = seconds(lambda: client.submit(spec))
        return [Line("submit: 10,000 runs, durable", taken, "s", "limit 1 s", held(taken, 1.0))]


def latency() -> list[Line]:
    with fresh_home():

        def run() -> None:
            subprocess.run([*TURNOUT, "run", "--wait", "true"], check=True, capture_output=True)

        def stop() -> None:
            subprocess.run([*TURNOUT, "hub", "stop"], check=True, capture_output=True)

        run()
        warm_run = median(run, 7)
        cold = []
        for _ in range(3):
            stop()
            time.sleep(6.5)  # the idle agent leaves when its hub is gone
            cold.append(seconds(run))
        cold_run = sorted(cold)[1]
        show_help = median(lambda: subprocess.run([*TURNOUT, "--help"], check=True, capture_output=True), 7)
    return [
        Line("latency: warm `turnout run --wait true`", warm_run * 1000, "ms", "limit 250 ms", held(warm_run, 0.25)),
        Line("latency: the same with no hub running", cold_run * 1000, "ms", "limit 1500 ms", held(cold_run, 1.5)),
        Line("latency: `turnout --help`", show_help * 1000, "ms", "limit 200 ms", held(show_help, 0.2)),
    ]


LISTINGS = {
    "newest": "",
    "state = failed": "filter=" + urllib.parse.quote("state = failed"),
    "experiment = e7": "filter=" + urllib.parse.quote("experiment = e7"),
    "node = n3": "filter=" + urllib.parse.quote("node = n3"),
    "exit_code = 3": "filter=" + urllib.parse.quote("exit_code = 3"),
    "job = job77": "filter=" + urllib.parse.quote("job = job77"),
    "sort created": "sort=created",
    "sort -ended": "sort=-ended",
    "sort -started": "sort=-started",
    "sort exit_code": "sort=exit_code",
    "sort metrics.loss": "sort=metrics.loss",
    "metrics.loss < 0.01": "filter=" + urllib.parse.quote("metrics.loss < 0.01"),
    "created before 2023-11-20": "filter=" + urllib.parse.quote("created < 2023-11-20"),
    "created on 2023-12-01": "filter=" + urllib.parse.quote("created > 2023-12-01, created < 2023-12-02"),
    "ended before 2023-11-20": "filter=" + urllib.parse.quote("ended < 2023-11-20"),
    "failed, created before 2023-11-20": "filter=" + urllib.parse.quote("state = failed and created < 2023-11-20"),
}


def listing(count: int = 1_000_000) -> list[Line]:
    """Time in the hub for 50 of a million runs, by each indexed column."""
    with fresh_home() as folder:
        client = Client()
        client.wait(client.submit(job([("true",)]))["job"])
        subprocess.run([*TURNOUT, "hub", "stop"], check=True, capture_output=True)
        _fill(folder / "home" / "turnout.db", count)
        connection = connect(Home.from_env())
        lines = []
        for name, query in LISTINGS.items():
            path = f"/api/runs?limit=50&{query}"
            connection.request("GET", path).read()
            taken = median(lambda path=path: connection.request("GET", path).read(), 5)  # type: ignore[misc]
            lines.append(Line(f"list 50 of 1,000,000: {name}", taken * 1000, "ms", "limit 50 ms", held(taken, 0.05)))
        return lines + [_command(words) for words in COMMANDS]


#: Whole commands over the million, from the start of the process to its end.
COMMANDS = (
    ("runs", "--filter", "metrics.loss < 0.1 and state = completed", "--sort", "metrics.loss"),
    ("runs", "--filter", "metrics.loss < 0.1 and state = completed", "--sort", "created", "--reverse"),
    ("runs", "--filter", "metrics.loss < 0.1 and state = completed", "--sort", "-duration"),
    ("runs", "--filter", "experiment ~ '^e1' and exit_code > 90", "--sort", "-started", "--last", "20"),
    ("runs", "e7", "run5000-run900000", "--sort", "-ended"),
    ("jobs", "--filter", "failed > 0"),
    ("experiments",),
    ("workspaces",),
)


def _command(words: tuple[str, ...]) -> Line:
    argv = [*TURNOUT, "list", *words]
    subprocess.run(argv, check=True, capture_output=True)
    taken = median(lambda: subprocess.run(argv, check=True, capture_output=True), 5)
    shown = " ".join(word for word in words if word not in ("--filter",))
    return Line(f"`list {shown}`", taken * 1000, "ms", "limit 300 ms, whole command", held(taken, 0.3))


def _fill(path: Path, count: int) -> None:
    """Copies of one real run with other values."""
    rng = random.Random(7)
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous=OFF")
    columns = [row[1] for row in database.execute("PRAGMA table_info(runs)")]
    model = dict(zip(columns, database.execute("SELECT * FROM runs LIMIT 1").fetchone(), strict=True))
    states = ["completed"] * 90 + ["failed"] * 9 + ["cancelled"]
    database.execute("INSERT INTO metric_names VALUES (1, 'loss')")

    def rows() -> Iterator[tuple[object, ...]]:
        for number in range(2, count + 2):
            state = rng.choice(states)
            start = 1.7e9 + number * 10
            yield tuple(
                {
                    **model, "id": number, "number": number, "state": state, "job_id": number // 100 + 2,
                    "experiment": f"e{number % 50}", "node": f"n{number % 20}", "created": start, "queued": start,
                    "started": start + rng.random() * 100, "ended": start + 100 + rng.random() * 1000,
                    "exit_code": 0 if state == "completed" else rng.randrange(1, 100),
                }[name]
                for name in columns
            )  # fmt: skip

    marks = ",".join("?" * len(columns))
    database.executemany(f"INSERT INTO runs VALUES ({marks})", rows())
    _fill_jobs(database, count)
    losses = ((number, 1, rng.random(), 0.0, 1.0, 5, 5) for number in range(2, count + 2))
    database.executemany("INSERT INTO metrics VALUES (?,?,?,?,?,?,?)", losses)
    database.execute("UPDATE counters SET value = ? WHERE name IN ('run', 'run_id')", (count + 2,))
    database.commit()
    database.execute("ANALYZE")
    database.commit()
    database.close()


def _fill_jobs(database: sqlite3.Connection, count: int) -> None:
    """One job for each hundred runs."""
    columns = [row[1] for row in database.execute("PRAGMA table_info(jobs)")]
    model = dict(zip(columns, database.execute("SELECT * FROM jobs LIMIT 1").fetchone(), strict=True))
    rows = (
        [{**model, "id": job, "created": 1.7e9 + job * 1000, "experiment": f"e{job % 50}", "run_count": 100}[name]
         for name in columns]
        for job in range(2, count // 100 + 3)
    )  # fmt: skip
    database.executemany(f"INSERT INTO jobs VALUES ({','.join('?' * len(columns))})", rows)


_LOGGER = """
import turnout
for step in range({count}):
    turnout.log(loss=0.5, accuracy=0.25, step=step)
"""


def ingest() -> list[Line]:
    """Points from a run's spool to the hub's disk: how fast they are taken in while it is behind."""
    with fresh_home() as folder:
        client = Client()
        warm(client)
        (folder / "work" / "log.py").write_text(_LOGGER.format(count=POINTS // 2))
        begin = time.perf_counter()
        subprocess.run([*TURNOUT, "run", "--wait", "log.py"], check=True, capture_output=True, cwd=folder / "work")
        taken = time.perf_counter() - begin
        (view,) = client.runs(limit=1)
        stored = sum(len(series) for series in client.metrics(view["name"]).values())
        assert stored == POINTS, stored
        rate = POINTS / taken
        verdict = held(rate, 100_000, least=True)
        return [Line("log: into the hub, end to end", rate, "points/s", "at least 100,000", verdict)]


def memory() -> list[Line]:
    """Runs that sleep: many at once on one node, then ten thousand in the queue."""
    runs = 50
    with fresh_home():
        client = Client()
        warm(client)
        hub = client.hub()["pid"]
        idle = pss(hub)
        client.submit(job([("sleep", "600")] * runs, concurrent=runs))
        _until(lambda: len(client.runs(["state = running"], limit=1000)) >= runs)
        per_run = (pss(hub) - idle) / runs
        agent = client.hub()["agents"][0]["pid"]
        supervisors = sorted(pss(pid) for pid in _supervisors(agent))
        agent_size = pss(agent)
        client.submit(job([("sleep", "600")] * MANY, concurrent=1))
        queued = pss(hub)
    mb = 1 << 20
    typical, largest = supervisors[len(supervisors) // 2] / mb, supervisors[-1] / mb
    return [
        Line("memory: hub, idle", idle / mb, "MB"),
        Line("memory: hub with 10,000 queued runs", queued / mb, "MB", "limit 150 MB", held(queued / mb, 150)),
        Line("memory: hub, per running run", per_run / 1024, "kB", "limit 50 kB", held(per_run / 1024, 50)),
        Line("memory: agent", agent_size / mb, "MB", "limit 40 MB", held(agent_size / mb, 40)),
        Line("memory: supervisor (PSS), typical", typical, "MB", "limit 2 MB", held(typical, 2)),
        Line("memory: supervisor (PSS), largest", largest, "MB"),
    ]


def pss(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _supervisors(agent: int) -> list[int]:
    """Children of the agent's launcher."""
    (launcher,) = Path(f"/proc/{agent}/task/{agent}/children").read_text().split()[:1]
    return [int(pid) for pid in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()]


def _until(is_so: object) -> None:
    deadline = time.monotonic() + 60
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["submit", "latency", "ingest", "memory", "listing"]
    for name in chosen:
        for line in globals()[name]():
            print(line, flush=True)
