"""What agents found on their nodes when they began."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from turnout.store import schema


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSize:
    """`memory` in bytes; None where an agent did not tell."""

    node: str
    cpus: int
    memory: int | None
    gpus: int | None
    gpu_memory: tuple[int, ...] = ()
    """what each GPU has, 0 where nobody knows"""


def node_sizes(connection: sa.Connection, agents: Collection[int]) -> dict[int, NodeSize]:
    """By agent; those that were never heard are left out."""
    table = schema.agents
    select = sa.select(table.c.id, table.c.node, table.c.facts).where(
        table.c.id.in_(agents), table.c.facts.is_not(None)
    )
    return {row.id: _size(row.node, row.facts) for row in connection.execute(select)}


def last_node_size(connection: sa.Connection, target: str) -> NodeSize | None:
    """The node of the last agent there was on a target, which may be gone."""
    table = schema.agents
    wanted = sa.select(table.c.node, table.c.facts).where(table.c.target == target, table.c.facts.is_not(None))
    row = connection.execute(wanted.order_by(table.c.id.desc()).limit(1)).first()
    return _size(row.node, row.facts) if row is not None else None


def _size(node: str, facts: str) -> NodeSize:
    told = json.loads(facts)
    gpus = told.get("gpus")
    return NodeSize(
        node=node, cpus=told.get("cpus") or 1, memory=told.get("memory"), gpus=None if gpus is None else len(gpus),
        gpu_memory=tuple(each["memory"] for each in told.get("gpu_facts", ())),
    )  # fmt: skip
