"""Why a job stands as it does, or what a node does: its runs, grouped, in sentences a person can act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turnout.model.state import ON_NODE

Run = Mapping[str, Any]
Group = Mapping[str, Any]
"""runs that stand or ended in the same way: `state`, `count`, the first `names`; the `nodes` they are on; `reason`,
`exit_code` and `signal` of those that ended"""
Job = Mapping[str, Any]
_MOST_GROUPS = 5
_MOST_STEPS = 20
_UNWELL = ("failed", "cancelled", "stopped")


def explain_job(job: Mapping[str, Any], groups: Sequence[Group], waiting: Sequence[str]) -> list[str]:
    """`groups` are the job's runs but those that completed; `waiting` says why the first of those that wait does."""
    is_pipeline = bool(job["steps"] or job["pipeline"])
    lines = [_counted(job["counts"])]
    lines += [
        _standing(job["name"], group, waiting, is_pipeline=is_pipeline)
        for group in groups
        if group["state"] not in _UNWELL
    ]
    lines += _ended(groups)
    states = {group["state"] for group in groups}
    if "failed" in states:
        lines.append(f"`turnout list runs --filter 'job={job['name']} and state=failed'` lists those that failed.")
    elif states <= {*_UNWELL}:
        lines.append(f"`turnout list runs --filter job={job['name']}` lists its runs.")
    elif states != {"created"}:
        lines.append(f"`turnout attach {job['name']}` follows it.")
    return lines


def explain_steps(pipeline: Job) -> list[str]:
    """Which steps of a pipeline go on, which wait for which, and what to do when some did not end well."""
    steps = pipeline["steps"]
    by_name = {step["name"]: step for step in steps}
    going = [step["name"] for step in steps if any(step["counts"].get(state) for state in (*ON_NODE, "queued"))]
    unwell = [step for step in steps if step["state"] in ("failed", "cancelled")]
    lines = []
    if going:
        lines.append(f"At work: {', '.join(going)}.")
    for step in steps:
        before = [by_name[name] for name in step["needs"] if name in by_name]  # else it was deleted
        needs = [each["name"] for each in before if each["live"] or each["is_late"]]
        if (step["live"] or step["is_late"]) and step["name"] not in going and needs:
            lines.append(f"{step['name']} waits for {', '.join(needs)}.")
    if unwell and not going:
        name = pipeline["name"]
        lines.append(f"Not well: {', '.join(each['name'] for each in unwell)}; `turnout why {name}.STEP` tells of one.")
        lines.append(f"`turnout resume {name}` does what is missing, and nothing else.")
    more = len(lines) - _MOST_STEPS
    return lines if more <= 0 else [*lines[:_MOST_STEPS], f"… and {more} more."]


def explain_node(node: str, runs: Sequence[Run], *, is_silent: bool, is_kept: bool, max_runs: int) -> list[str]:
    """`runs` are those that were on it last, newest first. One that `is_kept` stays until it is released."""
    lines = []
    if is_silent:
        lines.append("It has fallen silent. If it stays so, its runs are given up there, and tried again if they may.")
    here = [run for run in runs if run["state"] in ON_NODE]
    if here:
        group = _group(here)
        lines.append(f"{_names(group)} {_verb(group, 'is', 'are')} on it; it takes {max_runs} at once.")
        lines.append(f"`turnout attach {here[0]['name']}` shows what it prints; `turnout restart {node}` ends all.")
    elif is_kept:
        lines.append(f"It is kept, with what ran there; `turnout release {node}` lets it go.")
    else:
        lines.append(f"Nothing is on it; it takes {max_runs} at once, and leaves when there is nothing more to do.")
    return [*lines, *_ended(_by_cause(runs))]


def _counted(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    parts = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count)
    return f"Of its {total} runs: {parts}." if total != 1 else f"Its only run is {parts.split(' ', 1)[1]}."


def _standing(job: str, group: Group, waiting: Sequence[str], *, is_pipeline: bool) -> str:
    """Of runs that are not over."""
    names = _names(group)
    if group["state"] == "created" and is_pipeline:
        return f"{names} {_verb(group, 'waits', 'wait')} for what is before {_verb(group, 'it', 'them')}."
    if group["state"] == "created":
        let_go = f"`turnout release {job}` lets {_verb(group, 'it', 'them')} go"
        return f"{names} {_verb(group, 'is', 'are')} held; {let_go}."
    if group["state"] == "queued":
        why = f" {group['names'][0]}: {waiting[0]}" if waiting else ""
        return f"{names} {_verb(group, 'waits', 'wait')}.{why}"
    return f"{names} {_verb(group, 'is', 'are')} on {', '.join(group['nodes']) or 'no node yet'}."


def _ended(groups: Iterable[Group]) -> list[str]:
    """What did not go well, by cause, most frequent first, each with a run to look at."""
    ordered = sorted((group for group in groups if group["state"] in _UNWELL), key=lambda group: -group["count"])
    lines = [f"{_names(group)} {_cause(group)}; `turnout why {group['names'][0]}` tells more." for group in ordered]
    more = len(lines) - _MOST_GROUPS
    return lines if more <= 0 else [*lines[:_MOST_GROUPS], f"… and {more} other causes."]


def _by_cause(runs: Sequence[Run]) -> list[Group]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        if run["state"] in _UNWELL and not run["children"]:
            found.setdefault(_cause(run), []).append(run)
    return [_group(alike) for alike in found.values()]


def _group(runs: Sequence[Run]) -> Group:
    return {**runs[0], "count": len(runs), "names": [run["name"] for run in runs[:3]]}


def _cause(ended: Run | Group) -> str:
    if ended["reason"] == "condition":
        return "skipped, because a condition does not hold"
    if ended["reason"] == "dependency":
        return "given up, because something before did not complete"
    if ended["reason"] == "unmade":
        return "failed, because they could not be made of what was left before them"
    if ended["reason"] == "exit_code":
        return f"{ended['state']} with exit code {ended['exit_code']}"
    if ended["reason"] == "signal":
        return f"{ended['state']} by signal {ended['signal']}"
    return f"{ended['state']}: {ended['reason'] or 'no reason was recorded'}"


def _names(group: Group) -> str:
    some = ", ".join(group["names"])
    more = group["count"] - len(group["names"])
    return f"{some} and {more} more" if more else some


def _verb(group: Group, one: str, many: str) -> str:
    return one if group["count"] == 1 else many
