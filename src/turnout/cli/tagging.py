"""``turnout set tags`` and ``turnout clear tags``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnout.cli import names, render
from turnout.client import Client
from turnout.errors import InvalidInput
from turnout.model.ids import check_tag_key


def set_tags(words: Sequence[str], json: bool) -> None:
    chosen, given = names.split(words)
    if not given:
        raise InvalidInput("which tags?", hint="turnout set tags run3 stage=final keep")
    tags = {}
    for word in given:
        key, _, value = word.partition("=")
        tags[check_tag_key(key)] = value
    done = Client().set_tags(names.several(chosen), tags)
    _say(done, "tagged", json)


def clear_tags(words: Sequence[str], json: bool) -> None:
    chosen, given = names.split(words)
    if not given:
        raise InvalidInput("which tags?", hint="turnout clear tags run3 stage")
    done = Client().clear_tags(names.several(chosen), [check_tag_key(word) for word in given])
    _say(done, "cleared", json)


def _say(done: dict[str, Any], what: str, json: bool) -> None:
    if json:
        render.print_json(done)
        return
    runs = done["runs"]
    shown = ", ".join(runs[:5]) + (f" … {runs[-1]}, {len(runs)} runs" if len(runs) > 5 else "")
    print(f"{what} {', '.join([*done['jobs'], shown]) if runs else 'nothing: no run had it'}")
