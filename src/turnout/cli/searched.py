"""What was typed about a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from turnout.client import searching
from turnout.client.searching import SearchWish
from turnout.errors import InvalidInput
from turnout.home import current_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """The options of ``run`` and ``search`` about it."""

    hp_config: str | None
    search_type: str | None
    sampler_options: tuple[str, ...]
    minimize: tuple[str, ...]
    maximize: tuple[str, ...]
    stopper: str | None
    stopper_options: tuple[str, ...]
    max_time: str | None
    seed: int | None
    option_prefix: str | None
    runs: int | None
    schedule: str | None
    """None = nothing was typed"""

    @property
    def is_search(self) -> bool:
        """Whether there is to be one."""
        return bool(self.hp_config or self.search_type or self.minimize or self.maximize or self.stopper)

    def wish(self) -> SearchWish:
        return SearchWish(
            hp_config=None if self.hp_config is None else str(current_directory() / self.hp_config),
            sampler=self.search_type, sampler_options=searching.options(self.sampler_options, "--sampler-option"),
            stopper=self.stopper, stopper_options=searching.options(self.stopper_options, "--stopper-option"),
            minimize=self.minimize, maximize=self.maximize, runs=self.runs,
            seconds=None if self.max_time is None else searching.seconds(self.max_time, "--max-time"), seed=self.seed,
            prefix=self.option_prefix, whole=None if self.schedule is None else self.schedule == "static",
        )  # fmt: skip

    def check_unused(self) -> None:
        """Where nothing is searched: InvalidInput for an option that would mean nothing."""
        for option, value in (
            ("--sampler-option", self.sampler_options), ("--stopper-option", self.stopper_options),
            ("--max-time", self.max_time), ("--seed", self.seed), ("--option-prefix", self.option_prefix),
        ):  # fmt: skip
            if value not in (None, ()):
                hint = "say what to search: --hp-config FILE, or --search-type NAME and values in the command"
                more = "; --time limits a run" if option == "--max-time" else ""
                raise InvalidInput(f"{option} is for searches, and this is none", hint=hint + more)


def searched(options: Mapping[str, Any]) -> Searched:
    """Of all that was typed, what is about the search."""
    return Searched(**{each.name: options[each.name] for each in fields(Searched)})
