"""Nothing of a run can be left out of an archive, or behind by a deletion, because a table is new."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.storing import Lab, captured, ended, framed, logged, output, running, spool, staged
from tests.integration.storing import lab as lab
from turnout.blobs import BlobStore
from turnout.engine.desk import Desk
from turnout.errors import Conflict
from turnout.hub import archives
from turnout.hub.snapshots import Snapshots
from turnout.model.search import Search
from turnout.plugin.space import Range
from turnout.search.spaces import to_plain
from turnout.store import deletion, schema
from turnout.store.archived import STAYS, TABLES


def test_every_table_is_archived_or_stays() -> None:
    archived = {each.table.name for each in TABLES} | {"output"}
    assert archived | STAYS == set(schema.metadata.tables)
    assert not archived & STAYS


def test_every_table_with_rows_of_runs_is_cleared_by_a_deletion() -> None:
    of_runs = {table.name for table in schema.metadata.tables.values() if "run_id" in table.c}
    assert of_runs == {table.name for table in deletion._OF_RUNS}


_RUN = re.compile(r"run[0-9]+")


def life(lab: Lab) -> None:
    """Jobs with everything that a node can tell of their runs, a search among them."""
    lab.submit(("train",), ("train", "2"), workspace="lab", tags={"k": "v"})
    lab.submit(("other",), workspace="elsewhere")
    lab.submit(("seek",), workspace="lab", search=Search(space=to_plain({"x": Range(0, 1)}), runs=1))
    desk, agent = Desk(lab.store, lambda runs: None), lab.agent()
    desk.tend(3)
    for grant in agent.take():
        told = framed(
            logged(1, loss=0.5),
            logged(2, loss=float("nan")),
            {"p": {"depth": 3, "most": float("inf")}},
            {"g": {"seen": "yes"}},
        )
        agent.tell(staged(grant), running(grant), output(grant, b"\xff\x00 bytes"), spool(grant, told))
        agent.tell(ended(grant), captured(grant, b"\xff\x00 bytes"))
    desk.tend(3)


def rows_of(lab: Lab, workspace: str) -> dict[str, list[tuple[object, ...]]]:
    """Every row of a workspace, but for what differs from one import to the next."""
    found: dict[str, list[tuple[object, ...]]] = {}
    names = {"id", "run_id", "job_id", "number", "agent", "origin", "workspace", "environment", "parent"}
    with lab.store.read() as connection:
        runs = sa.select(schema.runs.c.id).where(schema.runs.c.workspace == workspace)
        jobs = sa.select(schema.jobs.c.id).where(schema.jobs.c.workspace == workspace)
        tables = [(each.table, each.owner, each.is_of_jobs) for each in TABLES]
        for table, owner, is_of_jobs in (*tables, (schema.output, "run_id", False)):
            mine = table.c[owner].in_(jobs if is_of_jobs else runs)
            columns = [column for column in table.c if column.name not in names]
            select = sa.select(*columns).where(mine).order_by(*table.primary_key.columns)
            found[table.name] = [
                tuple(_RUN.sub("run", str(each)) for each in row) for row in connection.execute(select)
            ]
    return found


def test_an_archive_goes_round(lab: Lab, tmp_path: Path) -> None:
    life(lab)
    blobs = BlobStore(tmp_path)
    request = archives.ExportRequest(workspace="lab")
    content = b"".join(archives._write(lab.store, blobs, archives._plan(lab.store, blobs, Snapshots(blobs), request)))
    incoming = archives._Incoming(lab.store, blobs, Snapshots(blobs), "copy", "", False)
    done = incoming.take(io.BytesIO(content))
    assert (done["jobs"], done["runs"]) == (2, 3)
    before = rows_of(lab, "lab")
    assert rows_of(lab, "copy") == before
    assert all(before[name] for name in ("events", "attempts", "output", "metrics", "metric_chunks", "params", "tags"))
    assert before["searches"] and before["proposals"]
    with pytest.raises(Conflict):
        incoming.take(io.BytesIO(content))


def test_a_deletion_leaves_nothing_and_takes_nothing_else(lab: Lab) -> None:
    life(lab)
    kept = rows_of(lab, "elsewhere")
    lab.store.write(lambda tx: deletion.delete(tx, deletion.Wanted(workspace="lab")))
    assert not any(rows_of(lab, "lab").values())
    assert rows_of(lab, "elsewhere") == kept
    with lab.store.read() as connection:
        for table in (each.table for each in TABLES if "run_id" in each.table.c):
            orphans = sa.select(table.c.run_id).where(table.c.run_id.not_in(sa.select(schema.runs.c.id)))
            assert connection.execute(orphans).first() is None, table.name
