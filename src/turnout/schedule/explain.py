"""Why a run waits, or ended as it did, in one or a few sentences a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ENDED = {
    "exit_code": "its command ended with exit code {exit_code}",
    "signal": "its command was killed by signal {signal}",
    "timeout": "it ran longer than its time limit and was ended",
    "oom": "it used more memory than it may and was killed",
    "node_lost": "its node was lost, and no further attempt was left",
    "infra": "the machinery around it failed ({message}), and no further attempt was left",
    "user": "a person cancelled it",
    "pruned": "a stopper ended it early",
    "dependency": "something it depends on did not complete",
    "rejected": "the target refused it",
    "no_capacity": "the target can never give what it asks for",
    "budget": "the budget was used up",
    "preempted": "its node was taken away, and no further attempt was left",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The run as it is shown, its attempts, and how many runs wait before it (None: it does not wait)."""

    run: Mapping[str, Any]
    attempts: list[dict[str, Any]]
    ahead: int | None


def explain(situation: Situation, place: Mapping[str, Any], trouble: str) -> list[str]:
    """`place` tells about the target (agents, free slots); `trouble` is why no agent could be started there, if so."""
    run = situation.run
    state = run["state"]
    if state in ("completed", "failed", "cancelled", "stopped"):
        return [*_end(run), *_earlier(situation)]
    if state == "queued":
        return [*_waiting(situation, place, trouble), *_earlier(situation)]
    if state == "running" and run["children"] and run["remaining"]:
        return [f"{run['remaining']} of its children are still to be made, as nodes get free."]
    verb = {"starting": "prepares its directory", "running": "executes", "finishing": "keeps what it left behind"}
    return [f"It {verb.get(state, 'waits')} on {run['node'] or 'no node yet'}, attempt {run['attempts']}."]


def _end(run: Mapping[str, Any]) -> list[str]:
    if run["state"] == "completed":
        return ["It completed."]
    text = _ENDED.get(run["reason"] or "", "no reason was recorded").format(
        exit_code=run["exit_code"], signal=run["signal"], message=run["message"]
    )
    lines = [f"It {run['state']}: {text}."]
    if run["message"] and run["reason"] not in ("infra", "node_lost"):
        lines.append(run["message"])
    if run["reason"] in ("exit_code", "signal", "oom", "timeout"):
        lines.append(f"`turnout logs {run['name']}` shows what it printed.")
    return lines


def _waiting(situation: Situation, place: Mapping[str, Any], trouble: str) -> list[str]:
    target = situation.run["target"]
    if not place:
        return [f"There is no target {target!r} on this hub."]
    if trouble:
        return [f"No agent could be started on {target}: {trouble}. It is tried again by itself."]
    if not place.get("agents"):
        return [f"An agent is being started on {target}."]
    if situation.ahead:
        return [f"{situation.ahead} runs wait before it on {target}, which runs {place.get('max_runs')} at once."]
    return [
        f"It is next on {target}: it waits for a free slot ({place.get('free', 0):g} of {place.get('max_runs')} free)."
    ]


def _earlier(situation: Situation) -> list[str]:
    lines = []
    for attempt in situation.attempts[: -1 if situation.run["state"] != "queued" else None]:
        detail = attempt["message"] or (f"exit code {attempt['exit_code']}" if attempt["exit_code"] is not None else "")
        end = f"{attempt['cause']}, {detail}" if detail else attempt["cause"]
        lines.append(f"Attempt {attempt['attempt']} on {attempt['node']} ended: {end}.")
    return lines
