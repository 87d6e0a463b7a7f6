"""Results of elsewhere, as files have them: what is read, what is passed over, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnout.client.result_files import Found, read
from turnout.client.studied import studied
from turnout.errors import InvalidInput
from turnout.plugin.space import Choice, Normal, Parameter, Range
from turnout.search.spaces import to_plain

LOSS = {"metric": "loss", "goal": "minimize", "of": "last"}
STATE = Choice(("solid", "failed"))


def imported(file: Path, text: str, **space: Parameter) -> Found:
    """What a search of these parameters finds in a file with that text."""
    file.write_text(text)
    return read(file, studied({"job": "job1", "aims": [LOSS], "space": to_plain(space)}, []))


def test_a_parameter_called_state_is_one(tmp_path: Path) -> None:
    found = imported(tmp_path / "a.csv", "state,loss\nsolid,1\nfailed,2\n", state=STATE)
    assert [row["params"]["state"] for row in found.rows] == ["solid", "failed"] and found.left_out == 0


def test_what_turnout_wrote_has_states_also_beside_such_a_parameter(tmp_path: Path) -> None:
    lines = ["number,run,state,params.state,metrics.loss", "1,run1.1,failed,solid,", "2,run1.2,completed,failed,2"]
    found = imported(tmp_path / "a.csv", "\n".join(lines), state=STATE)
    assert [row["params"] for row in found.rows] == [{"state": "failed"}] and found.left_out == 1


@pytest.mark.parametrize(
    ("text", "name", "parameter"),
    [("x,state,loss\n0.5,gas,1\n", "x", Range(0, 1)), ("run,state,loss\n3,gas,1\n", "run", Range(0, 9, whole=True))],
)
def test_a_column_called_state_is_passed_over_where_there_are_no_runs(
    text: str, name: str, parameter: Parameter, tmp_path: Path
) -> None:
    found = imported(tmp_path / "a.csv", text, **{name: parameter})
    assert (len(found.rows), found.left_out) == (1, 0)


@pytest.mark.parametrize("value", ["1" + "0" * 400, "NaN", "Infinity"], ids=["large", "nan", "infinite"])
def test_what_is_no_number_does_not_fit_a_normal(value: str, tmp_path: Path) -> None:
    text = f'[{{"params": {{"x": {value}}}, "metrics": {{"loss": 1}}}}]'
    with pytest.raises(InvalidInput, match=r"a\.json:1: 'x' is"):
        imported(tmp_path / "a.json", text, x=Normal(0, 1))


def test_a_header_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"a\.csv:1: field larger than field limit"):
        imported(tmp_path / "a.csv", '"' + "x" * 200_000 + '",loss\n1,2\n', x=Range(0, 1))
