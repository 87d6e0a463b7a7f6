"""``turnout plot JOB``: how a search went, what mattered, where the good results lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from turnout.cli import render
from turnout.cli.search_plots import contents
from turnout.cli.search_plots.contents import Content
from turnout.client import Client
from turnout.client.studied import Studied
from turnout.errors import InvalidInput

KINDS = ("history", "importance", "parallel", "contour", "pareto")
_ENDINGS = (".png", ".svg", ".html", ".pdf")
_WITH_PARAMS = ("parallel", "contour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """`metrics` are objectives; none = all that the kind of plot can show."""

    kind: str
    params: Sequence[str] = ()
    metrics: Sequence[str] = ()


def plot(job: str, asked: Asked, output: Path | None, json: bool) -> None:
    """Into `output`, by its ending; with `json` and no `output`, nothing but what would be drawn is told."""
    if output is not None and output.suffix.lower() not in _ENDINGS:
        raise InvalidInput(f"cannot write {output.name!r}", hint=f"use an ending of {', '.join(_ENDINGS)}")
    if asked.params and asked.kind not in _WITH_PARAMS:
        raise InvalidInput(f"--params is not for {asked.kind}", hint=f"--kind {' or '.join(_WITH_PARAMS)}")
    content = content_of(Client().studied(job), asked)
    if json and output is None:
        render.print_json(asdict(content))
        return
    output = output or Path("plot.png")
    write(content, output)
    if json:
        render.print_json({**asdict(content), "file": str(output)})
    else:
        print(f"{output}: {asked.kind} of {content.job}")


def content_of(study: Studied, asked: Asked) -> Content:
    if asked.kind == "history":
        return contents.history(study, asked.metrics)
    if asked.kind == "importance":
        return contents.importance(study, asked.metrics)
    if asked.kind == "pareto":
        return contents.pareto(study, asked.metrics)
    make = contents.parallel if asked.kind == "parallel" else contents.contour
    return make(study, asked.metrics, asked.params)


def write(content: Content, path: Path) -> None:
    from turnout.cli.search_plots import raster, svg
    from turnout.cli.search_plots.charts import draw

    picture = draw(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    ending = path.suffix.lower()
    if ending in (".svg", ".html"):
        path.write_text(svg.as_svg(picture) if ending == ".svg" else svg.as_html(picture), encoding="utf-8")
    else:
        raster.save(picture, path)
