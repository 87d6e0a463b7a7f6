"""Why a run waits, or ended as it did, in one or a few sentences a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnout.model.spec import Resources

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
_DOES = {"starting": "prepares its directory", "running": "executes", "finishing": "keeps what it left behind"}
_BECAME = {"failed": "failed", "cancelled": "was cancelled", "stopped": "was stopped"}
_OVER = frozenset({"completed", "failed", "cancelled", "stopped"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The run as it is shown, its attempts, how many runs wait before it (None: it does not wait), what it asks for."""

    run: Mapping[str, Any]
    attempts: list[dict[str, Any]]
    ahead: int | None
    need: Resources = field(default_factory=Resources)


def explain(situation: Situation, place: Mapping[str, Any], trouble: str) -> list[str]:
    """`place` tells about the target: ``agents``, ``max_runs``, ``free`` slots; if known, ``memory`` and ``gpus`` of a
    node and the ``silent`` nodes. `trouble` is why no agent could be started there, if so."""
    run = situation.run
    state = run["state"]
    if state in _OVER:
        return [*_end(run), *_earlier(situation)]
    if state == "queued":
        return [*_waiting(situation, place, trouble), *_earlier(situation)]
    if state == "running" and not run["attempts"]:
        return [_family(run)]
    lines = [f"It {_DOES.get(state, 'waits')} on {run['node'] or 'no node yet'}, attempt {run['attempts']}."]
    if run["node"] is not None and run["node"] in place.get("silent", ()):
        lines.append(
            "That node has fallen silent. If it stays so, the run is given up there and tried again if it may be."
        )
    return [*lines, *_earlier(situation)]


def _family(run: Mapping[str, Any]) -> str:
    if run["remaining"]:
        return f"{run['remaining']} of its children are still to be made, as nodes get free."
    return f"All its children are made, and it ends with the last of them; `turnout show {run['name']}` lists them."


def _end(run: Mapping[str, Any]) -> list[str]:
    if run["state"] == "completed":
        return ["It completed."]
    if run["children"] and run["state"] == "failed":
        return [f"It failed: {run['message']}.", f"`turnout show {run['name']}` lists them."]
    text = _ENDED.get(run["reason"] or "", "no reason was recorded").format(
        exit_code=run["exit_code"], signal=run["signal"], message=run["message"] or "it is not known how"
    )
    lines = [f"It {_BECAME[run['state']]}: {text}."]
    if run["message"] and run["reason"] not in ("infra", "node_lost"):
        lines.append(run["message"])
    if run["reason"] in ("exit_code", "signal", "oom", "timeout"):
        lines.append(f"`turnout logs {run['name']}` shows what it printed.")
    return lines


def _waiting(situation: Situation, place: Mapping[str, Any], trouble: str) -> list[str]:
    target = situation.run["target"]
    if not place:
        return [f"There is no target {target!r} on this hub."]
    never = _too_much(situation.need, place)
    if never:
        return [
            f"It can never start on {target}: it asks for {never}. Cancel it and submit it with less, or elsewhere."
        ]
    if trouble:
        return [f"No agent could be started on {target}: {trouble}. It is tried again by itself."]
    if not place.get("agents"):
        return [f"An agent is being started on {target}."]
    if situation.ahead:
        runs = "1 run waits" if situation.ahead == 1 else f"{situation.ahead} runs wait"
        return [f"{runs} before it on {target}, which runs {place.get('max_runs')} at once."]
    return [
        f"It is next on {target}: it waits for a free slot ({place.get('free', 0):g} of {place.get('max_runs')} free)."
    ]


def _too_much(need: Resources, place: Mapping[str, Any]) -> str:
    """What it asks for and no node there has; empty when that is nothing, or not known."""
    asked = {
        "cpus": (need.cpus, place.get("max_runs"), "runs {} at once"),
        "bytes of memory": (need.memory, place.get("memory"), "has {}"),
        "gpus": (need.gpus, place.get("gpus"), "has {}"),
    }
    return ", ".join(
        f"{wanted} {what} where a node {has.format(there)}"
        for what, (wanted, there, has) in asked.items()
        if wanted is not None and there is not None and wanted > there
    )


def _earlier(situation: Situation) -> list[str]:
    """What became of the attempts before the current one."""
    over = situation.attempts if situation.run["state"] == "queued" else situation.attempts[:-1]
    return [_attempt(attempt) for attempt in over]


def _attempt(attempt: Mapping[str, Any]) -> str:
    where = f"Attempt {attempt['attempt']} on {attempt['node']}"
    if attempt["cause"] is None:
        return f"{where} was given back before it began."
    detail = attempt["message"] or (f"exit code {attempt['exit_code']}" if attempt["exit_code"] is not None else "")
    return f"{where} ended: {attempt['cause']}{', ' + detail if detail else ''}."
