"""``turnout rerun`` and ``restart``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnout.cli import render, submit
from turnout.client import Client, ask
from turnout.client.rerun import Changes, edited, prepare
from turnout.errors import NotFound
from turnout.home import Home, current_directory
from turnout.model.ids import is_job_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    edit: bool
    target: str | None
    env: tuple[str, ...]


def rerun(name: str, arguments: list[str], asked: Asked, how: submit.How) -> int:
    """Gives the exit code."""
    client = Client()
    _check_is_run(client, name)
    changes = Changes(arguments=arguments or None, target=asked.target, env=ask.pairs(asked.env, "--env"))
    prepared = prepare(client.spec(name), changes, Home.from_env(), current_directory())
    if asked.edit:
        prepared = replace(prepared, spec=edited(prepared.spec))
    return submit.submit(prepared, how)


def _check_is_run(client: Client, name: str) -> None:
    """NotFound says what there is to do about a job."""
    job = client.meant(name)
    if not is_job_name(job):
        return
    whole = client.job(job)["pipeline"] or job
    hint = (
        f"`turnout list runs {job}` lists its runs; of a pipeline, `turnout resume {whole}` does what is missing, "
        f"`turnout pipeline FILE --resume {whole}` also what was changed"
    )
    raise NotFound(f"{name} is a job, and no run", hint=hint)


def restart(name: str, json: bool) -> None:
    done = Client().restart(name)
    if json:
        render.print_json(done)
        return
    for item in done:
        then = f"attempt {item['attempt'] + 1} follows" if item["retried"] else "it may not be tried again"
        print(f"{item['run']} is being ended on {item['node']}; {then}")
