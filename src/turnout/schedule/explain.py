"""Why a run waits, or ended as it did, in one or a few sentences a person can act on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from turnout.model.measures import span, write_size
from turnout.model.spec import Resources
from turnout.schedule.seeking import explain_search
from turnout.wire.gpus import GpuRoom

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
    "no_output": "its command ended well, but {message}",
    "unmade": "it could not be made of what was left before it",
    "preempted": "its node was taken away, and no further attempt was left",
}
_FELL = "another run of its pipeline failed, and the first failure ends all of that (--fail-fast)"
_DOES = {"starting": "prepares its directory", "running": "executes", "finishing": "keeps what it left behind"}
_BECAME = {"failed": "failed", "cancelled": "was cancelled", "stopped": "was stopped"}
#: Messages of nodes that tell no more than the reason does.
_SAID = re.compile(r"exit code \d+|killed by \w+|time limit reached|out of memory|cancelled|stopped|preempted")
_SHOWN = 3
_AGAIN = "`turnout rerun {name}` runs it once more."
_AGAIN_WITH = "`turnout resume {pipeline}` does it once more, and what waits for it."
_OVER = frozenset({"completed", "failed", "cancelled", "stopped"})


class Awaited(NamedTuple):
    """A run that another waits for, or a step whose runs are not made yet (`name` is empty then)."""

    name: str
    step: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """The run as it is shown, its attempts, how many runs wait before it (None: it does not wait), what it asks for,
    how many runs of its job may be at once on one node (None: any number), the setup that is being made for it, if one
    is, and the directory that is kept with its node until that is released. Of a parent whose children a sampler
    proposes, the `search` as it is shown. One of a `pipeline` (the name of its job) `awaits` others, or `fell`
    with the first failure of any."""

    run: Mapping[str, Any]
    attempts: list[dict[str, Any]]
    ahead: int | None
    need: Resources = field(default_factory=Resources)
    concurrent: int | None = None
    setup: str = ""
    kept: str = ""
    search: Mapping[str, Any] | None = None
    pipeline: str = ""
    awaits: Sequence[Awaited] = ()
    fell: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node as it is now; `memory` and `gpus` are all it has, None where nobody knows. One that is not `is_up` was
    there before, and tells how large the next is likely to be; one that `is_preparing` runs its target's prolog.
    `gpu_memory` is what each GPU has, 0 where nobody knows; `gpu_rooms` what each has left. `seconds`: how long
    a run that begins there now may take, None = any time. `siblings` are the runs of the run's own job there."""

    name: str
    max_runs: int
    memory: int | None = None
    gpus: int | None = None
    free_slots: float = 0.0
    free_memory: int = 0
    gpu_memory: Sequence[int] = ()
    gpu_rooms: Sequence[GpuRoom] = ()
    seconds: float | None = None
    siblings: int = 0
    is_up: bool = True
    is_silent: bool = False
    is_preparing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """A node that was asked for. `id` is what people at the site call it, `detail` why the site lets it wait, `since`
    how many seconds ago it was asked for; `has_begun`: the site gave it, and it is not heard yet."""

    node: str
    id: str = ""
    detail: str = ""
    url: str = ""
    since: float = 0.0
    has_begun: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A target: its nodes, those that are on their way, and why no agent could be started there, if so. One that
    `is_elastic` gives nodes as large as they are asked for; `most` at once, and with `max_runs` slots each, if that was
    said. `restraint`: why it is not asked for more now."""

    nodes: Sequence[Node] = ()
    trouble: str = ""
    coming: Sequence[Coming] = ()
    is_elastic: bool = False
    most: int | None = None
    max_runs: int | None = None
    restraint: str = ""

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes if node.is_up]


def _awaiting(awaits: Sequence[Awaited]) -> list[str]:
    """Those that are under way are told first: the others wait for them, or with it."""
    order = ("finishing", "running", "starting", "queued", "created")
    told = sorted(awaits, key=lambda each: order.index(each.state) if each.state in order else len(order))
    shown = ", ".join(
        f"{each.name} ({each.step}), which is {each.state}" if each.name else f"{each.step}, which has not begun"
        for each in told[:_SHOWN]
    )
    more = f", and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return [f"It waits for {shown}{more}."]


def explain(situation: Situation, place: Place | None) -> list[str]:
    """`place` is the run's target; None when there is no such target any more."""
    run = situation.run
    state = run["state"]
    searched = explain_search(situation.search) if situation.search is not None else []
    if state in _OVER:
        return [*_end(situation), *searched, *_earlier(situation), *_kept(situation)]
    if state == "created" and situation.awaits:
        return _awaiting(situation.awaits)
    if state == "created" and situation.pipeline:
        return ["All that it waited for is over, and it is about to be looked at."]
    if state == "created":
        return [f"It is held. `turnout release {run['name']}` lets it into the queue."]
    if situation.search is not None and situation.search["state"] == "paused":
        return searched
    if state == "queued":
        return [*_waiting(situation, place), *_earlier(situation)]
    is_parent = bool(run["children"] or run["remaining"])
    if is_parent and not run["node"]:
        return [*searched, *explain_next(situation, place)] if searched else [_family(run)]
    who = "Its parent script" if is_parent else "It"
    setup = situation.setup
    does = f"waits for its setup {setup}, which is installed" if setup else _DOES.get(state, "waits")
    lines = [f"{who} {does} on {run['node'] or 'no node yet'}, attempt {run['attempts']}."]
    if place is not None and any(node.is_silent for node in place.up if node.name == run["node"]):
        lines.append(
            "That node has fallen silent. If it stays so, the run is given up there and tried again if it may be."
        )
    return [*lines, *_earlier(situation)]


def explain_next(situation: Situation, place: Place | None) -> list[str]:
    """What the next run of a search waits for, if it is proposed and may begin; nothing when it is about to. Of the
    situation's run only the target counts."""
    search, target = situation.search, situation.run["target"]
    if search is None or place is None or search["state"] != "active" or search["asked"] <= search["made"]:
        return []
    if search["concurrent"] is not None and search["counts"]["live"] >= search["concurrent"]:
        return []
    nodes = [node for node in place.up if not node.is_silent]
    lacking = min((_lacks(situation, node) for node in nodes), key=len, default=[])
    lines = [f"The next one waits for {' and '.join(lacking)} on {target}."] if lacking else []
    return [*lines, *_coming(place, target)]


def _family(run: Mapping[str, Any]) -> str:
    if run["remaining"]:
        return f"{run['remaining']} of its children are still to be made, as nodes get free."
    return f"All its children are made, and it ends with the last of them; `turnout show {run['name']}` lists them."


def _again(situation: Situation) -> str:
    if situation.pipeline:  # by itself it would not be given what the steps before it have left
        return _AGAIN_WITH.format(pipeline=situation.pipeline)
    return _AGAIN.format(name=situation.run["name"])


def _end(situation: Situation) -> list[str]:
    run = situation.run
    if run["state"] == "completed":
        return ["It completed."]
    if run["children"] and run["state"] == "failed":
        return [f"It failed: {run['message']}.", f"`turnout show {run['name']}` lists them."]
    if run["message"].startswith("its parent script failed"):
        return [f"It failed: {run['message']}. No child runs there.", f"`turnout logs {run['name']}` shows its output."]
    if run["reason"] == "condition":
        return [f"It was skipped: {run['message'].rstrip('.') or 'a condition does not hold'}."]
    known = _FELL if situation.fell else _ENDED.get(run["reason"] or "", "no reason was recorded")
    text = known.format(
        exit_code=run["exit_code"], signal=run["signal"], message=run["message"] or "it is not known how"
    )
    name = run["name"]
    if situation.attempts and situation.attempts[-1]["cause"] == "spawn_failed":
        return ["It failed: it could not be started.", *run["message"].splitlines(), _again(situation)]
    lines = [f"It {_BECAME[run['state']]}: {text}."]
    is_said = run["reason"] in ("infra", "node_lost", "no_output") or _SAID.fullmatch(run["message"])
    if run["message"] and not is_said:
        lines += run["message"].splitlines()
    if run["reason"] in ("exit_code", "signal", "oom", "timeout"):
        lines.append(f"`turnout logs {name}` shows what it printed.")
    if run["reason"] in ("infra", "node_lost", "preempted"):
        lines.append(_again(situation))
    return lines


def _kept(situation: Situation) -> list[str]:
    if not situation.kept:
        return []
    node = situation.run["node"]
    return [f"Its directory is kept, {situation.kept} on {node}; `turnout release {node}` lets it go."]


def _waiting(situation: Situation, place: Place | None) -> list[str]:
    target = situation.run["target"]
    if place is None:
        return [f"There is no target {target!r} on this hub."]
    never = (
        _too_many(situation.need, place, target) if place.is_elastic else _too_much(situation.need, place.nodes, target)
    )
    if never:
        return [f"It can never start: it needs {never}. Cancel it and submit it with less, or elsewhere."]
    if place.trouble:
        return [f"{target} is in trouble: {place.trouble.rstrip('.')}. It is tried again by itself."]
    if not place.up:
        wait = f"The next node of {target} is asked for later: {place.restraint}." if place.restraint else ""
        return _coming(place, target) or [wait or f"An agent is being started on {target}."]
    silent = [node.name for node in place.up if node.is_silent]
    lines = (
        [f"{' and '.join(silent)} of {target} fell silent, and gets nothing before it is heard again."]
        if silent
        else []
    )
    if situation.ahead:
        runs = "1 run waits" if situation.ahead == 1 else f"{situation.ahead} runs wait"
        at_once = f"{runs} before it on {target}, which runs {sum(node.max_runs for node in place.up)} at once."
        return [*lines, at_once, *_coming(place, target)]
    nodes = [node for node in place.up if not node.is_silent]
    if nodes and all(node.is_preparing for node in nodes):
        return [*lines, f"The prolog of {target} runs on {nodes[0].name}; no run begins there before it is over."]
    return [*lines, *([_next(situation, nodes)] if nodes else []), *_coming(place, target)]


def _coming(place: Place, target: str) -> list[str]:
    """What is known of the nodes that the site was asked for; of many, of the first that waits."""
    lines = []
    begun = [each for each in place.coming if each.has_begun]
    if begun:
        lines.append(f"{begun[0].node} of {target} was given to us and is about to begin{_named(begun[0])}.")
    waiting = [each for each in place.coming if not each.has_begun]
    if waiting:
        first = waiting[0]
        others = f" and {len(waiting) - 1} more wait" if len(waiting) > 1 else " waits"
        why = f": {first.detail}" if first.detail else ""
        lines.append(f"{first.node}{others} in the queue of {target} for {span(first.since)}{_named(first)}{why}.")
    return lines


def _named(coming: Coming) -> str:
    known = [part for part in (f"job {coming.id}" if coming.id else "", coming.url) if part]
    return f" ({', '.join(known)})" if known else ""


def _next(situation: Situation, nodes: list[Node]) -> str:
    """It is its turn: what it waits for on the node that lacks least."""
    target = situation.run["target"]
    lacking, node = min(((_lacks(situation, node), node) for node in nodes), key=lambda pair: len(pair[0]))
    if not lacking:
        return f"It is next on {target}, and is being given to {node.name}."
    where = f" on {node.name}" if len(nodes) > 1 else ""
    return f"It is next on {target}: it waits for {' and '.join(lacking)}{where}."


def _lacks(situation: Situation, node: Node) -> list[str]:
    need, concurrent = situation.need, situation.concurrent
    slots = need.cpus or min(1.0, node.max_runs / concurrent if concurrent else 1.0)
    lacking = []
    if concurrent is not None and node.siblings >= concurrent:
        lacking.append(f"the end of another run of its job, of which at most {concurrent} may be there at once")
    if slots > node.free_slots:
        wanted = "a free slot" if slots <= 1 else f"{need.cpus} free slots"
        lacking.append(f"{wanted} ({node.free_slots:g} of {node.max_runs} free)")
    if (need.memory or 0) > node.free_memory:
        of = f" of {write_size(node.memory)}" if node.memory is not None else ""
        lacking.append(
            f"{write_size(need.memory or 0)} of memory ({write_size(node.free_memory)}{of} not promised to others)"
        )
    if node.seconds is not None and (need.seconds or 0.0) >= node.seconds:
        wanted = f"a node that has {span(need.seconds)}" if need.seconds else "the next node"
        lacking.append(f"{wanted} ({span(node.seconds)} left)")
    if need.gpus and (missing := _lacks_gpus(need, node)):
        lacking.append(missing)
    return lacking


def _lacks_gpus(need: Resources, node: Node) -> str:
    fit = sum(room.fits(need.gpu_memory or 0) for room in node.gpu_rooms)
    if fit >= (need.gpus or 0):
        return ""
    of = f" of {node.gpus}" if node.gpus is not None else ""
    parts = [f"{fit}{of} free"]
    if others := sum(room.foreign for room in node.gpu_rooms):
        parts.append(f"{others} used by others")
    if small := sum(room.runs > 0 and not room.fits(need.gpu_memory or 0) for room in node.gpu_rooms):
        parts.append(f"{small} with too little free memory")
    return f"{_gpus(need)} ({', '.join(parts)})"


def _too_many(need: Resources, place: Place, target: str) -> str:
    """The same where nodes are made to measure: what no node of any size has."""
    if place.max_runs is None or (need.cpus or 1) <= place.max_runs:
        return ""
    return f"{need.cpus} cpus, and target {target} has `max-runs: {place.max_runs}`"


def _too_much(need: Resources, nodes: Sequence[Node], target: str) -> str:
    """What it asks for and no node there has; empty when that is nothing, or not known."""
    if not nodes:
        return ""
    where = f"the largest node of target {target}"
    memory, gpus = [node.memory for node in nodes], [node.gpus for node in nodes]
    parts = []
    if (need.cpus or 0) > (most := max(node.max_runs for node in nodes)):
        parts.append(f"{need.cpus} cpus, and {where} runs {most} at once")
    if need.memory is not None and None not in memory and need.memory > (most := max(size or 0 for size in memory)):
        parts.append(f"{write_size(need.memory)} of memory, and {where} has {write_size(most)}")
    if need.gpus is not None and None not in gpus and need.gpus > (most := max(count or 0 for count in gpus)):
        parts.append(f"{_gpus(need)}, and {where} has {most or 'none'}")
    elif need.gpus and not any(_has_gpus(node, need) for node in nodes):
        largest = max((size for node in nodes for size in node.gpu_memory), default=0)
        parts.append(f"{_gpus(need)}, and the largest GPU of target {target} has {write_size(largest)}")
    if not parts and not any(_is_enough(node, need) for node in nodes):
        parts.append(f"more of everything together than any one node of target {target} has")
    return "; ".join(parts)


def _is_enough(node: Node, need: Resources) -> bool:
    """Whether the node could hold it when nothing else is there, as far as it is known."""
    is_known_small = (node.memory is not None and (need.memory or 0) > node.memory) or (
        node.gpus is not None and not _has_gpus(node, need)
    )
    return (need.cpus or 0) <= node.max_runs and not is_known_small


def _has_gpus(node: Node, need: Resources) -> bool:
    """Whether it would have them if nobody used any, as far as it is known."""
    if node.gpus is None:
        return True
    small = sum(0 < size < (need.gpu_memory or 0) for size in node.gpu_memory)
    return (need.gpus or 0) <= node.gpus - small


def _gpus(need: Resources) -> str:
    each = f" with {write_size(need.gpu_memory)}{' each' if need.gpus != 1 else ''}" if need.gpu_memory else ""
    return ("1 GPU" if need.gpus == 1 else f"{need.gpus} GPUs") + each


def _earlier(situation: Situation) -> list[str]:
    """What became of the attempts before the current one."""
    over = situation.attempts if situation.run["state"] == "queued" else situation.attempts[:-1]
    return [_attempt(attempt) for attempt in over]


def _attempt(attempt: Mapping[str, Any]) -> str:
    where = f"Attempt {attempt['attempt']} on {attempt['node']}"
    if attempt["cause"] is None:
        return f"{where} was given back before it began."
    detail = attempt["message"] or (f"exit code {attempt['exit_code']}" if attempt["exit_code"] is not None else "")
    told = f", {detail}" if detail and detail != attempt["cause"] else ""
    return f"{where} ended: {attempt['cause']}{told}."
