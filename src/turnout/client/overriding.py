"""What is typed wins over what a file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, replace
from typing import Any, TypeVar

from turnout.client.preparing import Wish
from turnout.client.searching import SearchWish, sampler_named

T = TypeVar("T")


def overridden(written: Wish, typed: Wish, search: SearchWish) -> Wish:
    """The wish of a file, with what was typed in its place where that says anything; `search` is what was typed about
    the search, if the file has one. Tags and variables of both count."""
    made = _over(written, typed)
    if typed.target is not None:
        made = replace(made, also=typed.also)
    if written.search is not None:
        made = replace(made, search=_searched(written.search, search))
    return replace(made, resources=_over(written.resources, typed.resources))


def _searched(written: SearchWish, typed: SearchWish) -> SearchWish:
    """Options belong to whom they were written for, and objectives are replaced together."""
    if typed.sampler is not None and sampler_named(typed.sampler) != sampler_named(written.sampler or ""):
        written = replace(written, sampler_options={})
    if typed.stopper is not None and typed.stopper != written.stopper:
        written = replace(written, stopper_options={})
    if typed.minimize or typed.maximize:
        written = replace(written, minimize=(), maximize=())
    if typed.hp_config is not None:
        written = replace(written, space=None)
    return _over(written, typed)


def _over(written: T, typed: T) -> T:
    """One of the two dataclasses, field by field; those of `typed` that are as they are by default were not typed."""
    said: dict[str, Any] = {}
    for field in fields(typed):  # type: ignore[arg-type]
        value, before = getattr(typed, field.name), getattr(written, field.name)
        if value != _default(field):
            said[field.name] = {**before, **value} if isinstance(value, Mapping) and before else value
    return replace(written, **said)  # type: ignore[type-var]


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return () if field.default is MISSING else field.default
