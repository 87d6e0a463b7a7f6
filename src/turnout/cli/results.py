"""``turnout results``: what a search has tried, as a table, a file or a study of Optuna; results from elsewhere."""

from __future__ import annotations

import csv
import io
import json as json_format
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.client import Client
from turnout.client.result_tables import as_columns, as_views
from turnout.client.studied import Studied
from turnout.errors import InvalidInput
from turnout.terminal import ProgressLine

_MOST_IN_PASSING = 2000
_FOREMOST = 3
_FORMS = {".csv": "csv", ".tsv": "tsv", ".json": "json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """As it was typed. `file` is to be imported."""

    form: str | None
    output: Path | None
    file: Path | None
    optuna: str | None
    study: str | None


def results(job: str, asked: Asked, json: bool) -> None:
    if asked.study is not None and asked.optuna is None:
        raise InvalidInput("--study is for --optuna", hint="add --optuna sqlite:///study.db")
    if asked.file is not None:
        _only("--import", asked.form, asked.output, asked.optuna)
        view = Client().import_results_file(job, asked.file)
        render.print_json(view) if json else print(_imported(view))
    elif asked.optuna is not None:
        _only("--optuna", asked.form, asked.output)
        view = _to_optuna(job, asked.optuna, asked.study)
        known = f", {view['known']} were there" if view["known"] else ""
        text = f"study {view['study']!r}: {render.count(view['added'], 'trial')} added{known}"
        render.print_json(view) if json else print(text)
    else:
        _show(Client().studied(job), asked, json)


def _to_optuna(job: str, url: str, study: str | None) -> dict[str, Any]:
    """Optuna takes its time with databases: on a terminal one sees how far it is."""
    line = ProgressLine("writing")

    def told(done: int, total: int) -> None:
        if line.is_due():
            line.show(done / total, f"{done:,} of {total:,}")

    try:
        return Client().results_to_optuna(job, url, study, told=told)
    finally:
        line.clear()


def _only(option: str, *others: object) -> None:
    if any(each is not None for each in others):
        raise InvalidInput(f"{option} stands alone", hint="leave the other options out, and call it twice")


def _imported(view: dict[str, Any]) -> str:
    notes = [f"{view['known']} were there already"] if view["known"] else []
    notes += [f"{view['left_out']} have no result"] if view["left_out"] else []
    more = f" ({', '.join(notes)})" if notes else ""
    return f"{view['job']}: {render.count(view['added'], 'result')} imported{more}"


def _show(study: Studied, asked: Asked, json: bool) -> None:
    form = "json" if json and asked.form is None else asked.form
    if asked.output is not None:
        form = form or _FORMS.get(asked.output.suffix.lower())
        if form is None:
            raise InvalidInput(f"{asked.output.name!r}: in which form?", hint="say --format csv, tsv or json")
        _write(asked.output, written(study, form))
        print(f"{asked.output}: {render.count(len(study.tried), 'result')} of {study.job}", file=sys.stderr)
    elif form is None and sys.stdout.isatty():
        headers, rows = as_columns(study)
        render.table(headers, rows, state=2)
    elif form == "json":
        render.print_json(as_views(study))
    else:
        sys.stdout.write(written(study, form or "csv"))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", newline="")
    except OSError as error:
        hint = "give another --output, in a directory that is there"
        raise InvalidInput(f"{path} cannot be written: {error.strerror}", hint=hint) from error


def what_matters(client: Client, job: str) -> str:
    """The parameters that matter most for the first objective of a search, as `turnout show` tells them; "" where there
    is nothing to tell, or too much to look at in passing."""
    search = client.search(job)
    if not search["aims"] or search["made"] > _MOST_IN_PASSING:
        return ""
    found = client.importance(job)
    shares = [(name, share) for name, share in (found["shares"] or {}).items() if share >= 0.01][:_FOREMOST]
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares)
    return f"{told} (of {found['explained']:.0%} that the parameters explain)" if told else ""


def written(study: Studied, form: str) -> str:
    """Whole and plain: the same results are the same text."""
    if form == "json":
        return json_format.dumps(as_views(study), indent=1) + "\n"
    headers, rows = as_columns(study)
    text = io.StringIO()
    if form == "csv":
        csv.writer(text, lineterminator="\n").writerows([headers, *rows])
    else:
        text.writelines("\t".join(map(render.harmless, row)) + "\n" for row in [headers, *rows])
    return text.getvalue().encode("utf-8", "replace").decode()
