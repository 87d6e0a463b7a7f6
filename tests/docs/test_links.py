"""Every relative link in a page leads to a file, and to a heading in it where it names one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\]\((?!https?://)(?P<path>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: str) -> set[str]:
    """The names of a page's headings as links spell them: lower case, spaces to hyphens, punctuation dropped."""
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(page)}


def broken(page: Path) -> list[str]:
    wrong = []
    for link in _LINK.finditer(page.read_text()):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        known = target.exists() and (not link["heading"] or link["heading"] in anchors(target.read_text()))
        if not known:
            wrong.append(f"{page.relative_to(ROOT)}: {link[0][2:-1]}")
    return wrong


def test_links_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    wrong = [line for page in pages for line in broken(page)]
    assert not wrong, "links to nowhere:\n" + "\n".join(wrong)
