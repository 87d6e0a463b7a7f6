"""What the client learns of providers whose code does not come to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnout.client import providers
from turnout.home import Home

_CLASS = "\nfrom turnout.providers.local import LocalProvider\nclass Cellar(LocalProvider): pass\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    (tmp_path / "work" / "places").mkdir(parents=True)
    (tmp_path / "work" / "turnout.yaml").write_text("providers: {compute: {cellar: places.cellar.Cellar}}\n")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Home(tmp_path / "home")


def test_one_that_blocks_is_given_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_PATIENCE", 1.0)
    Path("places", "cellar.py").write_text("import time\ntime.sleep(600)\n" + _CLASS)
    told = providers.described(home, "cellar")
    assert (told["broken"], told["capabilities"]) == ("its process did not answer within 1 s", None)


def test_one_that_leaves_a_thread_behind_has_answered(home: Home) -> None:
    """Nobody waits for what it started when it was imported."""
    Path("places", "cellar.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(600,)).start()\n" + _CLASS
    )
    assert providers.described(home, "cellar")["broken"] == ""
