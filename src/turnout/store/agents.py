"""Agents: what was launched where, by which token it is known, and whether it is still wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

import sqlalchemy as sa

from turnout.model.spec import Resources
from turnout.store import schema
from turnout.store.parts import in_parts
from turnout.store.writer import Tx


class AgentState(StrEnum):
    LAUNCHING = "launching"  # asked for, not heard of yet
    UP = "up"
    GONE = "gone"  # given up, left, or superseded: its token opens nothing any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """How its provider last saw an agent's launch. `phase`: pending, active, gone or unknown; `detail` is for people,
    `native` the site's own word for its state, `id` what people there call it, `url` where they look at it."""

    phase: str
    detail: str = ""
    reason: str = ""
    exit_code: int | None = None
    native: str = ""
    id: str = ""
    url: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    id: int
    target: str
    node: str
    directory: str
    launch_token: str
    handle: str | None
    state: AgentState
    created: float
    cpus: int | None = None
    """what the agent said of its node when it began"""
    queue: str = ""
    """whose runs it takes; that of its target unless it is a job's own"""
    kept: bool = False
    """it stays until it is released"""
    number: int = 0
    """tells it from the others of its place"""
    seat: str = ""
    """the machine of its provider's that it is for"""
    need: Resources = field(default_factory=Resources)
    """what it was to be given"""
    observed: Observed | None = None


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def insert_agent(
    tx: Tx, *, target: str, node: str, directory: str, launch_token: str, token_hash: str, queue: str | None = None,
    number: int = 0, seat: str = "", need: Resources | None = None,
) -> int:  # fmt: skip
    """The intent, written before anything is started."""
    table = schema.agents
    values = {
        "target": target, "node": node, "directory": directory, "launch_token": launch_token, "token_hash": token_hash,
        "state": str(AgentState.LAUNCHING), "created": tx.now, "queue": queue or target, "number": number, "seat": seat,
        "need": json.dumps(asdict(need or Resources())),
    }  # fmt: skip
    return int(tx.connection.execute(table.insert().values(values).returning(table.c.id)).scalar_one())


def set_kept(tx: Tx, agent: int, kept: bool) -> None:
    """Whether it stays, with what ran there, until it is released."""
    tx.connection.execute(schema.agents.update().where(schema.agents.c.id == agent).values(kept=int(kept)))


def set_handle(tx: Tx, agent: int, handle: str) -> None:
    tx.connection.execute(schema.agents.update().where(schema.agents.c.id == agent).values(handle=handle))


def set_observed(tx: Tx, observed: Mapping[int, Observed]) -> None:
    """How these agents' launches are seen now."""
    for agent, seen in observed.items():
        values = {"observed": json.dumps(asdict(seen))}
        tx.connection.execute(schema.agents.update().where(schema.agents.c.id == agent).values(values))


def set_token(tx: Tx, agent: int, token_hash: str) -> None:
    """A new token for the next process of the same agent; the old one is worth nothing from now on."""
    tx.connection.execute(schema.agents.update().where(schema.agents.c.id == agent).values(token_hash=token_hash))


def set_up(tx: Tx, agent: int, facts: str) -> bool:
    """The agent began; False, and nothing, when it was given up before."""
    table = schema.agents
    living = (table.c.id == agent, table.c.state != str(AgentState.GONE))
    values = {"state": str(AgentState.UP), "facts": facts}
    return bool(tx.connection.execute(table.update().where(*living).values(values)).rowcount)


def is_gone(tx: Tx, agent: int) -> bool:
    """Whether the agent was given up; if not, nobody can do so before this transaction ends."""
    table = schema.agents
    select = sa.select(table.c.state).where(table.c.id == agent).with_for_update(read=True)
    return tx.connection.execute(select).scalar() in (None, str(AgentState.GONE))


def set_gone(tx: Tx, agent: int) -> None:
    tx.connection.execute(
        schema.agents.update().where(schema.agents.c.id == agent).values(state=str(AgentState.GONE), ended=tx.now)
    )


def live_agents(connection: sa.Connection) -> list[Agent]:
    table = schema.agents
    return [_to_agent(row) for row in connection.execute(sa.select(table).where(table.c.state != str(AgentState.GONE)))]


def launches_of(connection: sa.Connection, queues: Collection[str]) -> dict[str, Agent]:
    """The newest agent that was started for each of these queues; those for which none ever was are left out."""
    table, found = schema.agents, {}
    for part in in_parts(sorted(queues)):
        for row in connection.execute(sa.select(table).where(table.c.queue.in_(part)).order_by(table.c.id)):
            found[row.queue] = _to_agent(row)
    return found


def newest_on_seats(connection: sa.Connection, queues: Collection[str], *, since: float) -> dict[str, int]:
    """By seat, the newest agent of these queues that said what its machine has, if it was there after `since`."""
    table = schema.agents
    found: dict[str, int] = {}
    told = (table.c.seat != "", table.c.facts.is_not(None), sa.or_(table.c.ended.is_(None), table.c.ended > since))
    for part in in_parts(sorted(queues)):
        select = sa.select(table.c.seat, sa.func.max(table.c.id)).where(table.c.queue.in_(part), *told)
        for seat, agent in connection.execute(select.group_by(table.c.seat)):
            found[seat] = max(agent, found.get(seat, 0))
    return found


def find_by_token(connection: sa.Connection, token: str) -> Agent | None:
    """The agent that has this token and is not gone."""
    table = schema.agents
    where = (table.c.token_hash == hash_token(token), table.c.state != str(AgentState.GONE))
    row = connection.execute(sa.select(table).where(*where)).first()
    return _to_agent(row) if row is not None else None


def _to_agent(row: sa.Row[tuple[object, ...]]) -> Agent:
    values = row._mapping
    facts = json.loads(values["facts"] or "{}")
    return Agent(
        id=values["id"], target=values["target"], node=values["node"], directory=values["directory"],
        launch_token=values["launch_token"], handle=values["handle"], state=AgentState(values["state"]),
        created=values["created"], cpus=facts.get("cpus"), queue=values["queue"] or values["target"],
        kept=bool(values["kept"]), number=values["number"], seat=values["seat"],
        need=Resources(**json.loads(values["need"])),
        observed=Observed(**json.loads(values["observed"])) if values["observed"] else None,
    )  # fmt: skip


def boot_of(tx: Tx, agent: int) -> str | None:
    """The boot its machine was in when the agent last began."""
    table = schema.agents
    facts = tx.connection.execute(sa.select(table.c.facts).where(table.c.id == agent)).scalar()
    return json.loads(facts).get("boot_id") if facts else None
