"""The container that runs are executed in."""

from __future__ import annotations

from dataclasses import dataclass

PULLS = ("never", "missing", "always")


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """`image` as the node's podman or docker knows it; `program` is which of them, None = the first that works there.
    `pull`: never | missing | always. `network` and `options` are handed to its ``run`` as they are."""

    image: str
    options: tuple[str, ...] = ()
    program: str | None = None
    pull: str = "missing"
    network: str | None = None
