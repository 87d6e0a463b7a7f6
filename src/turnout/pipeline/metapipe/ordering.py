"""Steps in an order in which each comes after those it reads from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from turnout.errors import InvalidInput
from turnout.pipeline.metapipe.problem import problem
from turnout.pipeline.metapipe.template import Given, Template, steps_of


def ordered(templates: Sequence[Template]) -> list[Template]:
    """Those with lower numbers first, where there is a choice. InvalidInput names a circle."""
    by_step = {template.step: template for template in templates}
    before = {template.step: _before(template) for template in templates}
    readers: dict[str, list[str]] = {step: [] for step in by_step}
    for step, others in before.items():
        for other in others:
            readers[other].append(step)
    waiting = {step: len(others) for step, others in before.items()}
    free = [int(step) for step, count in waiting.items() if not count]
    order: list[Template] = []
    while free:
        step = str(heappop(free))
        order.append(by_step[step])
        for reader in readers[step]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(free, int(reader))
    if len(order) < len(templates):
        raise _circle(before, {step for step, count in waiting.items() if count})
    return order


def _before(template: Template) -> dict[str, str]:
    """The steps it reads from, each with where it says so."""
    found: dict[str, str] = {}
    for source in template.sources:
        if not isinstance(source, Given):
            for step in steps_of(source):
                found.setdefault(step, source.where)
    return found


def _circle(before: Mapping[str, Mapping[str, str]], stuck: set[str]) -> InvalidInput:
    """From any step that is stuck, those it waits for lead into a circle."""
    step = min(stuck, key=int)
    seen: dict[str, None] = {}
    while step not in seen:
        seen[step] = None
        step = min((other for other in before[step] if other in stuck), key=int)
    circle = list(seen)[list(seen).index(step) :]
    first = circle.index(min(circle, key=int))
    circle = [*circle[first:], *circle[:first], circle[first]]
    what = "a command waits for itself" if len(circle) == 2 else "commands wait for each other"
    hint = "read from a command that does not wait for this one, or from a file"
    return problem(before[circle[0]][circle[1]], f"{what}: {' -> '.join(circle)}", hint)
