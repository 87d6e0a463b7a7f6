"""What turnout itself uses of the external services: where its records, the kept files and the secrets are."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from turnout.errors import InvalidInput, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnout.config.sections import Config

_PATIENCE = 60.0
_NAME = "{name}"


def database_url(settings: Config) -> str | None:
    """The URL, or the secret that stands for it, of ``xt-services: database``; None = SQLite."""
    name = settings.xt_services.database
    if name is None:
        return None
    url = _entry(settings, name).get("url")
    if not isinstance(url, str):
        hint = f"write `external-services: {{{name}: {{type: postgres, url: secret:NAME}}}}`"
        raise InvalidInput(f"xt-services.database: no external service {name!r} with a url", hint=hint)
    return url


def storage_directory(settings: Config) -> Path | None:
    """The directory of ``xt-services: storage``; None = in the hub's own."""
    name = settings.xt_services.storage
    if name is None:
        return None
    path = _entry(settings, name).get("path")
    if not isinstance(path, str) or not Path(path).expanduser().is_absolute():
        hint = f"write `external-services: {{{name}: {{type: directory, path: /big/disk/turnout}}}}`"
        raise InvalidInput(f"xt-services.storage: no external service {name!r} with an absolute path", hint=hint)
    return Path(path).expanduser()


def ask_vault(secret: str, settings: Config) -> str | None:
    """What the command of ``xt-services: vault`` prints for this secret; None where there is no vault.

    NotFound when the command fails, Unavailable when it cannot be run. Nobody but the command sees the name.
    """
    name = settings.xt_services.vault
    if name is None:
        return None
    command = _entry(settings, name).get("command")
    if not isinstance(command, list | tuple) or not command or not any(_NAME in str(word) for word in command):
        hint = f"write `external-services: {{{name}: {{type: command, command: [pass, show, turnout/{_NAME}]}}}}`"
        raise InvalidInput(f"xt-services.vault: no external service {name!r} with a command for {_NAME}", hint=hint)
    argv = [str(word).replace(_NAME, secret) for word in command]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the vault {name!r} does not answer: {error}", hint=f"try it yourself: {argv[0]}") from error
    if done.returncode != 0:
        said = done.stderr.strip().partition("\n")[0]
        hint = f"put it there, or `turnout secret set {secret}`"
        raise NotFound(f"no secret {secret!r} in the vault {name!r}: {said}", hint=hint)
    return done.stdout.removesuffix("\n")


def _entry(settings: Config, name: str) -> Mapping[str, object]:
    service = settings.external_services.get(name)
    return service.settings if service is not None else {}
