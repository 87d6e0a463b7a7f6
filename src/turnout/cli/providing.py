"""``turnout provider``."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.client import Client
from turnout.errors import InvalidInput, ProviderError
from turnout.home import current_directory

View = dict[str, Any]
_COLOURS = {"passed": "ok", "failed": "problem", "skipped": "warning"}


def show_all(json: bool) -> None:
    found = Client().providers()
    if json:
        render.print_json(found)
        return
    rows = [(each["name"], each["code"], _source(each), ", ".join(each["targets"])) for each in found]
    render.table(("NAME", "CODE", "FROM", "TARGETS"), rows)


def show(name: str, json: bool) -> int:
    """The exit code is that of a provider's error when it is broken."""
    found = Client().provider(name)
    if json:
        render.print_json(found)
        return ProviderError.exit_code if found["broken"] else 0
    print(f"{found['name']}  {found['code']}  from {_source(found)}")
    if found["broken"]:
        render.complain(
            found["broken"] + (f"\n{found['trace']}" if found["trace"] else ""), "correct it, or tell who wrote it"
        )
        return ProviderError.exit_code
    if found["doc"]:
        print(render.harmless(found["doc"]))
    print("\nIt can: " + ", ".join(f"{key}={render.shown(value)}" for key, value in found["capabilities"].items()))
    if found["targets"]:
        print(f"It serves: {', '.join(found['targets'])}")
    _show_settings(found["settings"])
    return 0


def _show_settings(settings: list[View] | None) -> None:
    if settings is None:
        print("Its targets take whatever keys are written.")
    elif not settings:
        print("Its targets take no keys of its own.")
    else:
        print()
        rows = [(each["key"], each["kind"], _default(each["default"]), each["doc"]) for each in settings]
        render.table(("KEY", "KIND", "DEFAULT", "WHAT FOR"), rows, wraps=True)


def test(target: str, checks: Sequence[str], patience: float, report: Path | None, json: bool) -> int:
    """Exit code 1 when a check failed."""
    told = Client().test_provider(target, checks=checks, patience=patience, tell=_quiet if json else _tell)
    if report is not None:
        _write(report, told)
    if json:
        render.print_json(told)
    else:
        seconds = sum(each["seconds"] for each in told["checks"])
        counts = ", ".join(f"{told[each]} {each}" for each in _COLOURS)
        print(f"{told['provider']} ({told['code']}) at {target}: {counts} in {seconds:.1f} s")
    return 1 if told["failed"] else 0


def new(name: str, kind: str, json: bool) -> None:
    made = Client().new_provider(name, current_directory(), kind=kind)
    if json:
        render.print_json(made)
        return
    for file in made["files"]:
        print(f"wrote {file}")
    print(f"its tests pass as it is: cd {made['directory']} && pip install -e '.[test]' && python -m pytest")


def _tell(outcome: View) -> None:
    words = f"{render.coloured(outcome['outcome'], _COLOURS[outcome['outcome']])}  {outcome['name']}"
    print(f"{words}  {outcome['seconds']:.1f} s", flush=True)
    for line in [*outcome["reason"].splitlines(), *outcome["trace"].splitlines()]:
        if line.strip():
            print(f"         {render.harmless(line)}", flush=True)
    if outcome["outcome"] == "failed":
        print(f"         promised: {render.harmless(outcome['promise'])}", flush=True)


def _quiet(_outcome: View) -> None:
    pass


def _source(found: View) -> str:
    if found["place"]:
        return str(found["place"])
    return f"{found['package']} {found['version']}" if found["package"] else "nowhere"


def _default(value: object) -> str:
    return "" if value in (None, "", []) else render.shown(value)


def _write(path: Path, report: View) -> None:
    try:
        path.write_text(jsonlib.dumps(report, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}", hint="give another --report") from error
