"""``turnout plot``: metrics over steps, one line per run, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.cli.guessing import unknown_names
from turnout.client import Client
from turnout.errors import InvalidInput, NotFound

_ENDINGS = (".png", ".svg", ".pdf")
_MOST_RUNS = 200
_LEGEND_AT_MOST = 12


def plot(metrics: list[str], names: list[str], filters: list[str], output: Path, json: bool) -> None:
    if output.suffix.lower() not in _ENDINGS:
        raise InvalidInput(f"cannot write {output.name!r}", hint=f"use an ending of {', '.join(_ENDINGS)}")
    try:
        import matplotlib
    except ImportError as error:
        raise InvalidInput("plots need matplotlib", hint="pip install 'turnout[plot]'") from error
    matplotlib.use("Agg")
    client = Client()
    runs = _choose(client, metrics, names, filters)
    drawn = _draw(client, metrics, runs, output)
    if json:
        render.print_json({"file": str(output), "metrics": metrics, "runs": drawn})
    else:
        print(f"{output}: {', '.join(metrics)} of {render.count(len(drawn), 'run')}")


def _choose(client: Client, metrics: list[str], names: list[str], filters: list[str]) -> list[dict[str, Any]]:
    """The named runs, the runs of named jobs, or the newest; of these, the ones that logged any of the metrics."""
    logged = " or ".join(f'metrics."{metric}" exists' for metric in metrics)
    chosen = client.runs([*filters, logged], names=names, sort="name", limit=_MOST_RUNS)
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
