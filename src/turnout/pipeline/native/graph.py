"""Steps in order, or the circle that forbids one."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence


def in_order(needs: Mapping[str, Collection[str]]) -> tuple[list[str], list[list[str]]]:
    """The steps, each after those it needs and else as they are written, and circles: ``[a, b, a]``, where each needs
    the one behind it. Steps on a circle, or behind one, are not in the order."""
    if _is_in_order(needs):
        return list(needs), []
    number = {name: at for at, name in enumerate(needs)}
    waiting = {name: set(needed) for name, needed in needs.items()}
    needed_by: dict[str, list[str]] = {name: [] for name in needs}
    for name, needed in waiting.items():
        for each in needed:
            needed_by[each].append(name)
    free = [at for at, name in enumerate(needs) if not waiting[name]]
    names = list(needs)
    order: list[str] = []
    while free:
        name = names[heapq.heappop(free)]
        order.append(name)
        for each in needed_by[name]:
            waiting[each].discard(name)
            if not waiting[each]:
                heapq.heappush(free, number[each])
    done = set(order)
    left = {name: [each for each in needs[name] if each not in done] for name in names if name not in done}
    return order, _circles(left)


def _is_in_order(needs: Mapping[str, Collection[str]]) -> bool:
    """Whether they are as they are written, which they mostly are."""
    before: set[str] = set()
    for name, needed in needs.items():
        if not before.issuperset(needed):
            return False
        before.add(name)
    return True


def _circles(needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """From each step that is on none yet, go on until one comes again; `needs` has no step without a need."""
    found: list[list[str]] = []
    known: set[str] = set()
    for start in needs:
        path: list[str] = []
        name = start
        while name not in known:
            known.add(name)
            path.append(name)
            name = needs[name][0]
        if name in path:
            circle = path[path.index(name) :]
            first = circle.index(min(circle, key=list(needs).index))
            circle = circle[first:] + circle[:first]
            found.append([*circle, circle[0]])
    return found
