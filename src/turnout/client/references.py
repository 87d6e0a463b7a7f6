"""Secrets that a run's environment names: whether they are there, and which have to travel with the job."""

from __future__ import annotations

from collections.abc import Mapping

from turnout.config.reference import PREFIX, Reference
from turnout.home import Home


def to_send(env: Mapping[str, str], home: Home, *, is_here: bool) -> dict[str, str]:
    """As variables, those that the runs' node cannot find by itself. NotFound for one that is nowhere.

    A node on this machine reads the file of this user; what is in this environment or the keyring only we can see.
    """
    names = {Reference(value).name for value in env.values() if value.startswith(PREFIX)}
    if not names:
        return {}
    from turnout.config import secrets

    values = {name: secrets.resolve(name, home) for name in names}
    at_hand = {each.name for each in secrets.known(home) if each.place == "file"} if is_here else set()
    return {secrets.VARIABLE + name: value for name, value in values.items() if name not in at_hand}
