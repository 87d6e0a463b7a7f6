"""The commands and their options; what each does is in the module beside."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from turnout.errors import TurnoutError

app = typer.Typer(
    name="turnout",
    help="Run experiments on any compute, and keep what ran.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
list_app = typer.Typer(help="List runs or jobs.", no_args_is_help=True, rich_markup_mode=None)
cancel_app = typer.Typer(help="Cancel runs, a job, or everything. Cancelling twice is no error.", no_args_is_help=True, rich_markup_mode=None)
hub_app = typer.Typer(help="The process in the background that keeps everything.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(list_app, name="list")
app.add_typer(cancel_app, name="cancel")
app.add_typer(hub_app, name="hub")

Json = Annotated[bool, typer.Option("--json", help="Print JSON, in the documented shape.")]


def _complete_run(incomplete: str) -> list[str]:
    """Names of recent runs, for the shell's tab key; silent when there is no hub."""
    from turnout.client import Client

    try:
        runs = Client(start=False).runs(limit=50)
    except TurnoutError:
        return []
    return [view["name"] for view in runs if view["name"].startswith(incomplete)]


def _complete_job(incomplete: str) -> list[str]:
    from turnout.client import Client

    try:
        jobs = Client(start=False).jobs(limit=50)
    except TurnoutError:
        return []
    return [view["name"] for view in jobs if view["name"].startswith(incomplete)]


RunName = Annotated[str, typer.Argument(metavar="RUN", autocompletion=_complete_run, show_default=False)]
RunNames = Annotated[list[str], typer.Argument(metavar="RUN…", autocompletion=_complete_run, show_default=False)]
JobName = Annotated[str, typer.Argument(metavar="JOB", autocompletion=_complete_job, show_default=False)]
Filters = Annotated[list[str] | None, typer.Option("--filter", "-f", help="Such as 'state=failed and metrics.loss<0.3'; may be repeated.")]


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[list[str] | None, typer.Argument(metavar="SCRIPT-or-COMMAND [ARGS…]", show_default=False)] = None,
    target: Annotated[str | None, typer.Option(help="Where to run.")] = None,
    experiment: Annotated[str | None, typer.Option(help="The experiment it belongs to.")] = None,
    workspace: Annotated[str | None, typer.Option(help="The workspace of the experiment.")] = None,
    name: Annotated[str | None, typer.Option(help="A name of your own for it, to be used like run12.")] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Tag the runs.")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="K=V", help="Set an environment variable.")] = None,
    cpus: Annotated[int | None, typer.Option(help="Processors one run needs.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory one run may use: 500M, 4G.")] = None,
    gpus: Annotated[int | None, typer.Option(help="GPUs one run needs.")] = None,
    time: Annotated[str | None, typer.Option(help="Time limit: 90s, 15m, 2h, 1:30:00.")] = None,
    grace: Annotated[float, typer.Option(help="Seconds between SIGTERM and SIGKILL when it is ended.")] = 10.0,
    retry: Annotated[str, typer.Option(metavar="N|never", help="Further attempts after a failure of its own; never = at most once.")] = "0",
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    runs: Annotated[int, typer.Option(help="Run the same command so many times, as children run5.1 …")] = 1,
    multi: Annotated[Path | None, typer.Option(metavar="FILE", help="One run per line of FILE.")] = None,
    concurrent: Annotated[int | None, typer.Option(help="At most so many at once per node.")] = None,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Return at once.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Exit with the run's own code.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show exactly what would happen; change nothing.")] = False,
    no_snapshot: Annotated[bool, typer.Option("--no-snapshot", help="Freeze no files; the run begins in an empty directory.")] = False,
    allow_secret: Annotated[list[str] | None, typer.Option(metavar="PATH", help="Take this file although it looks like a secret.")] = None,
    json: Json = False,
) -> None:
    """Run a script (.sh), a Python file (.py) or any command.

    The files of the current directory are frozen first, so that what is queued is what you see now. In the foreground,
    output is shown until the run is over; Ctrl-C detaches, and the run goes on.
    """
    from turnout.cli import submit

    asked = submit.Asked(
        command=command or [], target=target, experiment=experiment, workspace=workspace, name=name, tags=tag or [],
        env=env or [], cpus=cpus, memory=memory, gpus=gpus, time=time, grace=grace, retry=retry, priority=priority,
        runs=runs, multi=multi, concurrent=concurrent, no_snapshot=no_snapshot, allow_secrets=allow_secret or [],
    )  # fmt: skip
    how = submit.How(detach=detach, wait=wait, dry_run=dry_run, json=json)
    raise typer.Exit(submit.run(asked, how))


@app.command()
def status(
    name: Annotated[str | None, typer.Argument(metavar="[RUN|JOB]", autocompletion=_complete_run, show_default=False)] = None,
    json: Json = False,
) -> None:
    """What is going on: the runs that are not over, or how one run or job stands."""
    from turnout.cli import look

    look.status(name, json)


@app.command()
def attach(name: RunName, json: Json = False) -> None:
    """Show a run's output as it comes, from its beginning, until it is over. Ctrl-C leaves; the run goes on."""
    from turnout.cli import look

    raise typer.Exit(look.attach(name, json))


@app.command()
def logs(
    name: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run is over.")] = False,
    attempt: Annotated[int | None, typer.Option(help="Of this attempt; default the newest.")] = None,
    json: Json = False,
) -> None:
    """The exact bytes a run printed."""
    from turnout.cli import look

    look.logs(name, follow, attempt, json)


@app.command()
def events(name: RunName, json: Json = False) -> None:
    """A run's history, step by step."""
    from turnout.cli import look

    look.events(name, json)


@app.command()
def metrics(
    name: RunName,
    metric: Annotated[list[str] | None, typer.Argument(help="Only these.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """What a run logged."""
    from turnout.cli import look

    look.metrics(name, metric or [], json)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="RUN|JOB", autocompletion=_complete_run, show_default=False)], json: Json = False) -> None:
    """Everything about one run or job."""
    from turnout.cli import look

    look.show(name, json)


@app.command()
def why(name: RunName, json: Json = False) -> None:
    """Why a run waits, or ended as it did."""
    from turnout.cli import look

    look.why(name, json)


@list_app.command("runs")
def list_runs(
    filter: Filters = None,
    sort: Annotated[str, typer.Option(help="A column, smallest first; -column for largest first.")] = "",
    columns: Annotated[str, typer.Option(help="Such as name,state,params.lr,metrics.loss:.3f")] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """Runs, newest first."""
    from turnout.cli import look

    look.list_runs(filter or [], sort, columns, limit, json)


@list_app.command("jobs")
def list_jobs(limit: Annotated[int, typer.Option("--limit", "-n", help="At most so many.")] = 50, json: Json = False) -> None:
    """Jobs, newest first."""
    from turnout.cli import look

    look.list_jobs(limit, json)


@cancel_app.command("run")
def cancel_run(names: RunNames, json: Json = False) -> None:
    """Cancel these runs, and the children of parents among them."""
    from turnout.cli import steer

    steer.cancel({"runs": names}, json)


@cancel_app.command("job")
def cancel_job(name: JobName, json: Json = False) -> None:
    """Cancel all runs of a job."""
    from turnout.cli import steer

    steer.cancel({"job": name}, json)


@cancel_app.command("all")
def cancel_all(json: Json = False) -> None:
    """Cancel everything that is not over."""
    from turnout.cli import steer

    steer.cancel({"everything": True}, json)


@app.command()
def extract(
    name: RunName,
    directory: Annotated[Path, typer.Argument(help="A new or empty directory.", show_default=False)],
    json: Json = False,
) -> None:
    """Write a run's files: what it was given, what it left, what it printed."""
    from turnout.cli import steer

    steer.extract(name, directory, json)


@app.command()
def plot(
    metric: Annotated[list[str], typer.Argument(help="Metrics to draw.", show_default=False)],
    runs: Annotated[list[str] | None, typer.Option("--runs", help="Runs or jobs; default: the newest that logged it.")] = None,
    filter: Filters = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, SVG or PDF, by its ending.")] = Path("plot.png"),
    json: Json = False,
) -> None:
    """Draw metrics over steps into a file."""
    from turnout.cli import plots

    plots.plot(metric, runs or [], filter or [], output, json)


@app.command()
def doctor(json: Json = False) -> None:
    """Look for what could be wrong, and say what to do about it."""
    from turnout.cli import checkup

    raise typer.Exit(checkup.doctor(json))


@hub_app.command("start")
def hub_start(
    listen: Annotated[str | None, typer.Option(help="Also listen on 127.0.0.1:PORT.")] = None, json: Json = False
) -> None:
    """Start the hub if it does not run."""
    from turnout.cli import steer

    steer.hub_start(listen, json)


@hub_app.command("status")
def hub_status(json: Json = False) -> None:
    """Whether the hub runs, since when, and what it looks after."""
    from turnout.cli import steer

    raise typer.Exit(steer.hub_status(json))


@hub_app.command("stop")
def hub_stop(json: Json = False) -> None:
    """Stop the hub. Runs go on, and are taken up again when it starts."""
    from turnout.cli import steer

    steer.hub_stop(json)


@hub_app.command("logs")
def hub_logs(
    lines: Annotated[int, typer.Option("--lines", "-n", help="The last so many.")] = 50, json: Json = False
) -> None:
    """What the hub wrote into its log."""
    from turnout.cli import steer

    steer.hub_logs(lines, json)


def _version(value: bool) -> None:
    if value:
        from turnout._version import __version__

        print(f"turnout {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    pass


def main(argv: list[str] | None = None) -> Any:
    """Runs a command and exits with its code. Every error is said in one shape: what, where, what to type next."""
    args = sys.argv[1:] if argv is None else argv
    try:
        app(args)
    except TurnoutError as error:
        _say_error(error, as_json="--json" in _own_options(args))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on: not an error, and nothing more to flush
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)


def _own_options(args: list[str]) -> list[str]:
    """The arguments that are turnout's, not those of the command to run."""
    if "run" not in args[:1]:
        return args
    own: list[str] = []
    for arg in args[1:]:
        if not arg.startswith("-") and not (own and own[-1].startswith("-")):
            break
        own.append(arg)
    return own


def _say_error(error: TurnoutError, *, as_json: bool) -> None:
    from turnout.cli import render

    if as_json:
        render.print_json(error.as_dict())
    else:
        render.complain(error.message, error.hint)
