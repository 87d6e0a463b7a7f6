"""What the client does about targets and boxes themselves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from turnout.home import Home, current_directory

if TYPE_CHECKING:
    from turnout.client.hostkeys import HostKey
    from turnout.config import TargetSettings

View = dict[str, Any]
#: A machine that does not answer is waited for, and a cancelled run may take its time to end.
_PATIENCE = 300.0


class Machines(ABC):
    """The part of the client that looks after places to run."""

    _home: Home

    @abstractmethod
    def _json(self, method: str, path: str, body: bytes | None = None, *, timeout: float = 60.0) -> Any: ...

    @abstractmethod
    def define_target(self, name: str, target: TargetSettings) -> View:
        """What a target is with these settings; its ``place`` among it."""

    @abstractmethod
    def targets(self) -> dict[str, View]:
        """Those the hub knows."""

    def check_target(self, name: str, target: TargetSettings) -> list[View]:
        """What its provider finds when it looks at a target with these settings: ``level`` (ok, warning, problem),
        ``what``, ``hint``."""
        return list(self._json("POST", f"{self._place(name, target)}/check", timeout=_PATIENCE))

    def leave_target(self, name: str, target: TargetSettings, *, force: bool = False) -> View:
        """Has all that is ours removed from there. Conflict while runs are there, unless `force`."""
        path = f"{self._place(name, target)}/leave?force={str(force).lower()}"
        return dict(self._json("POST", path, timeout=_PATIENCE))

    def boxes(self) -> list[View]:
        """The machines that the settings name here, with their agents, room and trouble."""
        from turnout.client import boxes

        return boxes.show(self, boxes.load(self._home, current_directory()))

    def add_box(self, name: str, address: str, *, accept: Callable[[HostKey], bool], **more: Any) -> View:
        """Takes a machine into the user's settings once it is seen to work. `accept` gets its key, if that is not
        known, and says whether to believe it; `more` are the other fields of `boxes.NewBox`."""
        from turnout.client import boxes

        new = boxes.NewBox(name=name, address=address, **more)
        return boxes.add(self, self._home, current_directory(), new, accept)

    def remove_box(self, name: str, *, force: bool = False) -> View:
        """Takes it out again, and what is ours off it. Conflict while runs are there, unless `force`."""
        from turnout.client import boxes

        return boxes.remove(self, self._home, current_directory(), name, force=force)

    def _place(self, name: str, target: TargetSettings) -> str:
        return f"/api/targets/{quote(self.define_target(name, target)['place'], safe='')}"
