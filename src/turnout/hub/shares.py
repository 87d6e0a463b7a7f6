"""The routes of named shares, and what changes them: uploads that are merged in, one whole manifest after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.concurrency import run_in_threadpool

from turnout.errors import Conflict, InvalidInput, NotFound, Unavailable
from turnout.hub.blobs import Blobs
from turnout.hub.reading import Key
from turnout.hub.snapshots import Snapshots
from turnout.model.ids import check_label
from turnout.store import shares
from turnout.store.reads import moment
from turnout.store.requests import once
from turnout.store.shares import Share
from turnout.store.store import Store
from turnout.store.writer import Tx
from turnout.wire import manifest
from turnout.wire.manifest import BadManifest, Entry, is_digest

_TRIES = 20


class Upload(BaseModel):
    """`manifest` names files that are here; they come into the share under their paths."""

    model_config = ConfigDict(extra="forbid")
    manifest: str


class Binding(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str = ""


def make_router(store: Store, blobs: Blobs) -> APIRouter:
    """All routes below ``/shares``."""
    router = APIRouter(prefix="/shares")
    shelf = Shares(store, blobs)

    @router.get("")
    async def list_shares() -> list[dict[str, Any]]:
        return [_view(share) for share in await run_in_threadpool(shelf.all)]

    @router.get("/{name}")
    async def show_share(name: str) -> dict[str, Any]:
        return _view(await run_in_threadpool(shelf.find, name))

    @router.post("/{name}")
    async def add_to_share(name: str, upload: Upload) -> dict[str, Any]:
        check_label(name, "share")
        if not is_digest(upload.manifest):
            raise InvalidInput("not a manifest's digest")
        return _view(await run_in_threadpool(shelf.add, name, upload.manifest))

    @router.post("/{name}/bind")
    async def bind_share(name: str, binding: Binding) -> dict[str, Any]:
        return await run_in_threadpool(shelf.bind, name, binding.path)

    @router.delete("/{name}")
    async def delete_share(name: str, idempotency_key: Key = None) -> dict[str, Any]:
        def work(tx: Tx) -> dict[str, Any]:
            return once(tx, idempotency_key, f"delete share {name}", lambda: _delete(tx, name))

        return await asyncio.wrap_future(store.submit(work))

    return router


class Shares:
    """Every method may be called from any thread."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs
        self._snapshots = Snapshots(blobs)

    def all(self) -> list[Share]:
        with self._store.read() as connection:
            return shares.list_shares(connection)

    def find(self, name: str) -> Share:
        with self._store.read() as connection:
            share = shares.find_share(connection, name)
        if share is None:
            raise _no_share(name, [each.name for each in self.all()])
        return share

    def add(self, name: str, upload: str) -> Share:
        """The share with the files of the manifest `upload` over those it had; made if there was none. It is the old
        one until it is the new one, whatever happens in between."""
        if self._snapshots.absent([upload]):
            raise Conflict("what was uploaded is not all here", hint="upload it again: only what is missing is sent")
        new = self._snapshots.entries(upload)
        for _ in range(_TRIES):
            with self._store.read() as connection:
                old = shares.find_share(connection, name)
            merged = _merge(self._snapshots.entries(old.manifest) if old is not None else [], new, name)
            digest = self._keep(merged)
            size = sum(entry.size for entry in merged)
            before = old.manifest if old is not None else None

            def work(tx: Tx) -> bool:
                return shares.set_share(tx, name, digest, files=len(merged), size=size, instead_of=before)  # noqa: B023

            if self._store.write(work):
                return self.find(name)
        raise Unavailable(f"share {name!r} changes all the time", hint="try again")

    def bind(self, name: str, path: str) -> dict[str, Any]:
        """What `path` in the share is now: a manifest of its own, which stays what it is."""
        share = self.find(name)
        if not path:
            return {"share": name, "path": "", "manifest": share.manifest, "files": share.files, "bytes": share.bytes}
        entries = _below(self._snapshots.entries(share.manifest), path)
        if not entries:
            hint = f"`turnout list shares {name}` shows what is in it"
            raise NotFound(f"no {path!r} in share {name!r}", hint=hint)
        size = sum(entry.size for entry in entries)
        return {"share": name, "path": path, "manifest": self._keep(entries), "files": len(entries), "bytes": size}

    def _keep(self, entries: Sequence[Entry]) -> str:
        """The digest of their manifest, which is here now, as all it names is for a day at least."""
        listing = manifest.encode(entries)
        digest = manifest.digest_of(listing)
        if self._blobs.missing([digest]):
            self._blobs.put_many([(digest, listing)])
        if self._snapshots.absent([digest]):
            raise Unavailable("a file of the share is not here any more", hint="see `turnout doctor`")
        return digest


def _delete(tx: Tx, name: str) -> dict[str, Any]:
    share = shares.find_share(tx.connection, name)
    if share is None:
        raise _no_share(name, [each.name for each in shares.list_shares(tx.connection)])
    shares.delete_share(tx, name)
    return _view(share)


def _merge(old: list[Entry], new: list[Entry], name: str) -> list[Entry]:
    merged = {entry.path: entry for entry in (*old, *new)}
    try:
        manifest.check(list(merged.values()))
    except BadManifest as error:
        hint = "upload it under another --path, or delete the share and upload it anew"
        raise InvalidInput(f"this does not fit into share {name!r}: {error}", hint=hint) from error
    return list(merged.values())


def _below(entries: list[Entry], path: str) -> list[Entry]:
    """What lies below the directory `path`, or the one file of that name. InvalidInput for a link that leads out."""
    path = path.strip("/")
    inside = [
        entry._replace(path=entry.path[len(path) + 1 :]) for entry in entries if entry.path.startswith(path + "/")
    ]
    found = inside or [entry._replace(path=path.rpartition("/")[2]) for entry in entries if entry.path == path]
    try:
        manifest.check(found)
    except BadManifest as error:
        hint = "take the directory above it, or the whole share"
        raise InvalidInput(f"{path!r} of the share cannot stand alone: {error}", hint=hint) from error
    return found


def _view(share: Share) -> dict[str, Any]:
    return {
        "name": share.name, "files": share.files, "bytes": share.bytes, "manifest": share.manifest,
        "created": moment(share.created), "updated": moment(share.updated),
    }  # fmt: skip


def _no_share(name: str, known: list[str]) -> NotFound:
    hint = f"shares: {', '.join(known[:20])}" if known else f"`turnout upload PATH --share {name}` makes it"
    return NotFound(f"no share {name!r}", hint=hint)
