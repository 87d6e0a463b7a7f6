"""Which form a space was written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from turnout.errors import InvalidInput
from turnout.plugin.space import Parameter
from turnout.search.spaces import hydra, nni, written, xt


def read_space(content: Mapping[str, Any] | Sequence[str]) -> dict[str, Parameter]:
    """The content of an HP file of XT, of a search space of NNI, one of ours, or the overrides of Hydra, as a list of
    texts. InvalidInput names the form that it was taken for, and the parameter that is wrong."""
    form, read = _form_of(content)
    try:
        space = cast(dict[str, Parameter], read(content))
    except InvalidInput as error:
        if not form:
            raise
        raise InvalidInput(f"{error.message} (read as {form})", hint=error.hint) from error
    if not space:
        raise InvalidInput("there is no parameter", hint="write `name: value` on each line, such as `lr: [0.1, 0.2]`")
    return space


def _form_of(content: Mapping[str, Any] | Sequence[str]) -> tuple[str, Any]:
    """What people call the form, nothing for ours; and who reads it."""
    if not isinstance(content, Mapping):
        return "an override of Hydra", hydra.read
    if any(top in content for top in xt.TOPS) or (len(content) == 1 and isinstance(content.get(xt.OLD_TOP), Mapping)):
        return "an HP file of XT", xt.read_file
    if any(isinstance(entry, Mapping) and nni.TYPE in entry for entry in content.values()):
        return "a search space of NNI", nni.read
    return "", written.read
