"""Why a search makes no run now, or no more, in sentences a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def explain_search(search: Mapping[str, Any]) -> list[str]:
    """`search` as it is shown: its `state` and `message`, how many `runs` it may have (None: any number), how many were
    `asked` of its sampler and `made`, how many may be `concurrent`, its `deadline`, and its `counts`."""
    job, live = search["job"], search["counts"]["live"]
    if search["state"] == "over":
        return [f"Its search is over: {search['message']}."]
    of = f" of {search['runs']}" if search["runs"] is not None else ""
    made = f"{search['made']}{of} runs of its search are made"
    if search["state"] == "paused":
        going = f" {_under_way(live)}." if live else ""
        time = f" Its time goes on meanwhile, until {search['deadline']}." if search["deadline"] is not None else ""
        resume = f"`turnout resume {job}` lets it go on."
        return [f"Its search is paused: {search['message']}. {resume}", f"{made}.{going}{time}"]
    limit = f"; at most {search['concurrent']} may be at once" if search["concurrent"] is not None else ""
    total = search["asked"] if search["runs"] is None else min(search["asked"], search["runs"])
    ready = total - search["made"]
    if ready > 0:
        return [f"{made}, {ready} more are proposed and wait for a free node{limit}."]
    if search["runs"] is not None and search["made"] >= search["runs"]:
        return [f"{made}, and it ends with the last of them."]
    if live:
        return [f"{made}. Its sampler is asked for the next when a result comes: {_under_way(live)}{limit}."]
    return [f"{made}. Its sampler is being asked for the next."]


def _under_way(live: int) -> str:
    return "1 is under way" if live == 1 else f"{live} are under way"
