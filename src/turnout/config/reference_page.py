"""The reference page of settings, made from their description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnout.config.containers import DockerSettings
from turnout.config.kinds import Key, Named, Optional, Record, keys_of
from turnout.config.sections import ROOT

_HEAD = """# Settings

Made by `scripts/make-reference` from the program itself. How they work together is in
[Configuration](../howto/configuration.md). In a section with fixed keys, each single value and list can also be set by
a variable `TURNOUT_SECTION_KEY` (dashes become underscores, list items are separated by commas), such as
`TURNOUT_CODE_MAX_FILES`. Wherever text is taken, `secret:NAME` stands for a secret.

At the top of a file, `include: [other.yaml, …]` names files whose settings come below its own.
"""


def page() -> str:
    sections = [line for name, each in ROOT.keys.items() for line in _section(name, each)]
    return "\n".join([_HEAD, *sections, *_docker()])


def _docker() -> Iterator[str]:
    yield "## `docker` of a target, a box or a setup\n\nThe name of an image, or:\n"
    yield "| key | takes | default | |\n|---|---|---|---|"
    yield from map(_row, keys_of(DockerSettings).values())
    yield ""


def _section(name: str, section: Key) -> Iterator[str]:
    yield f"## {name}\n\n{section.doc}\n"
    kind = section.kind
    if isinstance(kind, Named):
        yield "Entries under names of your choice; each has:\n"
        kind = kind.kind
    if isinstance(kind, Record):
        yield "| key | takes | default | |\n|---|---|---|---|"
        yield from map(_row, kind.keys.values())
        if kind.is_open:
            yield "| *others* | anything | | Handed to the provider as they are; checked if it says what it takes. |"
        yield ""


def _row(each: Key) -> str:
    short = f" Variable `{each.variable}`." if each.variable else ""
    also = f" Also written {', '.join(f'`{word}`' for word in each.also)}." if each.also else ""
    words = each.kind.words + (", or empty" if isinstance(each.kind, Optional) else "")
    return f"| `{each.name}` | {words} | {_written(each.default)} | {each.doc}{short}{also} |"


def _written(value: Any) -> str:
    if value is None or value == "" or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`"
    if isinstance(value, int) and value >= 1 << 20 and value % (1 << 20) == 0:
        return f"`{value >> 30}G`" if value % (1 << 30) == 0 else f"`{value >> 20}M`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
