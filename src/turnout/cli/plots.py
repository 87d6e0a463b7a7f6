"""``turnout plot``: metrics over steps, one line per run, into a file; or what a search found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.cli.guessing import unknown_names
from turnout.client import Client
from turnout.errors import Conflict, InvalidInput, NotFound
from turnout.model.ids import is_job_name

_ENDINGS = (".png", ".svg", ".pdf")
_MOST_RUNS = 200
_LEGEND_AT_MOST = 12


@dataclass(frozen=True, slots=True)
class OfRuns:
    """Whose metrics to draw: the runs that have these names and fit the filters."""

    names: list[str]
    filters: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSearch:
    """What to draw of a search, as it was typed; None = nothing was said."""

    kind: str | None
    params: str | None
    metric: str | None

    @property
    def is_asked(self) -> bool:
        return (self.kind, self.params, self.metric) != (None, None, None)


def plot(names: list[str], runs: OfRuns, search: OfSearch, output: Path | None, json: bool) -> None:
    """Metrics `names`, or the search that is called so: if something is said that only a search has, or it is ``job7``
    and no runs are chosen."""
    is_job = len(names) == 1 and is_job_name(names[0]) and not runs.names and not runs.filters
    if is_job or search.is_asked:
        _plot_search(names, runs, search, output, json)
    else:
        plot_metrics(names, runs, output or Path("plot.png"), json)


def _plot_search(names: list[str], runs: OfRuns, asked: OfSearch, output: Path | None, json: bool) -> None:
    if len(names) != 1 or runs.names or runs.filters:
        hint = "name the job of the search alone: `turnout plot job7 --kind importance`"
        raise InvalidInput("--kind, --params and --metric are for one search", hint=hint)
    from turnout.cli import search_plots

    params, metrics = (_split(text) for text in (asked.params, asked.metric))
    kind = asked.kind or "history"
    try:
        search_plots.plot(names[0], search_plots.Asked(kind=kind, params=params, metrics=metrics), output, json)
    except Conflict as error:
        hint = f"`turnout plot METRIC --runs {names[0]}` draws what its runs logged"
        raise Conflict(error.message, hint=hint) from error


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def plot_metrics(metrics: list[str], chosen: OfRuns, output: Path, json: bool) -> None:
    if output.suffix.lower() not in _ENDINGS:
        raise InvalidInput(f"cannot write {output.name!r}", hint=f"use an ending of {', '.join(_ENDINGS)}")
    try:
        import matplotlib
    except ImportError as error:
        raise InvalidInput("plots need matplotlib", hint="pip install 'turnout[plot]'") from error
    matplotlib.use("Agg")
    client = Client()
    runs = _choose(client, metrics, chosen)
    drawn = _draw(client, metrics, runs, output)
    if json:
        render.print_json({"file": str(output), "metrics": metrics, "runs": drawn})
    else:
        print(f"{output}: {', '.join(metrics)} of {render.count(len(drawn), 'run')}")


def _choose(client: Client, metrics: list[str], of: OfRuns) -> list[dict[str, Any]]:
    """The named runs, the runs of named jobs, or the newest; of these, the ones that logged any of the metrics."""
    logged = " or ".join(f'metrics."{metric}" exists' for metric in metrics)
    chosen = client.runs([*of.filters, logged], names=of.names, sort="name", limit=_MOST_RUNS)
    if not chosen:
        unknown = unknown_names([f"metrics.{metric}" for metric in metrics], client.recorded_names())
        hint = "\n".join(unknown) or "`turnout show RUN` lists what a run logged"
        raise NotFound(f"no run that was asked for logged {' or '.join(metrics)}", hint=hint)
    return chosen


def _draw(client: Client, metrics: list[str], runs: list[dict[str, Any]], output: Path) -> list[str]:
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5 * len(metrics)), layout="constrained")
    axes = [figure.add_subplot(len(metrics), 1, row + 1) for row in range(len(metrics))]
    colours = colormaps["viridis"]
    drawn: list[str] = []
    names = _varying(runs)
    for index, run in enumerate(runs):
        found = client.metrics(run["name"], metrics)
        for axis, metric in zip(axes, metrics, strict=True):
            points = [point for point in found.get(metric, []) if not isinstance(point["value"], str)]
            if points:
                colour = colours(index / max(1, len(runs) - 1) * 0.9)
                steps, values = [point["step"] for point in points], [point["value"] for point in points]
                axis.plot(
                    steps, values, color=colour, marker="o" if len(points) == 1 else None, label=_label(run, names)
                )
                drawn.append(run["name"])
    for axis, metric in zip(axes, metrics, strict=True):
        axis.set_xlabel("step")
        axis.set_ylabel(metric)
        axis.grid(alpha=0.3)
        if len(runs) <= _LEGEND_AT_MOST and drawn:
            axis.legend(fontsize="small")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=150)
    return sorted(set(drawn))


def _varying(runs: list[dict[str, Any]]) -> list[str]:
    """The parameters that tell the runs apart."""
    names = sorted({name for run in runs for name in run["params"]})
    return [name for name in names if len({repr(run["params"].get(name)) for run in runs}) > 1]


def _label(run: dict[str, Any], names: list[str]) -> str:
    params = ", ".join(f"{name}={render.shown(run['params'].get(name))}" for name in names[:3])
    return str(run["name"]) + (f" ({params})" if params else "")
