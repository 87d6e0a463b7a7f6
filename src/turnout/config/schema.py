"""The JSON schema of a settings file, for editors."""

from __future__ import annotations

from typing import Any, cast

from turnout import registry
from turnout.config.checking import published
from turnout.config.sections import ROOT
from turnout.config.shapes import shapes_of


def json_schema() -> dict[str, object]:
    """What installed providers publish of their entries is part of it."""
    schema = cast(dict[str, Any], ROOT.schema())
    files = {"description": "Files whose settings come below those of this one.", "type": ["array", "string"]}
    schema["properties"] = {"include": files, **schema["properties"]}
    schema["type"] = "object"
    for section, key in (("external-services", "type"), ("compute-targets", "service")):
        schema["properties"][section]["additionalProperties"]["allOf"] = list(_by_provider(key))
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "turnout settings", **schema}


def _by_provider(key: str) -> Any:
    for name in registry.provider_names():
        schema = published(name)
        if schema is not None:
            own = {each: shape.schema() for each, shape in shapes_of(schema).items()}
            named = {"properties": {key: {"const": name}}, "required": [key]}
            yield {"if": named, "then": {"properties": own}}
