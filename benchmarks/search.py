"""What a trial of a search costs: 500 of ``true``, two and eight at once; and what asking and telling costs by itself.

``python -m benchmarks.search [TRIALS]``. NNI's local service runs in a Python of its own (TURNOUT_BENCH_NNI names it);
it is so slow that it gets few trials, and its cost of each is what is compared. Optuna runs the same command from
threads: with a study that survives (SQLite, a journal), and with one in memory, which keeps nothing. The contenders
take turns in rounds and the best round of each counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.lab import Line, fresh_home, held, job, warm
from turnout.client import Client
from turnout.model.search import Aim, Search
from turnout.plugin.sampler import Goal, Objective, Outcome, Proposal, Result, Sampler, Task
from turnout.plugin.space import Range
from turnout.search.samplers.optuna_samplers import TpeSampler
from turnout.search.samplers.random import RandomSampler
from turnout.search.spaces import to_plain

ROUNDS = 2
AT_ONCE = (2, 8)
DEAREST = 2.0  # times a run of `launch`
AHEAD_OF_NNI = 50.0
ASK = 1.0  # milliseconds
TPE = 1.3  # times Optuna itself
SPACE = {"lr": Range(0.0, 1.0), "width": Range(1, 64, whole=True)}
Cost = Callable[[int, int], float]


def launch(count: int, concurrent: int) -> float:
    """Milliseconds for a plain run, with as many at once."""
    with fresh_home():
        client = Client()
        warm(client)
        begin = time.perf_counter()
        asked = job([("true",)] * count, concurrent=None if concurrent == os.cpu_count() else concurrent)
        client.wait(client.submit(asked)["job"])
        return (time.perf_counter() - begin) / count * 1000


def turnout(count: int, concurrent: int) -> float:
    with fresh_home():
        client = Client()
        warm(client)
        search = Search(space=to_plain(SPACE), sampler="random", runs=count, aims=(Aim(metric="loss"),), failures=0)
        begin = time.perf_counter()
        name = client.submit(replace(job([("true",)], concurrent=concurrent), search=search))["job"]
        done = client.wait(name)
        taken = time.perf_counter() - begin
        assert done["counts"] == {"completed": count}, done["counts"]
        return taken / count * 1000


_OPTUNA = """
import optuna, subprocess, sys, tempfile, time
count, concurrent, kind = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
optuna.logging.set_verbosity(optuna.logging.ERROR)
def objective(trial):
    trial.suggest_float("lr", 0, 1), trial.suggest_int("width", 1, 64)
    return float(subprocess.run(["true"]).returncode)
with tempfile.TemporaryDirectory() as folder:
    storage = None
    if kind == "sqlite":
        storage = f"sqlite:///{folder}/study.db"
    elif kind == "journal":
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
        storage = JournalStorage(JournalFileBackend(f"{folder}/study.log"))
    study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler(seed=1))
    begin = time.perf_counter()
    study.optimize(objective, n_trials=count, n_jobs=concurrent)
    print("RESULT", (time.perf_counter() - begin) / count * 1000)
"""

_RAY = """
import os, subprocess, sys, tempfile, time
os.environ.update(RAY_AIR_NEW_OUTPUT="0", TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1", RAY_DEDUP_LOGS="0")
import ray
from ray import tune
count, concurrent = int(sys.argv[1]), int(sys.argv[2])
def trial(config):
    subprocess.run(["true"])
    return {"loss": 0.0}
ray.init(num_cpus=concurrent, include_dashboard=False, logging_level="error", log_to_driver=False)
with tempfile.TemporaryDirectory() as folder:
    def fit(n):
        tuner = tune.Tuner(
            trial, param_space={"lr": tune.uniform(0, 1), "width": tune.randint(1, 65)},
            tune_config=tune.TuneConfig(num_samples=n, max_concurrent_trials=concurrent),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        tuner.fit()
    fit(concurrent)
    begin = time.perf_counter()
    fit(count)
    print("RESULT", (time.perf_counter() - begin) / count * 1000)
ray.shutdown()
"""

_NNI = """
import sys, tempfile, time
from nni.experiment import Experiment
count, concurrent = int(sys.argv[1]), int(sys.argv[2])
with tempfile.TemporaryDirectory() as folder:
    experiment = Experiment("local")
    config = experiment.config
    config.trial_command, config.trial_code_directory, config.experiment_working_directory = "true", folder, folder
    config.search_space = {"lr": {"_type": "uniform", "_value": [0, 1]}}
    config.tuner.name = "Random"
    config.max_trial_number, config.trial_concurrency = count, concurrent
    experiment.start(int(sys.argv[3]), debug=False)
    begin = time.perf_counter()
    while experiment.get_status() not in ("DONE", "ERROR", "STOPPED"):
        time.sleep(0.05)
    print("RESULT", (time.perf_counter() - begin) / count * 1000)
    experiment.stop()
"""


def optuna(kind: str) -> Cost:
    count_of = {"sqlite": 5}  # it takes long

    def cost(count: int, concurrent: int) -> float:
        return _asked([sys.executable, "-c", _OPTUNA, str(count // count_of.get(kind, 1)), str(concurrent), kind])

    return cost


def ray_tune(count: int, concurrent: int) -> float:
    return _asked([sys.executable, "-c", _RAY, str(count // 10), str(concurrent)])


def nni(count: int, concurrent: int) -> float:
    python = os.environ.get(
        "TURNOUT_BENCH_NNI", str(Path(__file__).parents[1] / ".venv" / "nni-whole" / "bin" / "python")
    )
    if not Path(python).exists():
        raise RuntimeError("there is none (TURNOUT_BENCH_NNI names the Python that has it)")
    return _asked([python, "-c", _NNI, str(max(10, count // 25)), str(concurrent), str(18000 + concurrent)])


def _asked(argv: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, cwd=folder)
    for line in done.stdout.splitlines():
        if line.startswith("RESULT"):
            return float(line.split()[1])
    raise RuntimeError(done.stderr[-500:])


CONTENDERS: dict[str, Cost] = {
    "launch": launch,
    "turnout": turnout,
    "Optuna, SQLite": optuna("sqlite"),
    "Optuna, journal": optuna("journal"),
    "Optuna, keeps nothing": optuna("memory"),
    "Ray Tune": ray_tune,
    "NNI": nni,
}


def measure(count: int = 500) -> list[Line]:
    lines: list[Line] = []
    for concurrent in AT_ONCE:
        best: dict[str, float] = {}
        for number in range(ROUNDS):
            for name, contender in CONTENDERS.items():
                if number and name in ("NNI", "Ray Tune"):  # they take long, and differ little from one to the next
                    continue
                try:
                    best[name] = min(best.get(name, float("inf")), contender(count, concurrent))
                except RuntimeError as error:
                    print(f"  search: {name}: {error}", file=sys.stderr)
        lines += _compared(f"search, {concurrent} at once: ", best)
    return [*lines, *asking()]


def _compared(title: str, best: dict[str, float]) -> list[Line]:
    ours = best["turnout"]
    ratio = ours / best["launch"]
    found = [
        Line(f"{title}a run of launch", best["launch"], "ms"),
        Line(f"{title}turnout", ours, "ms", f"{ratio:.2f} times a run (limit {DEAREST:g})", held(ratio, DEAREST)),
    ]
    for name, cost in best.items():
        if name in ("turnout", "launch"):
            continue
        times = cost / ours
        verdict = "" if "nothing" in name else held(times, AHEAD_OF_NNI if name == "NNI" else 1.0, least=True)
        if not verdict:
            verdict = "goal met" if times > 1 else "goal not met"
        found.append(Line(f"{title}{name}", cost, "ms", f"{times:.3g} times ours", verdict))
    return found


# --- asking and telling -----------------------------------------------------------------------------------------------


def asking() -> list[Line]:
    """Milliseconds for one ask and one tell, in a study of 10,000; and TPE in turns with Optuna's own."""
    task = Task(SPACE, (Objective("loss", Goal.MINIMIZE),))
    each = _spent(RandomSampler(task), 10_000)
    lines = [Line("search: ask and tell, random of 10,000", each, "ms", f"limit {ASK:g}", held(each, ASK))]
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(_spent(TpeSampler(task), 1_000))
        theirs.append(_asked([sys.executable, "-c", _BARE_TPE, "1000"]))
    ratio = min(ours) / min(theirs)
    lines.append(
        Line(
            "search: ask and tell, TPE of 1,000",
            min(ours),
            "ms",
            f"{ratio:.2f} times Optuna (limit {TPE:g})",
            held(ratio, TPE),
        )
    )
    return lines


_BARE_TPE = """
import optuna, sys, time
from optuna.distributions import FloatDistribution, IntDistribution
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0, constant_liar=True))
space = {"lr": FloatDistribution(0, 1), "width": IntDistribution(1, 64)}
count = int(sys.argv[1])
begin = time.process_time()
for _ in range(count):
    trial = study.ask(space)
    study.tell(trial, (trial.params["lr"] - 0.3) ** 2)
print("RESULT", (time.process_time() - begin) / count * 1000)
"""


def _spent(sampler: Sampler, count: int) -> float:
    begin = time.process_time()
    for index in range(1, count + 1):
        proposal = sampler.ask(index)
        assert proposal is not None
        kept = Proposal(json.loads(json.dumps(proposal.params)), dict(proposal.memo))
        loss = (float(str(kept.params["lr"])) - 0.3) ** 2
        sampler.tell(Result(index, kept, Outcome.COMPLETED, (loss,)))
    return (time.process_time() - begin) / count * 1000


if __name__ == "__main__":
    for line in measure(int(sys.argv[1]) if len(sys.argv) > 1 else 500):
        print(line)
