"""``secret:NAME``: text that stands for a secret, kept as it is until somebody needs the secret itself."""

from __future__ import annotations

import re

PREFIX = "secret:"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")


class Reference(str):
    """Text of the form ``secret:NAME``. `turnout.config.secrets.resolve` gives what it stands for."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return self.removeprefix(PREFIX)


def as_text(text: str) -> str:
    """The text, or a Reference where it is one. ValueError when it tries to be one with a name that cannot be."""
    if not text.startswith(PREFIX):
        return text
    reference = Reference(text)
    if not NAME.match(reference.name):
        raise ValueError(f"{reference.name!r} is no name of a secret")
    return reference
