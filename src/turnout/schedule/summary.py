"""Why a job stands as it does, or what a node does: its runs, grouped, in sentences a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from turnout.model.state import LIVE, ON_NODE

Run = Mapping[str, Any]
_MOST_GROUPS = 5


def explain_job(job: Mapping[str, Any], runs: Sequence[Run], waiting: Sequence[str]) -> list[str]:
    """`runs` are the job's, or the last of very many; `waiting` says why the first of those that wait does."""
    lines = [_counted(job["counts"])]
    if len(runs) < min(job["runs"], sum(job["counts"].values())):
        lines.append(f"Of the last {len(runs)} of them:")
    held = [run for run in runs if run["state"] == "created"]
    if held:
        lines.append(f"{_names(held)} {_verb(held, 'is', 'are')} held; `turnout release {job['name']}` lets them go.")
    queued = [run for run in runs if run["state"] == "queued"]
    if queued:
        why = f" {queued[0]['name']}: {waiting[0]}" if waiting else ""
        lines.append(f"{_names(queued)} {_verb(queued, 'waits', 'wait')}.{why}")
    on_nodes = [run for run in runs if run["state"] in ON_NODE and not run["children"]]
    if on_nodes:
        nodes = sorted({run["node"] for run in on_nodes if run["node"]})
        lines.append(f"{_names(on_nodes)} {_verb(on_nodes, 'is', 'are')} on {', '.join(nodes) or 'no node yet'}.")
    lines += _ended(runs)
    if any(run["state"] == "failed" for run in runs):
        lines.append(f"`turnout list runs --filter 'job={job['name']} and state=failed'` lists those that failed.")
    elif not any(run["state"] in LIVE for run in runs):
        lines.append(f"`turnout list runs --filter job={job['name']}` lists its runs.")
    elif len(held) < len(runs):
        lines.append(f"`turnout attach {job['name']}` follows it.")
    return lines


def explain_node(node: str, runs: Sequence[Run], *, is_silent: bool, is_kept: bool, max_runs: int) -> list[str]:
    """`runs` are those that were on it last, newest first. One that `is_kept` stays until it is released."""
    lines = []
    if is_silent:
        lines.append("It has fallen silent. If it stays so, its runs are given up there, and tried again if they may.")
    here = [run for run in runs if run["state"] in ON_NODE]
    if here:
        lines.append(f"{_names(here)} {_verb(here, 'is', 'are')} on it; it takes {max_runs} at once.")
        lines.append(f"`turnout attach {here[0]['name']}` shows what it prints; `turnout restart {node}` ends all.")
    elif is_kept:
        lines.append(f"It is kept, with what ran there; `turnout release {node}` lets it go.")
    else:
        lines.append(f"Nothing is on it; it takes {max_runs} at once, and leaves when there is nothing more to do.")
    return [*lines, *_ended(runs)]


def _counted(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    parts = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count)
    return f"Of its {total} runs: {parts}." if total != 1 else f"Its only run is {parts.split(' ', 1)[1]}."


def _ended(runs: Sequence[Run]) -> list[str]:
    """What did not go well, by cause, most frequent first, each with a run to look at."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        if run["state"] in ("failed", "cancelled", "stopped") and not run["children"]:
            groups.setdefault(_cause(run), []).append(run)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    lines = [f"{_names(found)} {cause}; `turnout why {found[0]['name']}` tells more." for cause, found in ordered]
    more = len(lines) - _MOST_GROUPS
    return lines if more <= 0 else [*lines[:_MOST_GROUPS], f"… and {more} other causes."]


def _cause(run: Run) -> str:
    became = {"failed": "failed", "cancelled": "cancelled", "stopped": "stopped"}[run["state"]]
    if run["reason"] == "exit_code":
        return f"{became} with exit code {run['exit_code']}"
    if run["reason"] == "signal":
        return f"{became} by signal {run['signal']}"
    return f"{became}: {run['reason'] or 'no reason was recorded'}"


def _names(runs: Sequence[Run]) -> str:
    some = ", ".join(run["name"] for run in runs[:3])
    return some if len(runs) <= 3 else f"{some} and {len(runs) - 3} more"


def _verb(runs: Sequence[Run], one: str, many: str) -> str:
    return one if len(runs) == 1 else many
