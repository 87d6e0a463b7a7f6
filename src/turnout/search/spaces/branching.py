"""Values that bring parameters along, as every form of space writes them: ``{_name: mlp, width: [64, 256]}``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turnout.plugin.space import Branch, Parameter
from turnout.search.spaces.drawing import NAME

#: Makes a parameter of its name and what was written for it.
Read = Callable[[str, object], Parameter]


def read_each(content: Mapping[str, object], read: Read, above: str = "") -> dict[str, Parameter]:
    return {str(name): read(f"{above}{name}", value) for name, value in content.items()}


def read_option(name: str, value: object, read: Read) -> object:
    """One value of the choice `name`, as it is or as a branch."""
    if not isinstance(value, Mapping) or NAME not in value:
        return value
    branch = str(value[NAME])
    below = {key: each for key, each in value.items() if key != NAME}
    return Branch(branch, read_each(below, read, f"{name}/{branch}/"))
