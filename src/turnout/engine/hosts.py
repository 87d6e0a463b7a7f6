"""All plugin hosts of this hub: which process has which code, and what its classes said of themselves."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Mapping
from pathlib import Path

from turnout.config import TargetSettings, secrets
from turnout.config.by_path import ByPath
from turnout.engine.host import Host, PluginFailure, in_full
from turnout.engine.hosted import HostedProvider, hosted
from turnout.errors import Denied, NotFound, ProviderError
from turnout.home import Home, private_dir, write_private
from turnout.model.ids import target_of
from turnout.plugin.remote import Description, Plugin, description, plain


class Hosts:
    """From any thread. With `is_shared` no code is taken: it would run as the user that the hub is."""

    def __init__(self, home: Home, *, is_shared: bool = False) -> None:
        self._home = home
        self._is_shared = is_shared
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, ...], Host] = {}

    def load(self, place: str, entry: TargetSettings, told: Mapping[str, object]) -> HostedProvider:
        """The provider of that place, whose class is loaded now. Denied on a shared hub; ProviderError, with what was
        raised, when the class cannot be used."""
        code = _code(entry)
        if self._is_shared:
            hint = "install its package on the hub, with an entry point in the group 'turnout.providers'"
            raise Denied(f"this hub is shared and takes no code: {code.path}", hint=hint)
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
        for path in self._directory.iterdir():
            if path.stem not in places:
                path.unlink()

    def close(self) -> None:
        """Ends every process."""
        with self._lock:
            for host in self._hosts.values():
                host.close()

    def _host(self, code: ByPath) -> Host:
        key = (code.project, code.digest, *code.python_path)
        with self._lock:
            if key not in self._hosts:
                self._hosts[key] = Host(Path(code.project), code.python_path, self._log(code))
            return self._hosts[key]

    def _plugin(self, place: str, entry: TargetSettings, code: ByPath, told: Mapping[str, object]) -> Plugin:
        return Plugin(
            path=code.path, target=target_of(place), service=entry.service, settings=told, username=code.username,
            definition=secrets.revealed(code.definition, self._home), records=str(self._directory / f"{place}.jsonl"),
        )  # fmt: skip

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
