"""What a script can say about its run, and what becomes of it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

import turnout
from turnout import track
from turnout.errors import InvalidInput
from turnout.model import ids
from turnout.track.spool import Spool
from turnout.wire import frames

Records = Callable[[], list[dict[str, object]]]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Records:
    """As inside a run, in its work directory; gives all that was recorded so far, without the times."""
    spool, work = tmp_path / "spool", tmp_path / "work"
    spool.mkdir()
    work.mkdir()
    monkeypatch.setattr(track, "_spool", Spool(str(spool)))
    monkeypatch.setattr(track, "_recorded", {})
    monkeypatch.chdir(work)
    monkeypatch.setenv("TURNOUT_WORK_DIR", str(work))
    monkeypatch.delenv("TURNOUT_PARAMS", raising=False)

    def read() -> list[dict[str, object]]:
        found = [json.loads(f.payload) for path in sorted(spool.iterdir()) for f in frames.scan(path.read_bytes())]
        assert all(abs(record.pop("t") - 1.7e9) < 1e9 for record in found)
        return found

    return read


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As in a terminal, not in a run."""
    monkeypatch.setattr(track, "_spool", None)
    monkeypatch.setattr(track, "_recorded", {})
    for name in ("PARAMS", "OUTPUT_DIR", "WORK_DIR", "ATTEMPT"):
        monkeypatch.delenv(f"TURNOUT_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Scalar:
    """What numpy and torch have in common."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __float__(self) -> float:
        return self.value

    def tolist(self) -> float:
        return self.value


class TestLog:
    def test_metrics_with_a_step(self, records: Records) -> None:
        turnout.log(loss=0.25, step=4)
        turnout.log(step=5, loss=0.125, accuracy=1)
        assert records() == [{"s": 4, "m": {"loss": 0.25}}, {"s": 5, "m": {"loss": 0.125, "accuracy": 1}}]

    def test_without_a_step_the_record_has_none_and_the_hub_numbers_it(self, records: Records) -> None:
        turnout.log(loss=0.25)
        assert records() == [{"m": {"loss": 0.25}}]

    @pytest.mark.parametrize("name", ["val/loss", "100%", "%s", 'a"b\\', "δ", "a b", "with\nnewline"])
    def test_any_name_in_a_dict(self, records: Records, name: str) -> None:
        turnout.log({name: 0.5}, step=1, other=2.0)
        assert records() == [{"s": 1, "m": {name: 0.5, "other": 2.0}}]

    def test_a_metric_may_have_any_argument_name(self, records: Records) -> None:
        turnout.log(metrics=1.0, named=2.0, self=3.0)
        assert records() == [{"m": {"metrics": 1.0, "named": 2.0, "self": 3.0}}]

    @pytest.mark.parametrize("value", [0.1, 1e-300, -0.0, 5e-324, 1.7976931348623157e308, 3, True, 2**53])
    def test_numbers_arrive_exactly(self, records: Records, value: float) -> None:
        turnout.log(x=value)
        assert records() == [{"m": {"x": value}}]

    def test_nan_and_infinities_are_kept(self, records: Records) -> None:
        turnout.log(a=math.nan, b=math.inf, c=-math.inf, d=1.0)
        (record,) = records()
        metrics = record["m"]
        assert isinstance(metrics, dict)
        assert math.isnan(metrics["a"]) and [metrics[k] for k in "bcd"] == [math.inf, -math.inf, 1.0]

    def test_scalars_of_other_libraries(self, records: Records) -> None:
        turnout.log(loss=Scalar(0.5), step=Scalar(3.0))
        assert records() == [{"s": 3, "m": {"loss": 0.5}}]

    def test_integers_beyond_a_float_are_rounded_to_one(self, records: Records) -> None:
        turnout.log(big=10**20, huge=10**400, low=-(10**400))
        assert records() == [{"m": {"big": 1e20, "huge": math.inf, "low": -math.inf}}]

    @pytest.mark.parametrize("value", ["0.3", b"1", None, [0.3], {"a": 1}, 1j, object()])
    def test_what_is_no_number_is_refused_by_name_and_nothing_is_recorded(
        self, records: Records, value: object
    ) -> None:
        with pytest.raises(TypeError, match="'loss'"):
            turnout.log(accuracy=0.5, loss=value)
        assert records() == []

    @pytest.mark.parametrize("step", ["4", 4.5, math.nan, [1], b"4"])
    def test_a_step_is_a_whole_number(self, records: Records, step: object) -> None:
        with pytest.raises(TypeError, match="step"):
            turnout.log(loss=0.5, step=step)
        assert records() == []

    def test_a_step_has_at_most_62_bits(self, records: Records) -> None:
        turnout.log(loss=0.5, step=2**62 - 1)
        with pytest.raises(ValueError, match="62 bits"):
            turnout.log(loss=0.5, step=2**62)
        assert len(records()) == 1

    def test_names_are_text_of_a_sane_length(self, records: Records) -> None:
        with pytest.raises(TypeError, match="name"):
            turnout.log({3: 0.5})  # type: ignore[dict-item]
        with pytest.raises(TypeError, match="dict"):
            turnout.log(0.5)  # type: ignore[arg-type]
        for name in ("", "x" * 257):
            with pytest.raises(ValueError, match="characters"):
                turnout.log({name: 0.5})
        assert records() == []

    def test_nothing_is_nothing(self, records: Records) -> None:
        turnout.log()
        turnout.log({}, step=3)
        assert records() == []

    def test_ever_new_names_do_not_fill_the_memory(self, records: Records) -> None:
        for i in range(3000):
            turnout.log({f"metric{i}": 1.0})
        assert len(records()) == 3000
        assert len(track._forms) <= 1024

    def test_a_record_has_a_largest_size(self, records: Records) -> None:
        with pytest.raises(ValueError, match="at most"):
            turnout.params(text="x" * frames.MAX_PAYLOAD)
        assert records() == [] and turnout.params() == {}


class TestParams:
    def test_reads_what_the_run_was_submitted_with(self, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNOUT_PARAMS", '{"lr": 0.1, "layers": [3, 4]}')
        assert turnout.params() == {"lr": 0.1, "layers": [3, 4]}
        assert records() == []

    def test_records_and_reads_back(self, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TURNOUT_PARAMS", '{"lr": 0.1, "seed": 1}')
        assert turnout.params(lr=0.2) == {"lr": 0.2, "seed": 1}
        assert turnout.params({"opt.name": "adam"}) == {"lr": 0.2, "seed": 1, "opt.name": "adam"}
        assert records() == [{"p": {"lr": 0.2}}, {"p": {"opt.name": "adam"}}]

    def test_the_answer_is_the_callers_own(self, records: Records) -> None:
        turnout.params(lr=0.2)["lr"] = 9
        assert turnout.params() == {"lr": 0.2}

    def test_paths_and_array_values_are_written_plainly(self, records: Records) -> None:
        turnout.params(data=Path("a/b"), scale=Scalar(0.5), flag=None)
        assert records() == [{"p": {"data": "a/b", "scale": 0.5, "flag": None}}]

    def test_what_json_cannot_hold_is_refused_by_name(self, records: Records) -> None:
        with pytest.raises(TypeError, match="'model'"):
            turnout.params(lr=0.1, model=object())
        assert records() == [] and turnout.params() == {}

    @pytest.mark.parametrize("broken", ["{", "[1]", "null", ""])
    def test_an_unreadable_environment_is_empty(
        self, records: Records, monkeypatch: pytest.MonkeyPatch, broken: str
    ) -> None:
        monkeypatch.setenv("TURNOUT_PARAMS", broken)
        assert turnout.params() == {}

    def test_an_odd_file_name_cannot_break_the_record(self, records: Records) -> None:
        turnout.params(file="caf\udce9.csv")
        assert records() == [{"p": {"file": "caf?.csv"}}]


class TestTag:
    def test_with_and_without_a_value(self, records: Records) -> None:
        turnout.tag("keep", stage="final", fold=3, clean=True)
        turnout.tag({"paper.figure": "2"})
        assert records() == [
            {"g": {"keep": "", "stage": "final", "fold": "3", "clean": "true"}},
            {"g": {"paper.figure": "2"}},
        ]

    def test_values_are_text(self, records: Records) -> None:
        with pytest.raises(TypeError, match="'stage'"):
            turnout.tag(stage=["final"])

    @pytest.mark.parametrize("name", ["keep", "_a.b-c", "", "a b", "1st", "é", "x" * 65, "a\n"])
    def test_names_are_those_the_command_line_takes(self, records: Records, name: str) -> None:
        try:
            ids.check_tag_key(name)
        except InvalidInput:
            with pytest.raises(ValueError, match="tag"):
                turnout.tag(name)
        else:
            turnout.tag(name)


class TestArtifact:
    def test_relative_to_the_current_directory(self, records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
        Path("models").mkdir()
        turnout.artifact("models/best.pt")
        monkeypatch.chdir("models")
        turnout.artifact("best.pt")
        turnout.artifact("../plot.png")
        assert records() == [{"a": "models/best.pt"}, {"a": "models/best.pt"}, {"a": "plot.png"}]

    def test_absolute_inside_the_run(self, records: Records) -> None:
        turnout.artifact(Path.cwd() / "a" / ".." / "b.csv")
        assert records() == [{"a": "b.csv"}]

    def test_a_link_keeps_its_own_name(self, records: Records) -> None:
        Path("epoch7.pt").write_text("x")
        Path("best.pt").symlink_to("epoch7.pt")
        turnout.artifact("best.pt")
        assert records() == [{"a": "best.pt"}]

    @pytest.mark.parametrize("path", ["../secret", "/etc/passwd", ".", "link", "folder/passwd", "../work-2/x"])
    def test_nothing_outside_the_run(self, records: Records, path: str) -> None:
        Path("link").symlink_to("/etc/passwd")
        Path("folder").symlink_to("/etc")
        with pytest.raises(ValueError, match="not inside"):
            turnout.artifact(path)
        assert records() == []

    def test_without_a_work_dir_it_is_where_the_output_directory_lies(
        self, records: Records, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TURNOUT_OUTPUT_DIR", str(Path.cwd() / "output"))
        monkeypatch.delenv("TURNOUT_WORK_DIR")
        turnout.artifact("output/a")
        assert records() == [{"a": "output/a"}]

    def test_a_name_that_is_not_unicode_cannot_be_kept(self, records: Records) -> None:
        with pytest.raises(ValueError):
            turnout.artifact("caf\udce9.csv")
        assert records() == []


def test_the_output_directory_exists_when_it_is_asked_for(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNOUT_OUTPUT_DIR", str(Path.cwd() / "deep" / "output"))
    assert turnout.output_dir() == Path.cwd() / "deep" / "output"
    assert turnout.output_dir().is_dir()


@pytest.mark.parametrize(("attempt", "restart"), [("1", False), ("2", True), ("10", True), ("", False), ("x", False)])
def test_a_second_attempt_is_a_restart(monkeypatch: pytest.MonkeyPatch, attempt: str, restart: bool) -> None:
    monkeypatch.setenv("TURNOUT_ATTEMPT", attempt)
    assert turnout.is_restart() is restart


class TestOutsideARun:
    def test_nothing_is_recorded_and_nothing_is_touched(self, outside: Path) -> None:
        turnout.log(loss=0.5, step=1)
        turnout.tag("keep")
        turnout.artifact("/anywhere/at/all")
        assert turnout.params(lr=0.1) == {"lr": 0.1} == turnout.params()
        assert not turnout.is_restart()
        assert track.lost() == 0
        assert list(outside.iterdir()) == []

    def test_mistakes_are_found_at_the_desk_too(self, outside: Path) -> None:
        with pytest.raises(TypeError, match="'loss'"):
            turnout.log(loss="0.3")

    def test_the_output_directory_is_here(self, outside: Path) -> None:
        assert turnout.output_dir() == Path("output")
        assert (outside / "output").is_dir()
