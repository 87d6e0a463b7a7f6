"""What passes through a broker that others can write to: nothing is unpickled that the key does not vouch for."""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import stat
from pathlib import Path
from typing import Any

from turnout.errors import InvalidInput, TurnoutError

_LEAST = 16  # bytes of a key


class Forged(TurnoutError):
    """What came was not signed with our key, or for another call, or as something else."""

    code = "forged"


class Signer:
    """Of executors and workers that have the same `key`."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _LEAST:
            raise InvalidInput(f"a key of {len(key)} bytes is too short", hint=f"take at least {_LEAST} random ones")
        self._key = key

    def sign(self, what: str, number: str, value: Any) -> bytes:
        """The pickle of `value`, in front of it what shows that it is `what` ("call" or "outcome") of call `number`."""
        pickled = pickle.dumps(value, 5)
        return self._proof(what, number, pickled) + pickled

    def open(self, what: str, number: str, signed: bytes) -> Any:
        """Forged unless it is just that; then nothing of it has been unpickled."""
        proof, pickled = signed[:32], memoryview(signed)[32:]
        if not hmac.compare_digest(proof, self._proof(what, number, pickled)):
            raise Forged(f"the {what} {number} is not signed with our key")
        return pickle.loads(pickled)

    def _proof(self, what: str, number: str, pickled: bytes | memoryview) -> bytes:
        made = hmac.new(self._key, f"{what}\0{number}\0".encode(), hashlib.sha256)
        made.update(pickled)
        return made.digest()


def read_key(path: Path) -> bytes:
    """InvalidInput when there is none, or when others can read it."""
    try:
        mode = os.stat(path).st_mode
        key = path.read_bytes().strip()
    except OSError as error:
        raise InvalidInput(f"the key cannot be read: {error}", hint="openssl rand -hex 32 > KEY") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InvalidInput(f"others can read the key in {path}", hint=f"chmod 600 {path}")
    return key
