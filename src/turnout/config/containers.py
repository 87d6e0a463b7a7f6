"""``docker:`` of a target or a setup: the name of an image, or that and more."""

from __future__ import annotations

from dataclasses import dataclass

from turnout.config.document import Node, Scalar, is_empty
from turnout.config.kinds import ListOf, Optional, Record, key
from turnout.config.setting import Setting, Tree
from turnout.config.values import TEXT, Kind, Report, choice
from turnout.model.container import PULLS


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerSettings:
    """The container that runs are executed in."""

    image: str | None = key(Optional(TEXT), None, "The image, as the node's podman or docker knows it.")
    options: tuple[str, ...] = key(ListOf(TEXT), (), "Further options of its `run`.")
    program: str | None = key(Optional(TEXT), None, "`podman`, `docker`, or a path; empty = the first that works.")
    pull: str = key(choice(*PULLS), "missing", "When the image is fetched from its registry.")
    network: str | None = key(Optional(TEXT), None, "The network it is in, as for `run --network`.")


class Docker(Kind[DockerSettings | None]):
    words = "the name of an image, or names and values"

    def __init__(self) -> None:
        self._record = Record(DockerSettings)

    def read(self, node: Node, path: str, report: Report) -> Tree | Setting | None:
        if is_empty(node):
            return Setting(None, report.origin(node.line))
        if not isinstance(node, Scalar):
            return self._record.read(node, path, report)
        image = TEXT.read(node, path, report)
        return {"image": image} if image is not None else None

    def build(self, found: Tree | Setting) -> DockerSettings | None:
        return None if isinstance(found, Setting) else self._record.build(found)

    def schema(self) -> dict[str, object]:
        return {"anyOf": [TEXT.schema(), self._record.schema()]}


DOCKER = Docker()
