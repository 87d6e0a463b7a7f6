"""Boxes of this user: taken into the settings once they work, looked at, and let go again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from turnout import config as configuration
from turnout.client import hostkeys
from turnout.client.hostkeys import HostKey, Standing, Way
from turnout.config import BoxSettings, Config, TargetSettings, editing
from turnout.config.setting import Setting
from turnout.errors import Conflict, Denied, InvalidInput, NotFound, ProviderError
from turnout.home import Home
from turnout.model.ids import check_address, check_label

View = dict[str, Any]
Asked = Callable[[HostKey], bool]
"""Whether a person says that this is the key of that machine."""
_HERE = "local"


class Hub(Protocol):
    """Who knows what goes on at boxes; a Client is one."""

    def targets(self) -> dict[str, View]: ...

    def check_target(self, name: str, target: TargetSettings) -> list[View]: ...

    def leave_target(self, name: str, target: TargetSettings, *, force: bool) -> View: ...


_SSH = ("port", "ssh-options", "password", "passphrase")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBox:
    """What is said of a box when it is added; None = as it is without that."""

    name: str
    address: str
    port: int | None = None
    max_runs: int | None = None
    python: str | None = None
    ssh_options: Sequence[str] = ()
    password: str | None = None
    """``secret:NAME``, as is `passphrase`"""
    passphrase: str | None = None
    gpu_indices: Sequence[int] = ()
    max_runs_per_gpu: int | None = None
    avoid_foreign_gpus: bool | None = None

    def entry(self) -> dict[str, object]:
        """For the section ``boxes``."""
        told = {
            "address": self.address, "port": self.port, "max-runs": self.max_runs,
            "python": self.python, "ssh-options": list(self.ssh_options) or None, "password": self.password,
            "passphrase": self.passphrase, "gpu-indices": list(self.gpu_indices) or None,
            "max-runs-per-gpu": self.max_runs_per_gpu, "avoid-foreign-gpus": self.avoid_foreign_gpus,
        }  # fmt: skip
        return {name: value for name, value in told.items() if value is not None}

    def settings(self) -> BoxSettings:
        own = {name: value for name, value in self.entry().items() if name in _SSH}
        return BoxSettings(address=self.address, max_runs=self.max_runs, python=self.python, settings=own)


def load(home: Home, cwd: Path) -> Config:
    """The settings that hold here."""
    return configuration.settings_at(cwd, home)


def way_to(name: str, settings: Config) -> Way | None:
    """How ssh gets to a box, a node of a pool, or the machine that another target is reached by; None = it is here."""
    found = settings.targets.get(name.partition("#")[0])
    if found is None:
        known = ", ".join(sorted(settings.boxes)) or "none yet; `turnout box add NAME ADDRESS`"
        raise NotFound(f"no box {name!r}", hint=f"boxes: {known}")
    members = settings.boxes_of(found)
    if members:
        raise InvalidInput(f"{name} is a pool of several boxes", hint=f"say which: {', '.join(members)}")
    told = settings.settings_of(found)
    if settings.provider_of(found) == _HERE:
        return None
    if not told.get("address"):
        raise InvalidInput(f"{name} is not reached by ssh", hint="`turnout list boxes` shows what is")
    return way_of(told)


def way_of(told: Mapping[str, object]) -> Way:
    options = told.get("ssh-options") or ()
    words = [str(each) for each in options] if isinstance(options, list | tuple) else [str(options)]
    return Way(str(told["address"]), str(told.get("port") or ""), words)


def show(hub: Hub, settings: Config) -> list[View]:
    """All that the settings name, in their order. An agent there may be the box's own or a pool's; `free` is None where
    there is none, for nobody knows then."""
    told = hub.targets()
    found = []
    for name, box in settings.boxes.items():
        free = [
            free for each in told.values() for node, free in each["nodes"].items() if node.partition("#")[0] == name
        ]
        pools = [pool for pool, target in settings.compute_targets.items() if name in settings.boxes_of(target)]
        trouble = [told.get(name, {}).get("trouble", ""), *(told.get(pool, {}).get("trouble", "") for pool in pools)]
        found.append({
            "name": name, "address": box.address, "os": box.os, "max_runs": box.max_runs, "agents": len(free),
            "free": sum(free) if free else None, "pools": pools, "settings": _own(box),
            "trouble": trouble[0] or next((each for each in trouble[1:] if f"{name}:" in each), ""),
        })  # fmt: skip
    return found


def _own(box: BoxSettings) -> dict[str, object]:
    """What the settings say of it beside its address, as they write it; of secrets, the references."""
    told = {
        **box.settings, "gpu-indices": list(box.gpu_indices) or None,
        "max-runs-per-gpu": box.max_runs_per_gpu if box.max_runs_per_gpu != 1 else None,
        "avoid-foreign-gpus": None if box.avoid_foreign_gpus else False,
    }  # fmt: skip
    return {key: list(value) if isinstance(value, tuple) else value for key, value in told.items() if value is not None}


def add(hub: Hub, home: Home, cwd: Path, new: NewBox, asked: Asked) -> View:
    """Takes a box into the user's settings, after its key was believed (`asked` is asked of one that is not known) and
    it was seen to work. Raising means that the settings are as they were; a key that was believed stays so."""
    check_label(new.name, "box")
    check_address(new.address)
    if new.name in load(home, cwd).targets:
        raise Conflict(f"there is a box or target {new.name!r} already", hint="`turnout list targets` shows them")
    target = new.settings().as_target()
    shown = None if target.service == _HERE else _believed(way_of(target.settings), asked)
    findings = hub.check_target(new.name, target)
    if wrong := [each for each in findings if each["level"] == "problem"]:
        hint = "\n".join(filter(None, [wrong[0]["hint"], "nothing was added"]))
        raise ProviderError("\n".join(each["what"] for each in wrong), hint=hint)
    editing.put(home.config_file, "boxes", new.name, new.entry())
    key = None if shown is None else {"type": shown.kind, "fingerprint": shown.fingerprint, "host": shown.host}
    return {"name": new.name, "address": new.address, "key": key, "findings": findings, "file": str(home.config_file)}


def remove(hub: Hub, home: Home, cwd: Path, name: str, *, force: bool = False) -> View:
    """Takes a box out of the user's settings, and what is ours off the box. Conflict while runs are there, unless
    `force`: then they are cancelled, and a box that does not answer is let go as it is (`cleared` is false)."""
    gathered = configuration.gather(home.config_file, configuration.find_project_file(cwd))
    settings = gathered.config()
    if name not in settings.boxes:
        raise NotFound(f"no box {name!r}", hint=f"boxes: {', '.join(sorted(settings.boxes)) or 'none'}")
    _check_own(gathered.tree, name, home)
    pools = [pool for pool, target in settings.compute_targets.items() if name in _named(target)]
    if pools:
        raise Conflict(f"the pool {pools[0]} names the box {name}", hint=f"take it out of `boxes` of {pools[0]} first")
    done = hub.leave_target(name, settings.resolved(name), force=force)
    editing.remove(home.config_file, "boxes", name)
    return {"name": name, "address": settings.boxes[name].address, **done}


def _believed(way: Way, asked: Asked) -> HostKey | None:
    """The key the machine shows, which is on record when this returns."""
    standing = hostkeys.look(way)
    if standing.is_changed:
        raise _changed(way, standing)
    if not standing.is_known:
        assert standing.shown is not None
        if not asked(standing.shown):
            raise Denied(f"the key of {way.address} was not accepted", hint="nothing was changed")
        hostkeys.trust(way, standing.shown)
    return standing.shown


def _changed(way: Way, standing: Standing) -> Denied:
    shown = standing.shown
    assert shown is not None
    known = ", ".join(f"{key.kind} {key.fingerprint}" for key in standing.known)
    return Denied(
        f"{way.address} does not show the key that is on record for it: somebody may be listening in\n"
        f"  on record: {known}\n  shown now: {shown.kind} {shown.fingerprint}",
        hint=f"ask who runs the machine; if its key was really changed: ssh-keygen -R '{shown.host}', and add it again",
    )


def _named(target: TargetSettings) -> Sequence[object]:
    named = target.settings.get("boxes")
    return named if isinstance(named, list | tuple) else () if named is None else (named,)


def _check_own(tree: Mapping[str, Any], name: str, home: Home) -> None:
    """Only the user's own file is changed: a project's belongs to all who use it."""
    entry = tree["boxes"][name]
    for setting in entry.values():
        if isinstance(setting, Setting) and setting.origin.name != str(home.config_file):
            hint = "take it out there by hand"
            raise Conflict(f"the box {name} is not in your own settings: {setting.origin}", hint=hint)
