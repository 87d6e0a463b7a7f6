"""All plugin hosts of this hub: which process has which code, and what its classes said of themselves."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from turnout.config import TargetSettings, secrets
from turnout.config.by_path import ByPath, digest_of
from turnout.engine.host import Host, PluginFailure, in_full
from turnout.engine.hosted import HostedProvider, hosted
from turnout.errors import Denied, NotFound, ProviderError
from turnout.home import Home, private_dir, write_private
from turnout.model.ids import target_of
from turnout.plugin.remote import Description, Plugin, description, plain

#: Beside what is known of a place: the digest of the code it uses.
_USES = ".uses"


class Hosts:
    """From any thread. With `is_shared` no code is taken: it would run as the user that the hub is."""

    def __init__(self, home: Home, *, is_shared: bool = False) -> None:
        self._home = home
        self._is_shared = is_shared
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, ...], Host] = {}
        self._is_closed = False

    def load(self, place: str, entry: TargetSettings, told: Mapping[str, object]) -> HostedProvider:
        """The provider of that place, whose class is loaded now. Denied on a shared hub; ProviderError, with what was
        raised, when the class cannot be used."""
        code = _code(entry)
        if self._is_shared:
            hint = "install its package on the hub, with an entry point in the group 'turnout.providers'"
            raise Denied(f"this hub is shared and takes no code: {code.path}", hint=hint)
        self._freeze(place, code)
        host, plugin = self._host(code), self._plugin(place, entry, code, told)
        try:
            described: Description = host.call(plugin, "describe")
        except PluginFailure as error:
            host.close()
            hint = f"correct it, and submit again; what it printed is in {self._log(code)}"
            raise ProviderError(in_full(error), hint=hint) from error
        write_private(self._described(place), json.dumps(plain(described)))
        return hosted(described, told, host, plugin)

    def recall(self, place: str, entry: TargetSettings, told: Mapping[str, object]) -> HostedProvider:
        """The same as it was when it was loaded before; nothing is started. NotFound when it never was."""
        code = _code(entry)
        try:
            described = description(json.loads(self._described(place).read_text()))
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise NotFound(f"{code.path} was not loaded before", hint="submit again") from error
        return hosted(described, told, self._host(code), self._plugin(place, entry, code, told))

    def keep(self, places: Collection[str]) -> None:
        """Forgets what is known of all places but these."""
        used = set()
        for path in [path for path in self._directory.iterdir() if path.is_file()]:
            if path.stem not in places:
                path.unlink()
            elif path.suffix == _USES:
                used.add(path.read_text())
        for frozen in self._frozen.iterdir() if self._frozen.is_dir() else ():
            if frozen.name not in used:
                shutil.rmtree(frozen, ignore_errors=True)

    def _freeze(self, place: str, code: ByPath) -> None:
        """Keeps the code as it is now, for as long as the place is: what was submitted with it runs with it, whatever
        becomes of the file. ProviderError when it is not any more what was submitted."""
        write_private(self._directory / f"{place}{_USES}", code.digest)
        package = Path(code.package)
        if not code.package or (self._frozen / code.digest).is_dir():
            return
        fresh = private_dir(self._frozen) / f"{code.digest}.{os.getpid()}.{threading.get_ident()}"
        try:
            fresh.mkdir(mode=0o700)
            copy = fresh / package.name
            if package.is_dir():
                shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(package, copy)
            if digest_of(copy) != code.digest:
                raise ProviderError(f"{package} changed while it was submitted", hint="submit again")
            with contextlib.suppress(OSError):  # another was quicker
                fresh.rename(self._frozen / code.digest)
        except (OSError, shutil.Error) as error:
            raise ProviderError(
                f"{package} cannot be kept: {error}", hint="is it readable, and is there room?"
            ) from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def close(self) -> None:
        """Ends every process, once what it submits is submitted. No call begins any more, at none."""
        with self._lock:
            self._is_closed = True
            hosts = list(self._hosts.values())
        for host in hosts:
            host.retire()
        for host in hosts:
            host.close()

    def _host(self, code: ByPath) -> Host:
        key = (code.project, code.digest, *code.python_path)
        with self._lock:
            if key not in self._hosts:
                frozen = str(self._frozen / code.digest)
                copy = (frozen, os.path.dirname(code.package)) if os.path.isdir(frozen) else ("", "")
                self._hosts[key] = Host(Path(code.project), code.python_path, self._log(code), copy=copy)
            if self._is_closed:
                self._hosts[key].retire()
            return self._hosts[key]

    def _plugin(self, place: str, entry: TargetSettings, code: ByPath, told: Mapping[str, object]) -> Plugin:
        return Plugin(
            path=code.path, target=target_of(place), service=entry.service, settings=told, username=code.username,
            definition=secrets.revealed(code.definition, self._home), records=str(self._directory / f"{place}.jsonl"),
        )  # fmt: skip

    @property
    def _frozen(self) -> Path:
        return self._directory / "code"

    @property
    def _directory(self) -> Path:
        return private_dir(self._home.root / "plugins")

    def _described(self, place: str) -> Path:
        return self._directory / f"{place}.json"

    def _log(self, code: ByPath) -> Path:
        told = hashlib.sha256(f"{code.project}\0{code.digest}".encode()).hexdigest()[:8]
        return self._home.root / "logs" / f"plugin-{code.path.rpartition('.')[2]}-{told}.log"


def _code(entry: TargetSettings) -> ByPath:
    assert entry.code is not None, "a target that is served by an installed provider"
    return entry.code
