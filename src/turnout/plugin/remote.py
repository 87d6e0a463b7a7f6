"""The contract between two processes: what its methods are given and answer, as values that JSON can hold.

`plain` writes any of them; `METHODS` tells how each method's arguments and answer are read again.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from turnout.plugin.foreign import Draft, DraftRun, Ended, StatusQuery
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Need, Observation, Phase, Work
from turnout.plugin.telling import Known, News


@dataclass(frozen=True)
class Plugin:
    """A class by its `path` (``package.module.Class``) and what an instance is made with: its `settings`, and, for
    interfaces that ask for them, the name of the target, its `definition` as written, the kind of service, who uses it.
    `records` is a file in which it may keep what it must not forget."""

    path: str
    target: str
    service: str
    settings: Mapping[str, object]
    definition: Mapping[str, object]
    username: str
    records: str


@dataclass(frozen=True)
class Description:
    """What the class of a plugin says of itself: `seats` with how many runs each takes at once, if that is said.
    `foreign`: it is `Foreign`, too; `telling`: it is `Telling`."""

    name: str
    capabilities: Capabilities
    seats: Mapping[str, Optional[int]] = field(default_factory=dict)
    foreign: bool = False
    telling: bool = False


def plain(value: Any) -> Any:
    """The value as JSON can hold it."""
    if isinstance(value, Failure):
        return {"failure": {"message": value.message, "kind": value.kind, "retry_after": value.retry_after}}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return value


def _launch(raw: Dict[str, Any]) -> Launch:
    work = None if raw["work"] is None else Work(**raw["work"])
    return Launch(**{**raw, "stdin": base64.b64decode(raw["stdin"]), "need": Need(**raw["need"]), "work": work})


def _started(raw: Any) -> Union[Handle, Failure]:
    return raw if isinstance(raw, str) else Failure(**_keywords(raw["failure"]))


def _keywords(raw: Dict[str, Any]) -> Dict[str, Any]:
    return {name: raw[name] for name in ("message", "kind", "retry_after")}


def _observations(raw: Dict[str, Any]) -> Dict[Handle, Observation]:
    return {handle: Observation(**{**each, "phase": Phase(each["phase"])}) for handle, each in raw.items()}


def _draft(raw: Dict[str, Any]) -> Draft:
    return Draft(**{**raw, "runs": _runs(raw["runs"])})


def _runs(raw: List[Any]) -> List[DraftRun]:
    return [DraftRun(**each) for each in raw]


def description(raw: Dict[str, Any]) -> Description:
    return Description(**{**raw, "capabilities": Capabilities(**raw["capabilities"])})


def _ended(raw: List[Any]) -> List[Ended]:
    return [Ended(**each) for each in raw]


def _known(raw: Dict[str, Any]) -> Dict[Handle, Known]:
    return {handle: Known(**each) for handle, each in raw.items()}


def _news(raw: Dict[str, Any]) -> Dict[Handle, News]:
    decode = base64.b64decode
    return {handle: News(decode(each["records"]), decode(each["output"])) for handle, each in raw.items()}


def _as_it_is(raw: Any) -> Any:
    return raw


@dataclass(frozen=True)
class Method:
    """How the arguments are read (one reader for each), and the answer."""

    arguments: Tuple[Callable[[Any], Any], ...] = ()
    answer: Callable[[Any], Any] = _as_it_is

    def read(self, raw: Sequence[Any]) -> List[Any]:
        return [reader(each) for reader, each in zip(self.arguments, raw)]


METHODS = {
    "submit": Method((lambda raw: [_launch(each) for each in raw],), lambda raw: [_started(each) for each in raw]),
    "observe": Method((_as_it_is,), _observations),
    "cancel": Method((_as_it_is,)),
    "find": Method((_as_it_is,)),
    "check": Method((), lambda raw: [Finding(**each) for each in raw]),
    "clear": Method(),
    "rest": Method(),
    "describe": Method((), description),
    "adjust": Method((_draft,), _draft),
    "status": Method((lambda raw: StatusQuery(**raw),)),
    "cancel_runs": Method((_as_it_is, _as_it_is, _as_it_is), _ended),
    "cancel_job": Method((_as_it_is, _runs), _ended),
    "cancel_user": Method((_as_it_is,), _ended),
    "news": Method((_known,), _news),
    "stop": Method((_as_it_is,)),
}
