"""Compute providers, seen from outside: which there are, what each says of itself, and whether it keeps its promises.

Their code is loaded in a process of its own, ``python -m turnout.testing.contract``, so that what it prints or breaks
stays there. The hub has no part in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from turnout.config import Config, secrets, settings_at
from turnout.config.problem import nearest
from turnout.config.providing import KnownProvider, known_providers
from turnout.errors import Internal, NotFound, ProviderError
from turnout.home import Home, current_directory

View = dict[str, Any]
_PROGRAM = "turnout.testing.contract"


@dataclass(frozen=True, slots=True)
class Test:
    """Which checks are to be made (all, if none is named), and how long the place may take to start or end a launch."""

    target: str
    checks: Sequence[str] = ()
    patience: float = 60.0


def listed(home: Home) -> list[View]:
    return [_view(each) for each in known_providers(_settings(home)).values()]


def described(home: Home, name: str) -> View:
    settings = _settings(home)
    known = known_providers(settings)
    if name not in known:
        raise NotFound(f"no compute provider {name!r}", hint=nearest(name, known))
    (told,) = _ask({"do": "describe", "providers": [_request(known[name], settings, home)]})
    return {**_view(known[name]), **told}


def broken(home: Home) -> list[View]:
    settings = _settings(home)
    known = known_providers(settings)
    asked = [_request(each, settings, home) for each in known.values()]
    told = list(_ask({"do": "describe", "providers": asked}))
    return [{**_view(each), **said} for each, said in zip(known.values(), told, strict=True) if said["broken"]]


def tested(home: Home, test: Test, tell: Callable[[View], None]) -> View:
    asked = _asked_for(home, test.target)
    report: View | None = None
    for said in _ask({"do": "test", "provider": asked, "checks": list(test.checks), "patience": test.patience}):
        if "unknown" in said:
            raise NotFound(f"no check {said['unknown']!r}", hint=nearest(said["unknown"], said["known"]))
        if said.get("broken"):
            message = "\n".join(each for each in (said["broken"], said["trace"]) if each)
            raise ProviderError(message, hint=f"correct it; `turnout provider show {asked['name']}` looks again")
        if "outcome" in said:
            tell(said)
        else:
            report = said
    if report is None:
        raise Internal("the kit ended before its checks were made", hint="what it said is above")
    return {"target": test.target, **report}


def _asked_for(home: Home, target: str) -> View:
    settings = _settings(home)
    if target not in settings.targets:
        raise NotFound(f"no target {target!r}", hint=nearest(target, settings.targets))
    provider = settings.provider_of(settings.targets[target])
    known = known_providers(settings)
    if provider not in known:
        raise NotFound(f"no compute provider {provider!r}, which serves {target}", hint=nearest(provider, known))
    return _request(known[provider], settings, home, target)


def _settings(home: Home) -> Config:
    return settings_at(current_directory(), home)


def _view(each: KnownProvider) -> View:
    told = asdict(each)
    del told["python_path"]
    return {**told, "targets": list(each.targets)}


def _request(known: KnownProvider, settings: Config, home: Home, target: str | None = None) -> View:
    """What another process has to know to load it, and to make one as that target (or the first of its) has it."""
    name = target or (known.targets[0] if known.targets else None)
    entry = settings.resolved(name) if name is not None else None
    own = dict(entry.settings) if entry is not None else {}
    code = entry.code if entry is not None else None
    return {
        "name": known.name, "code": known.code, "by_path": known.place is not None,
        "python_path": list(known.python_path), "target": name or "",
        "settings": own if target is None else secrets.revealed(own, home),
        "definition": dict(code.definition) if code is not None else {},
        "username": code.username if code is not None else "",
    }  # fmt: skip


def _ask(request: View) -> Iterator[View]:
    """What the other process says, line by line; what the provider prints goes to our standard error."""
    argv = [sys.executable, "-P", "-m", _PROGRAM]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
