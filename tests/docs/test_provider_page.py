"""The parts of the provider that the page builds are, one after the other, the one in examples/."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from turnout.plugin.provider import Launch, Provider
from turnout.testing import Lab

_ROOT = Path(__file__).parents[2]
_PAGE = (_ROOT / "docs" / "howto" / "add-a-provider.md").read_text()
_CODE = _ROOT / "examples" / "turnout-provider-nice" / "src" / "turnout_provider_nice" / "__init__.py"


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def test_whoever_types_in_all_parts_has_the_example() -> None:
    parts = re.findall(r"^```python part\n(.*?)^```$", _PAGE, re.DOTALL | re.MULTILINE)
    assert _lines("".join(parts)) == _lines(_CODE.read_text())


def test_every_method_and_field_of_the_contract_is_on_the_page() -> None:
    methods = [name for name, _ in inspect.getmembers(Provider, inspect.isfunction) if not name.startswith("_")]
    fields = [name for name in Launch.__dataclass_fields__ if name != "node"]
    assert [name for name in (*methods, *fields) if f"`{name}" not in _PAGE] == []


def test_every_hook_of_a_lab_is_on_the_page() -> None:
    hooks = [name for name in vars(Lab) if not name.startswith("_") and name != "close"]
    assert [name for name in hooks if f"`{name}" not in _PAGE] == []
