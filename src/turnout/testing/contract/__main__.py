"""``python -m turnout.testing.contract``: loads providers in a process of their own, describes or checks them.

The request is the JSON on standard input; answers go out as lines of JSON. What a provider prints goes to standard
error.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from turnout import registry
from turnout.compat import aliases, loading
from turnout.config.shapes import shapes_of
from turnout.errors import TurnoutError
from turnout.plugin.provider import Failure, Provider
from turnout.plugin.remote import Plugin
from turnout.testing.contract import Lab, ProviderContract
from turnout.testing.contract.bench import plain
from turnout.testing.contract.report import checks_of, make

Request = dict[str, Any]
#: What every provider is told, for one that is only looked at: its constructor does no IO.
_COMMON = dict.fromkeys(("nodes_directory", "sockets_directory", "agent_socket"), "/nowhere")


def main() -> None:
    request: Request = json.load(sys.stdin)
    with open(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        aliases.install()
        if request["do"] == "describe":
            for each in request["providers"]:
                _say(answers, _describe(each))
            sys.stderr.flush()
            os._exit(0)  # whatever they have started goes on no longer
        else:
            _test(request, answers)


def _test(request: Request, answers: TextIO) -> None:
    names = [f"test_{name.removeprefix('test_')}" for name in request["checks"]]
    known = checks_of(ProviderContract)
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        shown = [name.removeprefix("test_") for name in known]
        _say(answers, {"unknown": unknown.removeprefix("test_"), "known": shown})
        return
    asked, patience = request["provider"], float(request["patience"])
    with tempfile.TemporaryDirectory(prefix="kit-") as folder:
        common = dict.fromkeys(_COMMON, folder)
        told = _description_of(lambda: type(_construct(asked, {**asked["settings"], **common})))
    if told["broken"]:  # no check could say more than this
        _say(answers, told)
        return

    class Target(ProviderContract):
        def make_provider(self, settings: Mapping[str, object]) -> Provider:
            return _construct(asked, {**asked["settings"], **settings})

        def make_lab(self) -> Lab:
            lab = Lab()
            lab.patience = patience
            return lab

    report = make(Target, names, lambda outcome: _say(answers, dataclasses.asdict(outcome)))
    _say(answers, report.as_dict())


def _describe(asked: Request) -> dict[str, object]:
    return _description_of(lambda: _kind(asked))


def _description_of(get: Callable[[], type[Provider]]) -> dict[str, object]:
    """What the class says of itself, or why it cannot be had."""
    try:
        kind = get()
        return {
            "doc": " ".join((kind.__doc__ or "").split()), "capabilities": dataclasses.asdict(kind.capabilities),
            "settings": _settings(kind), "broken": "", "trace": "",
        }  # fmt: skip
    except TurnoutError as error:
        message, _, trace = error.message.partition("\n")
        return _broken(message, trace)
    except Failure as error:
        return _broken(error.message, loading.trace_of(error))
    except BaseException as error:
        return _broken(f"{type(error).__name__}: {error}", traceback.format_exc())


def _broken(message: str, trace: str) -> dict[str, object]:
    return {"doc": "", "capabilities": None, "settings": None, "broken": message, "trace": trace.strip()}


def _kind(asked: Request) -> type[Provider]:
    """Its class, or what of ours stands around that."""
    if not asked["by_path"]:
        return registry.provider_class(asked["name"])
    return type(_construct(asked, {**asked["settings"], **_COMMON}))


def _construct(asked: Request, settings: Mapping[str, object]) -> Provider:
    if not asked["by_path"]:
        return registry.provider_class(asked["name"])(settings)
    sys.path[:0] = [each for each in asked["python_path"] if each not in sys.path]
    plugin = Plugin(
        path=asked["code"], target=asked["target"], service=asked["name"], settings=settings,
        definition=asked["definition"], username=asked["username"],
        records=os.path.join(str(settings["sockets_directory"]), "records.jsonl"),
    )  # fmt: skip
    return loading.make(plugin)


def _settings(kind: type[Provider]) -> list[dict[str, object]] | None:
    """The keys it takes; None where it takes whatever is written."""
    if kind.Settings is None:
        return None
    defaults = {each.name.replace("_", "-"): _default(each) for each in dataclasses.fields(kind.Settings)}
    return [
        {"key": key, "kind": shape.words, "default": defaults[key], "doc": shape.doc}
        for key, shape in shapes_of(kind.Settings).items()
    ]


def _default(each: dataclasses.Field[Any]) -> object:
    value = each.default_factory() if each.default_factory is not dataclasses.MISSING else each.default
    try:
        return None if value is dataclasses.MISSING else plain(value)
    except TypeError:
        return str(value)


def _say(answers: TextIO, value: Mapping[str, object]) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


main()
