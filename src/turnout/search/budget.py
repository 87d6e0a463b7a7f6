"""What a search does next: how many proposals it needs now, and whether it is over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How a search stands. `wanted` runs in all and `concurrent` at once, None = any number. `asked` were proposed, of
    those `made` became runs, of those `open` are not over; `good` and `failed` are the others, if they count as such.
    `ahead` is how many proposals its sampler makes before there is room for them. After `failures` failed runs, and
    none that was good, it is given up; 0 = never."""

    wanted: int | None = None
    concurrent: int | None = None
    deadline: float | None = None
    asked: int = 0
    made: int = 0
    open: int = 0
    good: int = 0
    failed: int = 0
    failures: int = 0
    ahead: int = 1
    is_paused: bool = False
    is_exhausted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`ask` for so many proposals. `is_over`: there will be no more, because of `why`; with `call_off`, runs that are
    under way are ended, too, and those that were proposed are not made. `is_wrong`: it is over because it failed."""

    ask: int = 0
    is_over: bool = False
    why: str = ""
    call_off: bool = False
    is_wrong: bool = False


def decide(budget: Budget, now: float) -> Decision:
    if budget.deadline is not None and now >= budget.deadline:
        return Decision(is_over=True, why="its time is up", call_off=True)
    if budget.failures and not budget.good and budget.failed >= budget.failures:
        why = f"none of its first {budget.failures} runs completed"
        return Decision(is_over=True, why=why, call_off=True, is_wrong=True)
    if budget.is_paused:
        return Decision()
    if budget.wanted is not None and budget.asked >= budget.wanted:
        return Decision(is_over=True, why="all its runs are made")
    if budget.is_exhausted:
        return Decision(is_over=True, why="there is nothing left to try")
    return Decision(ask=_needed(budget))


def _needed(budget: Budget) -> int:
    """Results should count for as much as they can: what a sampler learns from, it is asked for when there is room."""
    ready = budget.asked - budget.made
    if budget.ahead > 1:
        needed = budget.ahead - ready if ready <= budget.ahead // 2 else 0
    elif budget.concurrent is not None:
        needed = budget.concurrent - budget.open - ready
    else:
        needed = 1 - ready
    if budget.wanted is not None:
        needed = min(needed, budget.wanted - budget.asked)
    return max(0, needed)
