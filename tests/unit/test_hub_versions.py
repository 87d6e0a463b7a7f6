"""Which of two versions is the newer one, as a client sees it that finds a hub of another."""

from __future__ import annotations

import pytest

from turnout.client import upgrading
from turnout.client.upgrading import is_ours
from turnout.errors import Conflict

OURS = {"ok": True, "pid": 7, "version": "1.2.0", "protocol": 3}


@pytest.fixture(autouse=True)
def this_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrading, "__version__", "1.2.0")
    monkeypatch.setattr(upgrading, "PROTOCOL", 3)


@pytest.mark.parametrize("version", ["1.2.0", "1.2", "1.2.0.0"])
def test_the_same(version: str) -> None:
    assert is_ours({**OURS, "version": version})


@pytest.mark.parametrize("version", ["1.1.9", "1.2.0rc1", "1.2.0b2", "1.2.0.dev4", "0.10.0", "", None, "nonsense"])
def test_older(version: str | None) -> None:
    assert not is_ours({**OURS, "version": version})


def test_a_hub_that_tells_nothing_is_older() -> None:
    assert not is_ours({"ok": True})


@pytest.mark.parametrize("version", ["1.2.1", "1.10", "1.2.0.1", "2.0.0.dev1", "1.2.1rc1"])
def test_newer(version: str) -> None:
    with pytest.raises(Conflict, match=version):
        is_ours({**OURS, "version": version})


def test_one_version_with_another_protocol_is_told_apart() -> None:
    assert not is_ours({**OURS, "protocol": 2})
    with pytest.raises(Conflict):
        is_ours({**OURS, "protocol": 4})
