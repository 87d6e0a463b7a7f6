"""Fixtures every test may use; `tests.harness` has their types."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Cli, fresh_user, wait_until
from tests.postgres import fresh_database, postgres_binaries, running_server


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that share a daemon are for one worker; a pytest with which xdist cannot see to that is refused."""
    if getattr(config.option, "loadgroup", False):
        for item in items:
            if item.get_closest_marker("xdist_group") is not None and "@" not in item.nodeid:
                raise pytest.UsageError(f"{item.nodeid} is not kept with its group; install another pytest or xdist")


@pytest.fixture
def cli() -> Iterator[Cli]:
    """The command line, in an empty working directory: ``cli("show", "run1")``, ``cli.json("list", "runs")``."""
    with fresh_user() as user:
        yield user


@pytest.fixture
def turnout_home(cli: Cli) -> Path:
    """That one's TURNOUT_HOME, which does not exist yet."""
    return cli.home


@pytest.fixture
def cli_json(cli: Cli) -> Callable[..., Any]:
    """``cli_json("show", "run1")``: what the command answers under ``--json``."""
    return cli.json


@pytest.fixture(name="wait_until")
def _wait_until() -> Callable[..., Any]:
    """``wait_until(predicate, timeout)``: the way to wait for something, instead of sleeping."""
    return wait_until


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A directory of a user without privileges, who we are meanwhile: root could read everything."""
    folder = Path(tempfile.mkdtemp())
    is_root = os.geteuid() == 0
    if is_root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    yield folder
    if is_root:
        os.seteuid(0)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, one per test process; `store_url` makes fresh databases in it."""
    binaries = postgres_binaries()
    if binaries is None and os.environ.get("CI"):
        pytest.fail("PostgreSQL 15 is missing: scripts/test-deps postgres")
    if binaries is None:
        pytest.skip("PostgreSQL 15 is not installed (apt install postgresql-15)")
    with running_server(binaries) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh, empty database: each test that asks runs once on SQLite and once on PostgreSQL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    with fresh_database(request.getfixturevalue("postgres_url"), f"t{uuid.uuid4().hex}") as url:
        yield url
