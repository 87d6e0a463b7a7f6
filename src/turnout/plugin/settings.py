"""Reading the settings that a provider is given. Keys are as a user writes them, ``ssh-options``, or as Python has
them, ``ssh_options``."""

from __future__ import annotations

from typing import List, Mapping


def value(settings: Mapping[str, object], key: str, default: object = None) -> object:
    return settings.get(key, settings.get(key.replace("-", "_"), default))


def text(settings: Mapping[str, object], key: str, default: str = "") -> str:
    """Empty where it is said to be nothing; `default` where nothing is said."""
    return str(value(settings, key, default) or "")


def texts(settings: Mapping[str, object], key: str) -> List[str]:
    found = value(settings, key)
    return [str(each) for each in found] if isinstance(found, (list, tuple)) else []
