"""What is sent to the hub, as bytes."""

from __future__ import annotations

import json
from typing import Any


def encode(value: object) -> bytes:
    """As JSON; of our own dataclasses, their fields."""
    return json.dumps(value, default=_fields).encode()


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
