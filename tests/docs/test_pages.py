"""The pages that ``turnout help`` shows come with the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

from turnout.cli.pages import find_pages

_ROOT = Path(__file__).parents[2]


def test_every_folder_with_pages_is_in_the_wheel() -> None:
    build = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    included = build["wheel"]["force-include"]
    for folder in {page.path.partition("/")[0] for page in find_pages().values()}:
        assert included[f"docs/{folder}"] == f"turnout/pages/{folder}"
    assert "/docs" in build["sdist"]["include"]


def test_every_page_says_what_it_is_about() -> None:
    assert all(page.text.startswith("# ") and page.about for page in find_pages().values())
