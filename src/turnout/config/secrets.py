"""What ``secret:NAME`` stands for: from the environment, a file that only you can read, the keyring, or a vault."""

from __future__ import annotations

import contextlib
import fcntl
import importlib
import importlib.util
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnout.config.reference import NAME, PREFIX, Reference
from turnout.config.services import ask_vault
from turnout.errors import InvalidInput, NotFound, Unavailable
from turnout.home import Home, write_private

if TYPE_CHECKING:
    from turnout.config.sections import Config

VARIABLE = "TURNOUT_SECRET_"
_SERVICE = "turnout"
_LONGEST = 64 << 10


@dataclass(frozen=True, slots=True)
class Known:
    """A secret's name, and where it is: ``environment``, ``file`` or ``keyring``. Never its value."""

    name: str
    place: str


def resolve(name: str, home: Home | None = None) -> str:
    """The secret. NotFound says where it was looked for. A name may be given as ``secret:NAME`` too."""
    name = _checked(Reference(name).name)
    home = home or Home.from_env()
    if (found := os.environ.get(VARIABLE + name)) is not None:
        return found
    kept = _read(home)
    value = kept.get(name)
    if value is None:
        value = _from_keyring(name, must_answer=name in kept)
    if value is None:
        value = ask_vault(name, _settings(home))
    if value is None:
        looked = f"the environment ({VARIABLE}{name}), {secrets_file(home)}, " + (
            "and the keyring" if has_keyring() else "and no keyring (the package `keyring` is not installed)"
        )
        raise NotFound(f"no secret {name!r} in {looked}", hint=f"`turnout secret set {name}` asks for it")
    return value


def revealed(settings: Mapping[str, object], home: Home | None = None) -> dict[str, object]:
    """Settings with what their references stand for, however deep they are: only for who hands them over at once."""
    return {name: _revealed(value, home) for name, value in settings.items()}


def _revealed(value: object, home: Home | None) -> object:
    if isinstance(value, dict):
        return revealed(value, home)
    if isinstance(value, list | tuple):
        return [_revealed(each, home) for each in value]
    return resolve(value, home) if isinstance(value, str) and value.startswith(PREFIX) else value


def store(name: str, value: str, home: Home | None = None, *, in_keyring: bool = False) -> Known:
    """Keeps it, in the place of an earlier one of that name. Returning means that it is on the disk."""
    _checked(name)
    if not value or len(value.encode(errors="surrogateescape")) > _LONGEST or "\0" in value:
        raise InvalidInput(f"the value of secret {name!r} is empty or too long", hint="give up to 64 KB of text")
    home = home or Home.from_env()
    if in_keyring:
        _keyring("set_password", name, value)
    with _changing(home) as kept:
        kept[name] = None if in_keyring else value
    return Known(name, "keyring" if in_keyring else "file")


def remove(name: str, home: Home | None = None) -> Known:
    """Forgets it. NotFound when neither file nor keyring has it; the environment is not ours to change."""
    _checked(name)
    home = home or Home.from_env()
    if name not in _read(home):
        where = f"it is in the environment: unset {VARIABLE}{name}" if VARIABLE + name in os.environ else ""
        raise NotFound(f"no secret {name!r} is kept", hint=where or "`turnout secret list` shows those that are")
    value = _read(home)[name]
    if value is None:
        _keyring("delete_password", name)
    with _changing(home) as kept:
        kept.pop(name, None)
    return Known(name, "keyring" if value is None else "file")


def known(home: Home | None = None) -> list[Known]:
    """All of them, by name; where one is in several places, the one that counts."""
    found = {name: "keyring" if value is None else "file" for name, value in _read(home or Home.from_env()).items()}
    found |= {name.removeprefix(VARIABLE): "environment" for name in os.environ if name.startswith(VARIABLE)}
    return [Known(name, place) for name, place in sorted(found.items())]


def secrets_file(home: Home) -> str:
    return str(home.root / "secrets.json")


def has_keyring() -> bool:
    return importlib.util.find_spec("keyring") is not None


def _checked(name: str) -> str:
    if not NAME.match(name):
        raise InvalidInput(f"{name!r} is no name of a secret", hint="use letters, digits and _, as in WANDB_KEY")
    return name


def _read(home: Home) -> dict[str, str | None]:
    """The file's names and values; a value that is None is in the keyring. Refuses a file that others can read."""
    path = secrets_file(home)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}", hint="make it a file of your own") from error
    with os.fdopen(fd, encoding="utf-8") as file:
        about = os.fstat(fd)
        if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise InvalidInput(f"others can read {path}", hint=f"run: chmod 600 {path}, and change what was in it")
        try:
            found = json.load(file)
        except ValueError as error:
            raise InvalidInput(f"{path} is not JSON: {error}", hint="repair or remove it") from error
    if not isinstance(found, dict) or not all(value is None or isinstance(value, str) for value in found.values()):
        raise InvalidInput(f"{path} does not hold names and texts", hint="repair or remove it")
    return found


@contextlib.contextmanager
def _changing(home: Home) -> Iterator[dict[str, str | None]]:
    """One at a time: two who set different secrets at once both succeed."""
    home.make()
    lock = os.open(home.root / "secrets.lock", os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = _read(home)
        yield kept
        write_private(home.root / "secrets.json", json.dumps(kept, indent=1))
    finally:
        os.close(lock)


def _keyring(call: str, *args: str) -> Any:
    """Calls the keyring, if there is one."""
    if not has_keyring():
        raise Unavailable("there is no keyring here", hint="pip install keyring, or keep the secret in the file")
    library, errors = importlib.import_module("keyring"), importlib.import_module("keyring.errors")
    try:
        return getattr(library, call)(_SERVICE, *args)
    except errors.KeyringError as error:
        raise Unavailable(f"the keyring does not answer: {error}", hint="unlock it, and try again") from error


def _settings(home: Home) -> Config:
    from turnout.config.layers import load

    return load(home.config_file)


def _from_keyring(name: str, *, must_answer: bool) -> str | None:
    """None also where there is no keyring that answers, as on most servers, unless the secret is known to be in it."""
    try:
        found = _keyring("get_password", name) if has_keyring() else None
    except Unavailable:
        if must_answer:
            raise
        return None
    return None if found is None else str(found)
