"""The pages of the documentation. They come with the package; in a checkout of the source they are in docs/."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_PLACES = (_PACKAGE / "pages", _PACKAGE.parents[1] / "docs")
#: In the order in which one reads them.
_FOLDERS = ("tutorial", "howto", "explanation", "reference")


@dataclass(frozen=True, slots=True)
class Page:
    """`topic` is what to ask for, `about` the page's title, `path` where it is among the pages."""

    topic: str
    about: str
    path: str
    text: str


def find_pages(taken: Collection[str] = ()) -> dict[str, Page]:
    """All of them by topic: the file's name, with that of its folder where the name is one of `taken`."""
    return {page.topic: page for page in _read(taken)}


def _read(taken: Collection[str]) -> Iterator[Page]:
    root = next((place for place in _PLACES if place.is_dir()), None)
    for folder in _FOLDERS if root is not None else ():
        assert root is not None
        for file in sorted((root / folder).glob("*.md")):
            text = file.read_text(encoding="utf-8")
            about = text.partition("\n")[0].lstrip("# ").strip()
            topic = f"{folder}/{file.stem}" if file.stem in taken else file.stem
            yield Page(topic, about, f"{folder}/{file.name}", text)
