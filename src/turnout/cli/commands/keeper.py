"""Keeping a command that another platform starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from turnout.cli.options import as_json
from turnout.errors import InvalidInput

#: NNI's keeper copied files from and to there.
_ELSEWHERE = (
    "pai_hdfs_output_dir", "hdfs_output_dir", "pai_hdfs_host", "hdfs_host", "pai_user_name", "nni_hdfs_exp_dir",
    "webhdfs_path",
)  # fmt: skip


def _ignored(function: Callable[..., Any]) -> Callable[..., Any]:
    for name in _ELSEWHERE:
        function = click.option(f"--{name}", hidden=True, expose_value=False, callback=_say_ignored)(function)
    return function


def _say_ignored(_context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        click.echo(f"trialkeeper: --{option.name} is ignored: nothing is copied from or to HDFS", err=True)


@click.command()
@click.option("--trial_command", metavar="COMMAND", help="The command, for the shell.")
@click.option("--run", metavar="RUN", help="Which run it is, where several lie among the files here.")
@click.option("--nnimanager_ip", metavar="HOST", help="Where the hub is, if not where the token says.")
@click.option("--nnimanager_port", metavar="PORT", help="And its port.")
@click.option("--nni_manager_version", hidden=True, expose_value=False)
@click.option("--log_collection", type=click.Choice(["http", "none"]), help="none = tell metrics, but no output.")
@click.option("--job_id_file", metavar="FILE", help="Write the number of this process there.")
@click.option("--spool", metavar="DIR", default=".", help="Where to keep what the hub was not told yet.")
@click.option("--patience", type=click.FloatRange(min=0), default=300.0, show_default=True,
              help="Seconds to wait for a hub that does not answer, before the command and after it.")  # fmt: skip
@click.option("--resend", metavar="DIR", help="Tell the hub now what a keeper left there, whose patience ended.")
@click.option("--print-token", metavar="RUN", help="Print the token by which a keeper takes this run.")
@_ignored
@as_json
def trialkeeper(
    trial_command: str | None, resend: str | None, print_token: str | None, json: bool, **options: Any
) -> int:  # fmt: skip
    """Execute a command here as a run that waits for it: its output, metrics and exit code are the run's.

    For platforms that start commands themselves. The run's token is in the variable TURNOUT_TRIAL_TOKEN, or with the
    run's files. The options are those of NNI's TrialKeeper.
    """
    if sum(each is not None for each in (trial_command, resend, print_token)) != 1:
        raise InvalidInput("give one of --trial_command, --print-token and --resend", hint="see --help")
    if print_token is not None:
        return _print_token(print_token, json)
    if resend is not None:
        from turnout.compat.nni.keeper.keeping import send_again

        return send_again(resend, options["patience"])
    assert trial_command is not None
    return _keep(trial_command, options)


def _keep(command: str, options: dict[str, Any]) -> int:
    from turnout.compat.nni.keeper import tickets

    if options["job_id_file"] is not None:
        _write_number(options["job_id_file"])
    given = os.environ.pop(tickets.VARIABLE, None)
    if given is None and tickets.takes_its_run(command):
        os.execv("/bin/sh", ["/bin/sh", "-c", command])
    order = tickets.read(given) if given is not None else tickets.among_files(options["run"], os.environ)
    if options["run"] not in (None, order["run"]):
        raise InvalidInput(f"the token is for {order['run']}, not for {options['run']}", hint=tickets.HOW)
    order["address"] = tickets.addresses(order["address"], options["nnimanager_ip"], options["nnimanager_port"])
    from turnout.compat.nni.keeper.keeping import Wish, keep

    silent = options["log_collection"] == "none"
    return keep(Wish(
        command=command, order=order, silent=silent, spool=options["spool"], patience=options["patience"],
    ))  # fmt: skip


def _write_number(path: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    except OSError as error:
        hint = "nothing was executed; name a file in a directory that is there"
        raise InvalidInput(f"--job_id_file {path} cannot be written: {error.strerror}", hint=hint) from error


def _print_token(run: str, json: bool) -> int:
    from turnout.cli import render
    from turnout.client import Client

    found = Client().trial_token(run)
    if json:
        render.print_json(found)
    else:
        print(found["ticket"])
    return 0
