"""The commands and their options; what each does is in the module beside."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from turnout.errors import InvalidInput, TurnoutError

F = TypeVar("F", bound=Callable[..., Any])
_NOBODY_READS = 141
_INTERRUPTED = 130
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class _Commands(click.Group):
    """A group that says what a mistyped command may have meant, and takes a reader that went away for no error."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = (
                f"did you mean `{ctx.command_path} {near[0]}`?" if near else f"`{ctx.command_path} --help` lists them"
            )
            raise InvalidInput(f"no command {args[0]!r}", hint=hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on: nothing more to say, or to flush at the end
            return _NOBODY_READS
        return code


def _names_of(kind: str) -> Callable[..., list[str]]:
    """Names of recent runs or jobs, for the shell's tab key; silent when there is no hub."""

    def complete(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
        from turnout.client import Client

        try:
            client = Client(start=False)
            found = client.jobs(limit=50) if kind == "jobs" else client.runs(limit=50)
        except TurnoutError:
            return []
        return [view["name"] for view in found if view["name"].startswith(incomplete)]

    return complete


def _json(function: F) -> F:
    return click.option("--json", is_flag=True, help="Print JSON, in the documented shape.")(function)


def _run_name(function: F) -> F:
    return click.argument("name", metavar="RUN", shell_complete=_names_of("runs"))(function)


def _filters(function: F) -> F:
    text = "Such as 'state=failed and metrics.loss<0.3'; may be repeated."
    return click.option("--filter", "-f", "filters", multiple=True, help=text)(function)


def _limit(function: F) -> F:
    return click.option(
        "--limit", "-n", default=50, show_default=True, type=click.IntRange(min=1), help="At most so many."
    )(function)


@click.group(cls=_Commands, context_settings=_SETTINGS)
@click.version_option(package_name="turnout", message="turnout %(version)s")
def app() -> None:
    """Run experiments on any compute, and keep what ran."""


@app.command(context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, metavar="SCRIPT-or-COMMAND [ARGS]...", type=click.UNPROCESSED)
@click.option("--target", help="Where to run.")
@click.option("--experiment", help="The experiment it belongs to.")
@click.option("--workspace", help="The workspace of the experiment.")
@click.option("--name", help="A name of your own for it, to be used like run12.")
@click.option("--tag", "tags", multiple=True, metavar="K=V", help="Tag the runs.")
@click.option("--env", multiple=True, metavar="K=V", help="Set an environment variable.")
@click.option("--cpus", type=click.IntRange(min=1), help="Processors one run needs.")
@click.option("--memory", metavar="SIZE", help="Memory one run may use: 500M, 4G.")
@click.option("--gpus", type=click.IntRange(min=0), help="GPUs one run needs.")
@click.option("--time", metavar="TIME", help="Time limit: 90s, 15m, 2h, 1:30:00.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds between SIGTERM and SIGKILL when it is ended.",
)
@click.option(
    "--retry", default="0", metavar="N|never", help="Further attempts after a failure of its own; never = at most once."
)
@click.option("--priority", type=int, default=0, help="Higher goes first.")
@click.option(
    "--runs", type=click.IntRange(min=1), default=1, help="Run the same command so many times, as children run5.1 …"
)
@click.option("--multi", type=click.Path(path_type=Path), metavar="FILE", help="One run per line of FILE.")
@click.option("--concurrent", type=click.IntRange(min=1), help="At most so many at once per node.")
@click.option("--detach", "-d", is_flag=True, help="Return at once.")
@click.option("--wait", is_flag=True, help="Exit with the run's own code.")
@click.option("--dry-run", is_flag=True, help="Show exactly what would happen; change nothing.")
@click.option("--no-snapshot", is_flag=True, help="Freeze no files; the run begins in an empty directory.")
@click.option(
    "--allow-secret",
    "allow_secrets",
    multiple=True,
    metavar="PATH",
    help="Take this file although it looks like a secret.",
)
@_json
def run(detach: bool, wait: bool, dry_run: bool, json: bool, **options: Any) -> int:
    """Run a script (.sh), a Python file (.py) or any command.

    The files of the current directory are frozen first, so that what is queued is what you see now. In the foreground,
    output is shown until the run is over; Ctrl-C detaches, and the run goes on.
    """
    from turnout.cli import submit

    how = submit.How(detach=detach, wait=wait, dry_run=dry_run, json=json)
    return submit.run(submit.Asked(**options), how)


@app.command()
@click.argument("name", metavar="[RUN|JOB]", required=False, shell_complete=_names_of("runs"))
@_json
def status(name: str | None, json: bool) -> None:
    """What is going on: the runs that are not over, or how one run or job stands."""
    from turnout.cli import look

    look.status(name, json)


@app.command()
@_run_name
@_json
def attach(name: str, json: bool) -> int:
    """Show a run's output as it comes, from its beginning, until it is over. Ctrl-C leaves; the run goes on."""
    from turnout.cli import look

    return look.attach(name, json)


@app.command()
@_run_name
@click.option("--follow", "-f", is_flag=True, help="Go on until the run is over.")
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt; default the newest.")
@_json
def logs(name: str, follow: bool, attempt: int | None, json: bool) -> None:
    """The exact bytes a run printed."""
    from turnout.cli import look

    look.logs(name, follow, attempt, json)


@app.command()
@_run_name
@_json
def events(name: str, json: bool) -> None:
    """A run's history, step by step."""
    from turnout.cli import look

    look.events(name, json)


@app.command()
@_run_name
@click.argument("metrics", nargs=-1, metavar="[METRIC]...")
@_json
def metrics(name: str, metrics: tuple[str, ...], json: bool) -> None:
    """What a run logged."""
    from turnout.cli import look

    look.metrics(name, list(metrics), json)


@app.command()
@click.argument("name", metavar="RUN|JOB", shell_complete=_names_of("runs"))
@_json
def show(name: str, json: bool) -> None:
    """Everything about one run or job."""
    from turnout.cli import look

    look.show(name, json)


@app.command()
@_run_name
@_json
def why(name: str, json: bool) -> None:
    """Why a run waits, or ended as it did."""
    from turnout.cli import look

    look.why(name, json)


@app.group("list", cls=_Commands)
def list_() -> None:
    """List runs or jobs."""


@list_.command("runs")
@_filters
@click.option("--sort", default="", help="A column, smallest first; -column for largest first.")
@click.option("--columns", default="", help="Such as name,state,params.lr,metrics.loss:.3f")
@_limit
@_json
def list_runs(filters: tuple[str, ...], sort: str, columns: str, limit: int, json: bool) -> None:
    """Runs, newest first."""
    from turnout.cli import look

    look.list_runs(filters, sort, columns, limit, json)


@list_.command("jobs")
@_limit
@_json
def list_jobs(limit: int, json: bool) -> None:
    """Jobs, newest first."""
    from turnout.cli import look

    look.list_jobs(limit, json)


@app.group(cls=_Commands)
def cancel() -> None:
    """Cancel runs, a job, or everything. Cancelling twice is no error."""


@cancel.command("run")
@click.argument("names", nargs=-1, required=True, metavar="RUN...", shell_complete=_names_of("runs"))
@_json
def cancel_run(names: tuple[str, ...], json: bool) -> None:
    """Cancel these runs, and the children of parents among them."""
    from turnout.cli import steer

    steer.cancel({"runs": names}, json)


@cancel.command("job")
@click.argument("name", metavar="JOB", shell_complete=_names_of("jobs"))
@_json
def cancel_job(name: str, json: bool) -> None:
    """Cancel all runs of a job."""
    from turnout.cli import steer

    steer.cancel({"job": name}, json)


@cancel.command("all")
@_json
def cancel_all(json: bool) -> None:
    """Cancel everything that is not over."""
    from turnout.cli import steer

    steer.cancel({"everything": True}, json)


@app.command()
@_run_name
@click.argument("directory", type=click.Path(path_type=Path))
@_json
def extract(name: str, directory: Path, json: bool) -> None:
    """Write a run's files into a new directory: what it was given, what it left, what it printed."""
    from turnout.cli import steer

    steer.extract(name, directory, json)


@app.command()
@click.argument("metrics", nargs=-1, required=True, metavar="METRIC...")
@click.option(
    "--runs", multiple=True, shell_complete=_names_of("runs"), help="Runs or jobs; default: the newest that logged it."
)
@_filters
@click.option(
    "--output",
    "-o",
    default="plot.png",
    show_default=True,
    type=click.Path(path_type=Path),
    help="PNG, SVG or PDF, by its ending.",
)
@_json
def plot(metrics: tuple[str, ...], runs: tuple[str, ...], filters: tuple[str, ...], output: Path, json: bool) -> None:
    """Draw metrics over steps into a file."""
    from turnout.cli import plots

    plots.plot(list(metrics), list(runs), list(filters), output, json)


@app.command()
@click.option("--deep", is_flag=True, help="Read every kept file; without it, some of them, others each time.")
@_json
def doctor(deep: bool, json: bool) -> int:
    """Look for what could be wrong, and say what to do about it."""
    from turnout.cli import checkup

    return checkup.doctor(deep, json)


@app.group(cls=_Commands)
def hub() -> None:
    """The process in the background that keeps everything."""


@hub.command("start")
@click.option("--listen", metavar="127.0.0.1:PORT", help="Also listen there.")
@_json
def hub_start(listen: str | None, json: bool) -> None:
    """Start the hub if it does not run."""
    from turnout.cli import steer

    steer.hub_start(listen, json)


@hub.command("status")
@_json
def hub_status(json: bool) -> None:
    """Whether the hub runs, since when, and what it looks after."""
    from turnout.cli import steer

    steer.hub_status(json)


@hub.command("stop")
@_json
def hub_stop(json: bool) -> None:
    """Stop the hub. Runs go on, and are taken up again when it starts."""
    from turnout.cli import steer

    steer.hub_stop(json)


@hub.command("logs")
@click.option("--lines", "-n", default=50, show_default=True, type=click.IntRange(min=1), help="The last so many.")
@_json
def hub_logs(lines: int, json: bool) -> None:
    """What the hub wrote into its log."""
    from turnout.cli import steer

    steer.hub_logs(lines, json)


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs a command and exits with its code. Every error is said in one shape: what, where, what to type next."""
    args = sys.argv[1:] if argv is None else argv
    try:
        sys.exit(app.main(args, prog_name="turnout", standalone_mode=False))
    except TurnoutError as error:
        _say_error(error, as_json="--json" in _own_options(args))
        sys.exit(error.exit_code)
    except click.UsageError as error:
        sys.exit(_say_usage(error, as_json="--json" in _own_options(args)))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(_INTERRUPTED)


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


def _say_usage(error: click.UsageError, *, as_json: bool) -> int:
    if (
        type(error).__name__ == "NoArgsIsHelpError"
    ):  # a command without the word it needs: its help says which there are
        error.show()
    else:
        path = error.ctx.command_path if error.ctx is not None else "turnout"
        _say_error(InvalidInput(error.format_message(), hint=f"`{path} --help` shows how"), as_json=as_json)
    return InvalidInput.exit_code


def _say_error(error: TurnoutError, *, as_json: bool) -> None:
    from turnout.cli import render

    if as_json:
        render.print_json(error.as_dict())
    else:
        render.complain(error.message, error.hint)
