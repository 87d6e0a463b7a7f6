"""``turnout export`` and ``import``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.cli.progress import size, transfer
from turnout.client import Client
from turnout.errors import InvalidInput
from turnout.model.ids import span_of


def export(
    workspace: str, file: Path, experiment: str | None, jobs: str | None, finished: bool, files: bool, json: bool
) -> None:
    wanted = [name.strip() for name in jobs.split(",") if name.strip()] if jobs is not None else []
    if jobs is not None and not wanted:
        raise InvalidInput("--jobs names none", hint="write --jobs job1,job2, or leave it out for all")
    with transfer("exporting") as told:
        done = Client().export_workspace(
            workspace, file, experiment=experiment, jobs=wanted, finished=finished, files=files, told=told
        )
    if json:
        render.print_json(done)
        return
    print(f"{file}: {_amount(done)}, {size(done['bytes'])}; every byte was checked")


def import_archive(file: Path, workspace: str | None, prefix: str, again: bool, json: bool) -> None:
    with transfer("importing") as told:
        done = Client().import_archive(file, workspace=workspace, prefix=prefix, again=again, told=told)
    if json:
        render.print_json(done)
        return
    jobs, runs = (span_of(done[f"first_{what}"], done[f"last_{what}"]) for what in ("job", "run"))
    names = f"{jobs}, {runs} in workspace {done['workspace']}"
    if done["imported"]:
        print(f"imported {_amount(done)}: {names}")
    else:
        print(f"nothing to do: it was imported before, as {names}")


def _amount(done: dict[str, Any]) -> str:
    return f"{render.count(done['jobs'], 'job')} and {render.count(done['runs'], 'run')}"
