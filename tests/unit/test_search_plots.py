"""What the plots of a search show."""

from __future__ import annotations

from turnout.cli.search_plots.charts import draw
from turnout.cli.search_plots.contents import History, Point
from turnout.cli.search_plots.shapes import Dot, Words
from turnout.model.search import Aim


def test_a_run_without_a_result_is_not_shown_as_one_with_the_best() -> None:
    """Its loss was no number, say. It lies at the bottom, where good ones are."""
    values = (3.0, None, 0.5)
    points = [
        Point(place=place, run=f"run1.{place}", state="completed", values=[value], params={}, is_best=value == 0.5)
        for place, value in enumerate(values, start=1)
    ]
    picture = draw(History(job="job1", aims=[Aim(metric="loss")], points=[points]))
    assert "no result" in {shape.text for shape in picture.shapes if isinstance(shape, Words)}
    marks = {shape.told[:6]: shape.mark for shape in picture.shapes if isinstance(shape, Dot) and shape.told}
    assert marks["run1.2"] == "cross" and marks["run1.1"] == marks["run1.3"] == "circle"
