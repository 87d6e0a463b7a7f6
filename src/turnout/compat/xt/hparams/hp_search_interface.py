"""What XT asks of a class that proposes parameters. An instance is made, without arguments, for each run."""

from __future__ import annotations

from typing import Any

from turnout.compat.xt.interface import Interface


class HpSearchInterface(Interface):
    def need_runs(self) -> bool:
        """Whether `search` is to be told of the runs that are over."""
        raise NotImplementedError

    def search(self, run_name: str, store: Any, context: Any, runs: list[dict[str, Any]] | None) -> dict[str, Any]:
        """The parameters of the run `run_name`. Of XT's arguments, those that its code and its document both have;
        a class takes `hp_records` as well, see `turnout.compat.xt.hp_search`."""
        raise NotImplementedError
