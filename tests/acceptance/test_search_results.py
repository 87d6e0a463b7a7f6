"""What searches found: plots in each form, tables, studies of Optuna, and results that come from elsewhere."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import optuna
import pytest

import turnout
from tests.harness import Cli, user_environment, wait_until
from turnout.errors import Conflict, InvalidInput

pytestmark = pytest.mark.xdist_group("search_results")

#: Its loss is what lr and the optimizer make it; one optimizer breaks, and is said to have a name that looks like HTML.
TRAIN = """
import math, turnout
params = turnout.params()
if params["optimizer"] == "<b>&broken":
    raise SystemExit(3)
head = params["head"]
loss = abs(math.log10(params["lr"]) + 2) + {"adam": 0.0, "sgd": 1.0}[params["optimizer"]]
turnout.log(loss=loss, size=float(head["width"] if isinstance(head, dict) else 1))
"""
SPACE = """
lr: {loguniform: [0.0001, 1.0]}
optimizer: [adam, sgd, "<b>&broken"]
layers: {int: [1, 4]}
fixed: 7
head:
  - linear
  - {_name: mlp, width: [8, 16]}
"""
RUNS = 30
KINDS = ("history", "importance", "parallel", "contour")


@pytest.fixture(scope="module")
def search(user: Cli) -> str:
    """job1: one objective, some runs failed."""
    (user.cwd / "train.py").write_text(TRAIN)
    (user.cwd / "space.yaml").write_text(SPACE)
    return submit(user, "--minimize", "loss", "--runs", str(RUNS))


@pytest.fixture(scope="module")
def pair(user: Cli, search: str) -> str:
    """job2: two objectives, from the same files."""
    return submit(user, "--minimize", "loss", "--maximize", "size", "--runs", "12")


@pytest.fixture(scope="module")
def plain(user: Cli, search: str, pair: str) -> str:
    """A job that is no search; its run logged a metric."""
    code = "import turnout; turnout.log(loss=1.0, step=1)"
    return str(user.json("run", "-d", sys.executable, "-c", code)["job"])


def submit(user: Cli, *options: str) -> str:
    command = ("--concurrent", "4", "--seed", "3", "--option-prefix", "none", sys.executable, "train.py")
    told = user.json("run", "-d", "--hp-config", "space.yaml", "--search-type", "random", *options, *command)
    user("attach", told["job"], timeout=110)
    return str(told["job"])


def rows_of(text: str, delimiter: str = ",") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), delimiter=delimiter))


class TestPlots:
    @pytest.mark.parametrize("kind", KINDS)
    def test_each_kind_in_each_form(self, user: Cli, search: str, kind: str, tmp_path: Path) -> None:
        for ending in ("png", "svg", "html"):
            file = tmp_path / f"{kind}.{ending}"
            assert str(file) in user("plot", search, "--kind", kind, "-o", str(file)).stdout
        assert (tmp_path / f"{kind}.png").read_bytes().startswith(b"\x89PNG")
        root = ElementTree.parse(tmp_path / f"{kind}.svg").getroot()
        words = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]
        assert any("loss" in each for each in words)
        if kind != "history":
            assert "lr" in words and "optimizer" in words
        page = (tmp_path / f"{kind}.html").read_text()
        assert "http" not in page and "<svg" in page and "data-told=" in page
        assert "<b>" not in page  # a value that looks like HTML is text

    def test_the_history_is_what_is_drawn_of_a_search(self, user: Cli, search: str) -> None:
        told = user.json("plot", search)
        (points,) = told["points"]
        assert told["kind"] == "history" and [each["place"] for each in points] == list(range(1, RUNS + 1))
        best = [each["values"][0] for each in points if each["is_best"]]
        assert best == sorted(best, reverse=True) and best[-1] == user.json("best", search)[0]["values"][0]
        assert {each["state"] for each in points} == {"completed", "failed"}

    def test_what_matters(self, user: Cli, search: str) -> None:
        told = user.json("plot", search, "--kind", "importance")
        assert sorted(list(told["shares"])[:2]) == ["lr", "optimizer"] and "fixed" not in told["shares"]
        assert sum(told["shares"].values()) == pytest.approx(1.0)

    def test_parameters_that_are_asked_for(self, user: Cli, search: str) -> None:
        told = user.json("plot", search, "--kind", "contour", "--params", "layers,lr")
        assert [axis["name"] for axis in told["axes"]] == ["layers", "lr"] and told["axes"][1]["is_log"]
        told = user.json("plot", search, "--kind", "parallel", "--params", "head,head/mlp/width")
        assert [axis["choices"] for axis in told["axes"]] == [["linear", "mlp"], [8, 16]]

    def test_several_objectives(self, user: Cli, pair: str, tmp_path: Path) -> None:
        told = user.json("plot", pair, "--kind", "pareto", "-o", str(tmp_path / "front.svg"))
        best = {tuple(each["values"]) for each in told["points"] if each["is_best"]}
        assert best == {tuple(each["values"]) for each in user.json("best", pair)}
        (first,) = user.json("best", pair, "--last", "1")
        assert first == user.json("best", pair)[0] and len(best) > 1
        assert len(user.json("plot", pair)["points"]) == 2
        assert [aim["metric"] for aim in user.json("plot", pair, "--metric", "size")["aims"]] == ["size"]
        assert "2 objectives" not in user("plot", pair, "--kind", "pareto", "-o", str(tmp_path / "a.png")).stdout

    def test_without_matplotlib(self, user: Cli, search: str, tmp_path: Path) -> None:
        (tmp_path / "matplotlib.py").write_text("raise ImportError('none here')\n")
        without = {"PYTHONPATH": str(tmp_path)}
        done = user("plot", search, "-o", str(tmp_path / "a.png"), check=False, env=without)
        assert done.returncode == 2 and "pip install 'turnout[plot]'" in done.stderr and ".html" in done.stderr
        for ending in ("svg", "html"):
            user("plot", search, "-o", str(tmp_path / f"a.{ending}"), env=without)
            assert (tmp_path / f"a.{ending}").stat().st_size > 1000

    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            (["--kind", "contour", "--params", "lr"], 2, "two parameters"),
            (["--kind", "parallel", "--params", "rate"], 2, "'rate' is no parameter"),
            (["--kind", "parallel", "--params", "fixed"], 2, "does not vary"),
            (["--kind", "history", "--params", "lr"], 2, "--params"),
            (["--kind", "pareto"], 2, "two objectives"),
            (["--metric", "accuracy"], 2, "it has loss"),
            (["-o", "plot.jpg"], 2, ".html"),
            (["--runs", "run1", "--kind", "history"], 2, "one search"),
        ],
    )
    def test_what_cannot_be_drawn_is_said(self, user: Cli, search: str, words: list[str], code: int, said: str) -> None:
        done = user("plot", search, *words, check=False)
        assert done.returncode == code and said in done.stderr

    def test_metrics_are_drawn_as_before(self, user: Cli, plain: str, tmp_path: Path) -> None:
        user("attach", plain)
        told = user.json("plot", "loss", "--runs", plain, "-o", str(tmp_path / "loss.png"))
        assert told["metrics"] == ["loss"] and len(told["runs"]) == 1
        done = user("plot", plain, check=False)
        assert done.returncode == 4 and f"turnout plot METRIC --runs {plain}" in done.stderr

    def test_a_search_without_an_objective(self, user: Cli, search: str) -> None:
        job = submit(user, "--runs", "2")
        done = user("plot", job, check=False)
        assert done.returncode == 2 and "has no objective" in done.stderr and "--minimize" in done.stderr
        assert len(rows_of(user("results", job).stdout)) == 2

    def test_show_tells_what_matters(self, user: Cli, search: str) -> None:
        assert any(line.startswith("matters") and "lr" in line for line in user("show", search).stdout.splitlines())


class TestTables:
    def test_a_row_for_each_run(self, user: Cli, search: str) -> None:
        rows = rows_of(user("results", search).stdout)
        assert [row["number"] for row in rows] == [str(number) for number in range(1, RUNS + 1)]
        told = {view["run"]: view for view in user.json("results", search)}
        for row in rows:
            view = told[row["run"]]
            assert float(row["params.lr"]) == view["params"]["lr"] and row["params.fixed"] == "7"
            assert row["target"] == "local" and float(row["duration"]) == view["duration"] >= 0
            head = view["params"]["head"]
            assert row["params.head"] == (head if isinstance(head, str) else head["_name"])
            assert row["params.head/mlp/width"] == ("" if isinstance(head, str) else str(head["width"]))
            is_failed = row["params.optimizer"] == "<b>&broken"
            assert row["state"] == ("failed" if is_failed else "completed")
            assert row["metrics.loss"] == ("" if is_failed else repr(view["metrics"]["loss"]))

    def test_each_form(self, user: Cli, search: str, tmp_path: Path) -> None:
        text = user("results", search, "--format", "csv").stdout
        for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
            user("results", search, "-o", str(tmp_path / name))
            assert rows_of((tmp_path / name).read_text(), delimiter) == rows_of(text)
        user("results", search, "-o", str(tmp_path / "a.json"))
        assert json.loads((tmp_path / "a.json").read_text()) == user.json("results", search)
        done = user("results", search, "-o", str(tmp_path / "a.xls"), check=False)
        assert done.returncode == 2 and "--format" in done.stderr
        done = user("results", search, "-o", str(tmp_path / "nowhere" / "a.csv"), check=False)
        assert done.returncode == 2 and "a.csv cannot be written: No such file or directory" in done.stderr

    def test_in_python(self, user: Cli, search: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in user_environment(user.home).items():
            monkeypatch.setenv(name, value)
        client = turnout.Client(user.home)
        assert client.results(search) == user.json("results", search)
        assert list(client.importance(search)["shares"]) == list(client.importance(search, "loss")["shares"])
        with pytest.raises(InvalidInput, match="no objective"):
            client.importance(search, "accuracy")

    def test_a_job_that_is_no_search(self, user: Cli, plain: str) -> None:
        done = user("results", plain, check=False)
        assert done.returncode == 4 and "is no search" in done.stderr


class TestOptuna:
    @pytest.mark.parametrize("url", ["sqlite:///{}/study.db", "journal:///{}/study.log"])
    def test_a_study_that_optuna_opens(self, user: Cli, search: str, tmp_path: Path, url: str) -> None:
        url = url.format(tmp_path)
        told = user.json("results", search, "--optuna", url, "--study", "mine")
        assert told == {"job": search, "study": "mine", "added": RUNS, "known": 0}
        again = user.json("results", search, "--optuna", url, "--study", "mine")
        assert (again["added"], again["known"]) == (0, RUNS)
        study = load(url, "mine")
        trials = study.get_trials()
        assert len(trials) == RUNS
        for trial, view in zip(trials, user.json("results", search), strict=True):
            assert (
                trial.params["lr"] == view["params"]["lr"] and trial.params["optimizer"] == view["params"]["optimizer"]
            )
            assert trial.distributions["lr"] == optuna.distributions.FloatDistribution(0.0001, 1.0, log=True)
            assert trial.distributions["layers"] == optuna.distributions.IntDistribution(1, 4)
            if view["state"] == "completed":
                assert trial.values == [view["metrics"]["loss"]]
            else:
                assert trial.state is optuna.trial.TrialState.FAIL
        assert study.best_value == user.json("best", search)[0]["values"][0]

    def test_several_objectives(self, user: Cli, pair: str, tmp_path: Path) -> None:
        user("results", pair, "--optuna", f"sqlite:///{tmp_path}/two.db")
        study = load(f"sqlite:///{tmp_path}/two.db", pair)
        assert [direction.name for direction in study.directions] == ["MINIMIZE", "MAXIMIZE"]
        best = {tuple(each["values"]) for each in user.json("best", pair)}
        assert {tuple(trial.values) for trial in study.best_trials} == best

    def test_a_study_of_somebody_else_is_left_alone(self, user: Cli, search: str, pair: str, tmp_path: Path) -> None:
        url = f"sqlite:///{tmp_path}/others.db"
        optuna.create_study(storage=url, study_name="theirs").add_trial(optuna.trial.create_trial(value=1.0))
        user("results", search, "--optuna", url, "--study", "ours")
        for job, study in ((search, "theirs"), (pair, "ours")):
            done = user("results", job, "--optuna", url, "--study", study, check=False)
            assert done.returncode == 4 and "--study NAME" in done.stderr
        assert len(load(url, "theirs").trials) == 1

    @pytest.mark.parametrize("url", ["study.db", "sqlite:///nowhere/study.db", "nosuch://host/name"])
    def test_a_storage_that_cannot_be(self, user: Cli, search: str, url: str) -> None:
        done = user("results", search, "--optuna", url, check=False)
        assert done.returncode == 2 and "Traceback" not in done.stderr


def load(url: str, name: str) -> optuna.Study:
    if url.startswith("journal:"):
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend

        file = url.removeprefix("journal:///")
        return optuna.load_study(study_name=name, storage=JournalStorage(JournalFileBackend(file)))
    return optuna.load_study(study_name=name, storage=url)


GOOD: dict[str, Any] = {"lr": 0.01, "optimizer": "adam", "layers": 2, "fixed": 7, "head": {"_name": "mlp", "width": 8}}


class TestImports:
    @pytest.fixture
    def fresh(self, user: Cli, search: str) -> str:
        """A search that is over and had one run."""
        return submit(user, "--minimize", "loss", "--runs", "1")

    def test_what_was_written_comes_in_again_once(self, user: Cli, search: str, fresh: str, tmp_path: Path) -> None:
        states = [view["state"] for view in user.json("results", search)]
        good = states.count("completed")
        for name in ("a.csv", "a.json", "a.tsv"):
            user("results", search, "-o", str(tmp_path / name))
            told = user.json("results", fresh, "--import", str(tmp_path / name))
            is_first = name == "a.csv"
            assert (told["added"], told["known"]) == ((good, 0) if is_first else (0, good))
            assert told["left_out"] == states.count("failed")
        imported = [view for view in user.json("results", fresh) if view["state"] == "imported"]
        assert [(each["params"], each["metrics"]) for each in imported] == [
            (view["params"], view["metrics"]) for view in user.json("results", search) if view["state"] == "completed"
        ]
        best = min(user.json("best", fresh)[0]["values"][0], user.json("best", search)[0]["values"][0])
        assert user.json("best", fresh)[0]["values"][0] == best
        places = [each["place"] for each in user.json("plot", fresh)["points"][0]]
        assert places == list(range(1 - good, 2))

    def test_what_nni_exports(self, user: Cli, fresh: str, tmp_path: Path) -> None:
        export = [
            {"parameter": GOOD, "value": "0.25", "trialJobId": "abc"},
            {"parameter": GOOD | {"lr": 0.02, "layers": 3.0}, "value": '{"default": 0.5, "other": 1}'},
            {"parameter": GOOD | {"lr": 0.03}, "value": 0.75},
        ]
        (tmp_path / "nni.json").write_text(json.dumps(export))
        assert user.json("results", fresh, "--import", str(tmp_path / "nni.json"))["added"] == 3
        head = "{'_name': 'mlp', 'width': 16}"
        lines = ["lr,optimizer,layers,fixed,head,reward,trialJobId", f'0.04,sgd,1,7,"{head}",0.125,xyz']
        (tmp_path / "nni.csv").write_text("\n".join(lines))
        assert user.json("results", fresh, "--import", str(tmp_path / "nni.csv"))["added"] == 1
        views = [view for view in user.json("results", fresh) if view["state"] == "imported"]
        assert [view["metrics"]["loss"] for view in views] == [0.25, 0.5, 0.75, 0.125]
        assert views[1]["params"]["layers"] == 3 and views[3]["params"]["head"] == {"_name": "mlp", "width": 16}

    def test_bad_rows_are_named_and_nothing_comes_in(self, user: Cli, fresh: str, tmp_path: Path) -> None:
        lines = [
            "lr,optimizer,layers,fixed,head,loss",
            "0.01,adam,2,7,linear,0.5",
            "5,adam,2,7,linear,0.5",
            "0.01,lion,2,7,linear,0.5",
            "0.01,adam,2.5,7,linear,0.5",
            "0.01,adam,2,7,linear,",
            "0.01,adam,2,7,linear,nan",
            "0.01,adam,2,7,mlp,0.5",
        ]
        (tmp_path / "bad.csv").write_text("\n".join(lines))
        done = user("results", fresh, "--import", str(tmp_path / "bad.csv"), check=False)
        assert done.returncode == 2 and "nothing was imported" in done.stderr
        assert "bad.csv:2:" not in done.stderr
        for line, what in (
            (3, "'lr'"),
            (4, "'lion'"),
            (5, "'layers'"),
            (6, "no value"),
            (7, "no number"),
            (8, "width"),
        ):
            assert any(each.startswith(f"bad.csv:{line}:") and what in each for each in done.stderr.splitlines())
        rows = [{"params": GOOD, "metrics": {"loss": 1.0}}, {"params": GOOD | {"more": 1}, "metrics": {"loss": 1.0}}]
        (tmp_path / "bad.json").write_text(json.dumps(rows, indent=1))
        done = user("results", fresh, "--import", str(tmp_path / "bad.json"), check=False)
        assert done.returncode == 2 and "no parameter 'more'" in done.stderr and "bad.json:17:" in done.stderr
        (tmp_path / "torn.json").write_text('[{"params": {}},\n {"params": ')
        done = user("results", fresh, "--import", str(tmp_path / "torn.json"), check=False)
        assert done.returncode == 2 and "torn.json:2:" in done.stderr
        assert len(user.json("results", fresh)) == 1

    def test_the_hub_itself_refuses_what_does_not_fit(self, user: Cli, fresh: str, pair: str, plain: str) -> None:
        client = turnout.Client(user.home)
        for params, metrics, said in (
            (GOOD | {"lr": 7}, {"loss": 1.0}, "result 2: 'lr'"), (GOOD, {"size": 1.0}, "result 2: its metrics"),
        ):  # fmt: skip
            rows = [{"params": GOOD, "metrics": {"loss": 1.0}}, {"params": params, "metrics": metrics}]
            with pytest.raises(InvalidInput, match=said):
                client.import_results(fresh, rows)
        with pytest.raises(Conflict, match="no search"):
            client.import_results(plain, [{"params": GOOD, "metrics": {"loss": 1.0}}])
        assert len(client.results(fresh)) == 1

    def test_the_sampler_learns_of_them_when_the_search_is_extended(self, user: Cli, echo: str, tmp_path: Path) -> None:
        told = user.json("run", "-d", *echo_options(echo), "--runs", "1", sys.executable, "train.py")
        user("attach", told["job"])
        bring(user, told["job"], 0.01, tmp_path)
        user("extend", told["job"], "--runs", "+1")
        user("attach", told["job"])
        assert rates(user, told["job"]) == [1.0, 0.01]

    def test_the_sampler_learns_of_them_while_it_goes_on(self, user: Cli, echo: str, tmp_path: Path) -> None:
        gate = tmp_path / "gate"
        waits = f"while [ ! -e {gate} ]; do sleep 0.05; done; {sys.executable} train.py"
        told = user.json("run", "-d", *echo_options(echo), "--runs", "2", "--concurrent", "1", "sh", "-c", waits)
        wait_until(lambda: user.json("results", told["job"]))
        bring(user, told["job"], 0.1, tmp_path)
        gate.touch()
        user("attach", told["job"])
        assert rates(user, told["job"]) == [1.0, 0.1]

    @pytest.fixture
    def echo(self, user: Cli, search: str) -> str:
        """A sampler that proposes what it was last told from elsewhere."""
        (user.cwd / "echo.py").write_text(ECHO)
        (user.cwd / "rates.yaml").write_text("lr: [0.01, 0.1, 1.0]\noptimizer: adam\nhead: linear\n")
        return "echo:Echo"


ECHO = """
from turnout.plugin.sampler import Proposal, Sampler

class Echo(Sampler):
    lr = 1.0
    def ask(self, index):
        return Proposal({"lr": self.lr, "optimizer": "adam", "head": "linear"})
    def tell(self, result):
        if result.index is None:
            self.lr = result.proposal.params["lr"]
"""


def echo_options(sampler: str) -> list[str]:
    return [
        "--hp-config", "rates.yaml", "--search-type", sampler, "--minimize", "loss", "--option-prefix", "none",
    ]  # fmt: skip


def bring(user: Cli, job: str, rate: float, folder: Path) -> None:
    (folder / "brought.csv").write_text(f"lr,optimizer,head,value\n{rate},adam,linear,-5\n")
    assert user.json("results", job, "--import", str(folder / "brought.csv"))["added"] == 1


def rates(user: Cli, job: str) -> list[float]:
    """Of its own runs, in order."""
    return [view["params"]["lr"] for view in user.json("results", job) if view["run"] is not None]
