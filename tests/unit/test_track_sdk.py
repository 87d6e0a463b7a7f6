"""``import turnout`` in a run: there where nothing is installed, out of the way where something is, and cheap."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import turnout
from tests.components import python39
from turnout.agent import sdk
from turnout.wire import frames

SRC = Path(turnout.__file__).parents[1]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    sdk.install(str(tmp_path / "sdk"))
    return tmp_path / "sdk"


def python(code: str, *path: Path, interpreter: str = sys.executable, **environment: str) -> str:
    """What `code` prints, run where nothing but `path` and the standard library can be imported."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("TURNOUT_", "PYTHON"))}
    return subprocess.run(
        [interpreter, "-S", "-c", code],
        env={**clean, "PYTHONPATH": os.pathsep.join(map(str, path)), **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=30,
    ).stdout.strip()


@pytest.fixture(params=["this Python", "the oldest"])
def interpreter(request: pytest.FixtureRequest) -> str:
    return sys.executable if request.param == "this Python" else python39()


def test_a_run_logs_where_turnout_is_not_installed(installed: Path, tmp_path: Path, interpreter: str) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    code = "import turnout; turnout.log(loss=0.5, step=turnout.params()['n']); print(turnout.is_restart())"
    settings = {"TURNOUT_SPOOL": str(spool), "TURNOUT_PARAMS": '{"n": 7}', "TURNOUT_ATTEMPT": "2"}
    assert python(code, installed, interpreter=interpreter, **settings) == "True"
    (frame,) = frames.scan(next(spool.iterdir()).read_bytes())
    record = json.loads(frame.payload)
    assert (record["s"], record["m"]) == (7, {"loss": 0.5})


def test_the_oldest_python_understands_all_that_runs_on_nodes() -> None:
    parts = [path for part in ("agent", "wire", "track", "plugin") for path in (SRC / "turnout" / part).rglob("*.py")]
    names = [".".join(path.relative_to(SRC).with_suffix("").parts) for path in parts if not path.stem.startswith("__")]
    assert len(names) > 40
    code = f"import importlib\nfor name in {sorted(names)}: importlib.import_module(name)\nprint('all of them')"
    assert python(code, SRC, interpreter=python39()) == "all of them"


def test_what_a_run_does_not_have_is_said(installed: Path) -> None:
    code = "import turnout\ntry: turnout.Client\nexcept AttributeError as error: print(error)"
    assert "not installed here" in python(code, installed)


def test_an_installed_turnout_is_used_instead(installed: Path) -> None:
    code = "import turnout, turnout.errors; print(turnout.__file__, turnout.__version__, turnout.log.__module__)"
    expected = f"{SRC / 'turnout' / '__init__.py'} {turnout.__version__} turnout.track"
    assert python(code, installed, SRC) == expected


def test_somebody_elses_module_of_that_name_is_left_to_them(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "turnout.py").write_text("mine = 42")
    assert python("import turnout; print(turnout.mine)", installed, tmp_path / "theirs") == "42"


def test_a_mere_directory_of_that_name_is_no_module(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "cwd" / "turnout").mkdir(parents=True)
    code = "import turnout; print(turnout.is_restart())"
    assert python(code, installed, tmp_path / "cwd") == "False"


def test_a_run_started_by_a_run_has_two_of_them(installed: Path, tmp_path: Path) -> None:
    sdk.install(str(tmp_path / "outer"))
    code = "import turnout; print(turnout.is_restart(), turnout.__file__)"
    assert python(code, installed, tmp_path / "outer").startswith("False")
    assert str(SRC) in python(code, installed, tmp_path / "outer", SRC)


def test_a_path_entry_written_another_way_is_recognised(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(installed)
    code = "import turnout; print(turnout.__file__)"
    assert str(SRC) in python(code, tmp_path / "link", SRC)
    assert str(SRC) in python(code, Path(f"{installed}/../sdk/"), SRC)


def test_importing_it_loads_next_to_nothing(installed: Path) -> None:
    code = "import os, sys; before = set(sys.modules); import turnout; print(*sorted(set(sys.modules) - before))"
    ours = {"turnout", "turnout.track", "turnout.track.spool", "turnout.track.values"}
    loaded = set(python(code, installed).split())
    assert ours <= loaded
    assert loaded - ours <= {"__future__", "_json", "_operator", "_struct", "errno", "struct", "zlib"}
    assert set(python(code, SRC).split()) == {"__future__", "turnout", "turnout._version"}


class TestInstall:
    def test_again_changes_nothing(self, installed: Path) -> None:
        before = {path: path.stat().st_mtime_ns for path in installed.rglob("*")}
        sdk.install(str(installed))
        assert {path: path.stat().st_mtime_ns for path in installed.rglob("*")} == before

    def test_an_old_or_damaged_package_is_replaced(self, installed: Path) -> None:
        (installed / "turnout" / "track" / "spool.py").write_text("")
        former = os.readlink(installed / "turnout")
        sdk.install(str(installed))
        assert os.readlink(installed / "turnout") != former
        assert python("import turnout; print(turnout.is_restart())", installed) == "False"

    def test_is_for_this_user_only(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            sdk.install(str(tmp_path / "sdk"))
        finally:
            os.umask(before)
        for path in [tmp_path / "sdk", *(tmp_path / "sdk").glob(".turnout-*/**/*")]:
            assert path.stat().st_mode & 0o077 == 0, path

    def test_from_a_zip_file(self, tmp_path: Path) -> None:
        bundle = tmp_path / "agent.pyz"
        with zipfile.ZipFile(bundle, "w") as archive:
            for part in ("__init__.py", "_version.py", "agent/sdk.py", "track"):
                for path in sorted((SRC / "turnout" / part).rglob("*.py")) or [SRC / "turnout" / part]:
                    archive.write(path, path.relative_to(SRC))
            archive.writestr("turnout/agent/__init__.py", "")
        python(f"from turnout.agent import sdk; sdk.install({str(tmp_path / 'sdk')!r})", bundle)
        assert python("import turnout; print(turnout.is_restart())", tmp_path / "sdk") == "False"


class TestPublicNames:
    def test_all_of_them_are_listed_and_found(self) -> None:
        assert dir(turnout) == sorted(turnout.__all__)
        for name in turnout.__all__:
            assert getattr(turnout, name) is getattr(turnout, name)

    def test_another_is_an_error(self) -> None:
        with pytest.raises(AttributeError, match="nothing_like_it"):
            turnout.nothing_like_it  # noqa: B018
