"""``turnout rerun`` and ``restart``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnout.cli import render, submit
from turnout.client import Client, ask
from turnout.client.rerun import Changes, edited, prepare
from turnout.home import Home, current_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    edit: bool
    target: str | None
    env: tuple[str, ...]


def rerun(name: str, arguments: list[str], asked: Asked, how: submit.How) -> int:
    """Gives the exit code."""
    changes = Changes(arguments=arguments or None, target=asked.target, env=ask.pairs(asked.env, "--env"))
    prepared = prepare(Client().spec(name), changes, Home.from_env(), current_directory())
    if asked.edit:
        prepared = replace(prepared, spec=edited(prepared.spec))
    return submit.submit(prepared, how)


def restart(name: str, json: bool) -> None:
    done = Client().restart(name)
    if json:
        render.print_json(done)
        return
    for item in done:
        then = f"attempt {item['attempt'] + 1} follows" if item["retried"] else "it may not be tried again"
        print(f"{item['run']} is being ended on {item['node']}; {then}")
