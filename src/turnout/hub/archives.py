"""A workspace out of the hub and into it, as one stream; see `turnout.wire.archive` for what it looks like."""

from __future__ import annotations

import logging
import tempfile
import time
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from turnout._version import __version__
from turnout.blobs.base import Blobs
from turnout.errors import Conflict, Internal, InvalidInput, TurnoutError, Unavailable
from turnout.hub.reading import Key, Streamed
from turnout.hub.snapshots import Snapshots
from turnout.hub.staging import Staged
from turnout.store import exporting, importing
from turnout.store.archived import TABLES
from turnout.store.examining import Contents, examine
from turnout.store.exporting import Choice, Chosen
from turnout.store.reads import moment
from turnout.store.requests import USER, find_answer, once
from turnout.store.store import Store
from turnout.store.writer import Tx
from turnout.wire.archive import BadArchive, Writer

_log = logging.getLogger(__name__)
_PIECE = 1 << 20


class ExportRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    workspace: str
    experiment: str | None = None
    jobs: list[str] = Field(default_factory=list, max_length=100_000)
    finished: bool = False
    files: bool = True


@dataclass(frozen=True, slots=True)
class _Plan:
    """What goes out: rows by table, blobs with their sizes, and about how many bytes all of that is."""

    choice: Choice
    chosen: Chosen
    counts: dict[str, int]
    blobs: dict[str, int] = field(default_factory=dict)
    files: bool = True

    @property
    def about_bytes(self) -> int:
        return sum(self.blobs.values()) + 1024 * len(self.blobs) + 40 * sum(self.counts.values())


def make_router(store: Store, blobs: Blobs, directory: Path) -> APIRouter:
    """``/export`` and ``/import``; archives that come in are kept in `directory` until they are checked."""
    router = APIRouter()
    snapshots = Snapshots(blobs)

    @router.post("/export")
    async def export(wanted: ExportRequest) -> Streamed:
        """All that is wrong beforehand is told as an error; what goes wrong later ends the archive with one."""
        plan = await run_in_threadpool(_plan, store, blobs, snapshots, wanted)
        headers = {"turnout-about-bytes": str(plan.about_bytes)}
        return Streamed(_write(store, blobs, plan), "application/x-tar", headers)

    @router.put("/import")
    async def import_(
        request: Request,
        workspace: Annotated[str | None, Query(alias="as")] = None,
        prefix: str = "",
        again: bool = False,
        idempotency_key: Key = None,
    ) -> dict[str, Any]:
        """All of the archive, or nothing. Returning means that it is on the hub's disk."""
        incoming = _Incoming(store, blobs, snapshots, workspace, prefix, again, idempotency_key)
        with _disk(), tempfile.TemporaryFile(dir=directory) as spool:
            async for piece in request.stream():
                await run_in_threadpool(spool.write, piece)
            spool.seek(0)
            return await run_in_threadpool(incoming.take, cast(BinaryIO, spool))

    return router


@contextmanager
def _disk() -> Iterator[None]:
    """What the disk says while an archive comes in is told as such."""
    try:
        yield
    except OSError as error:
        hint = "nothing was imported; free some space where turnout keeps its state, and try again"
        raise Unavailable(f"the disk cannot take the archive: {error.strerror or error}", hint=hint) from error


def _plan(store: Store, blobs: Blobs, snapshots: Snapshots, wanted: ExportRequest) -> _Plan:
    choice = Choice(
        workspace=wanted.workspace, experiment=wanted.experiment, jobs=tuple(wanted.jobs), finished=wanted.finished
    )
    with store.read() as connection:
        chosen = exporting.choose(connection, choice)
        if not chosen.jobs:
            raise Conflict("no job of it is over yet", hint="`turnout status` shows what is going on")
        counts = exporting.count(connection, chosen)
        manifests = exporting.manifests(connection, chosen) if wanted.files else {}
    needed: dict[str, str] = {}
    for manifest, owner in manifests.items():
        try:
            needed.update(dict.fromkeys((entry.digest for entry in snapshots.entries(manifest) if entry.digest), owner))
        except TurnoutError as error:
            raise _lacking(owner) from error
    needed |= manifests
    for digest in blobs.missing(needed):
        raise _lacking(needed[digest])
    return _Plan(choice, chosen, counts, {digest: blobs.size(digest) for digest in needed}, wanted.files)


def _lacking(owner: str) -> TurnoutError:
    hint = "`turnout doctor --deep` tells which; --no-files exports without any files"
    return Conflict(f"files of {owner} are lost or damaged", hint=hint)


def _changed() -> TurnoutError:
    return Conflict("it was changed while it was exported", hint="try again")


def _write(store: Store, blobs: Blobs, plan: _Plan) -> Generator[bytes, None, None]:
    """The archive, in pieces of about a megabyte: a generator for a thread, which frees what it holds when closed."""
    waiting: list[bytes] = []
    size = 0
    for piece in _parts(store, blobs, plan):
        waiting.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _parts(store: Store, blobs: Blobs, plan: _Plan) -> Iterator[bytes]:
    now = time.time()
    writer = Writer(int(now))
    try:
        yield from writer.head(_head(plan, now))
        for each in TABLES:
            parts = exporting.lines(store.read, plan.chosen, each, files=plan.files)
            for number, lines in enumerate(parts, 1):
                yield from writer.rows(each.table.name, number, lines)
            if writer.counts.get(f"rows.{each.table.name}", 0) != plan.counts[each.table.name]:
                raise _changed()
        for printed, pieces in exporting.output(store.read, plan.chosen):
            yield from writer.output(plan.chosen.runs[printed.run], printed.attempt, printed.size, pieces)
        for digest, length in plan.blobs.items():
            yield from writer.blob(digest, length, _blob(blobs, digest, length))
        with store.read() as connection:
            if exporting.count(connection, plan.chosen) != plan.counts:  # output that was deleted is not missed above
                raise _changed()
        yield from writer.end()
    except TurnoutError as error:
        yield from writer.fail(error.as_dict())
    except Exception as error:  # the answer is under way: all that can still be said is said in the archive
        _log.exception("an export failed")
        yield from writer.fail(Internal(f"{type(error).__name__} in the hub", hint="see `turnout hub logs`").as_dict())


def _head(plan: _Plan, now: float) -> dict[str, Any]:
    choice, chosen = plan.choice, plan.chosen
    return {
        "id": uuid.uuid4().hex, "turnout": __version__, "created": moment(now), "workspace": choice.workspace,
        "experiment": choice.experiment, "jobs": len(chosen.jobs), "runs": chosen.count, "files": plan.files,
    }  # fmt: skip


def _blob(blobs: Blobs, digest: str, length: int) -> Iterator[bytes]:
    if length <= _PIECE:
        yield blobs.read(digest)
        return
    with blobs.open(digest) as file:
        yield from iter(lambda: file.read(_PIECE), b"")


@dataclass(frozen=True, slots=True)
class _Incoming:
    store: Store
    blobs: Blobs
    snapshots: Snapshots
    workspace: str | None
    prefix: str
    again: bool
    key: str | None = None

    def take(self, file: BinaryIO) -> dict[str, Any]:
        """Checks everything, keeps the blobs, and then, in one transaction, the rows. Before that nobody sees any of
        it: blobs that nothing refers to are swept away one day."""
        try:
            staged = Staged(file)
            wish = importing.Wish(archive=staged.id, workspace=self.workspace or staged.workspace, prefix=self.prefix)
            importing.check_wish(wish)
            earlier = self.store.write(lambda tx: self._earlier(tx, wish))
            if earlier is not None:
                return earlier
            staged.read(self.blobs)
            contents = examine(staged)
            self._check_files(contents.manifests)
            return self.store.write(lambda tx: self._insert(tx, staged, contents, wish))
        except BadArchive as error:
            raise InvalidInput(f"it cannot be imported: {error}", hint=f"nothing was imported; {error.hint}") from error

    def _insert(self, tx: Tx, staged: Staged, contents: Contents, wish: importing.Wish) -> dict[str, Any]:
        """Unless somebody else has done it meanwhile."""
        earlier = self._earlier(tx, wish)
        if earlier is not None:
            return earlier
        done = importing.insert(tx, staged, contents, wish, staged.counts)
        answer = {"archive": wish.archive, "imported": True, **asdict(done), "counts": staged.counts}
        return once(tx, self.key, _asked(wish), lambda: answer)

    def _check_files(self, manifests: set[str]) -> None:
        """All in one question: from then on all of them are safe for a day."""
        absent = self.blobs.missing(manifests)
        named = {entry.digest for digest in manifests.difference(absent) for entry in self.snapshots.entries(digest)}
        if absent or self.blobs.missing(named - {""}):
            hint = "nothing was imported; export it again"
            raise InvalidInput("the archive cannot be imported: files of its snapshots are not in it", hint=hint)

    def _earlier(self, tx: Tx, wish: importing.Wish) -> dict[str, Any] | None:
        """The answer, if there is nothing to do any more: this request was answered before, or the archive is here."""
        if self.key is not None and find_answer(tx, USER, self.key) is not None:
            return once(tx, self.key, _asked(wish), dict)
        if not self.again:
            importing.refuse_earlier(tx.connection, wish)
        earlier = importing.find_earlier(tx.connection, wish)
        return None if earlier is None else {"archive": wish.archive, "imported": False, **asdict(earlier)}


def _asked(wish: importing.Wish) -> str:
    return f"import {wish.archive} as {wish.workspace} with {wish.prefix}"
