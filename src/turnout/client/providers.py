"""Compute providers, seen from outside: which there are, what each says of itself, and whether it keeps its promises.

Their code is loaded in a process of its own, ``python -m turnout.testing.contract``, so that what it prints or breaks
stays there. The hub has no part in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from turnout.config import Config, secrets, settings_at
from turnout.config.providing import KnownProvider, known_providers
from turnout.errors import NotFound, ProviderError
from turnout.home import Home, current_directory
from turnout.model.likeness import instead_of

View = dict[str, Any]
_ARGV = (sys.executable, "-P", "-m", "turnout.testing.contract")
#: How long it may take to load a provider, in seconds.
_PATIENCE = 30.0
_AT_A_TIME = 4
_OURS = "turnout"


@dataclass(frozen=True, slots=True)
class Test:
    """Which checks are to be made (all, if none is named), and how long the place may take to start or end a launch."""

    target: str
    checks: Sequence[str] = ()
    patience: float = 60.0


def listed(home: Home) -> list[View]:
    return [_view(each) for each in known_providers(_settings(home)).values()]


def described(home: Home, name: str) -> View:
    """What it says of itself, or why that cannot be had (``broken``): also one that ends or blocks its process."""
    settings = _settings(home)
    known = known_providers(settings)
    if name not in known:
        raise NotFound(f"no compute provider {name!r}", hint=instead_of(name, known))
    (told,) = _said_by([known[name]], settings, home)
    return {**_view(known[name]), **told}


def broken(home: Home) -> list[View]:
    """Each is looked at in a process of its own, but for ours, which share one: none is blamed for another."""
    settings = _settings(home)
    known = known_providers(settings)
    ours = [each for each in known.values() if each.package == _OURS]
    groups = [ours] if ours else []
    groups += [[each] for each in known.values() if each.package != _OURS]
    with ThreadPoolExecutor(_AT_A_TIME) as threads:
        told = threads.map(lambda group: _said_by(group, settings, home), groups)
        found = {each.name: said for group, answers in zip(groups, told, strict=True)
                 for each, said in zip(group, answers, strict=True)}  # fmt: skip
    return [{**_view(known[name]), **found[name]} for name in known if found[name]["broken"]]


def tested(home: Home, test: Test, tell: Callable[[View], None]) -> View:
    asked = _asked_for(home, test.target)
    report: View = {}
    for said in _ask({"do": "test", "provider": asked, "checks": list(test.checks), "patience": test.patience}):
        if "unknown" in said:
            raise NotFound(f"no check {said['unknown']!r}", hint=instead_of(said["unknown"], said["known"]))
        if said.get("broken"):
            message = "\n".join(each for each in (said["broken"], said["trace"]) if each)
            raise ProviderError(message, hint=f"correct it; `turnout provider show {asked['name']}` looks again")
        if "outcome" in said:
            tell(said)
        elif "ended" not in said:
            report = said
        elif not report:
            raise ProviderError(f"its process {said['ended']} amid the checks", hint="what it said before is above")
    return {"target": test.target, **report}


def _asked_for(home: Home, target: str) -> View:
    settings = _settings(home)
    if target not in settings.targets:
        raise NotFound(f"no target {target!r}", hint=instead_of(target, settings.targets))
    provider = settings.provider_of(settings.targets[target])
    known = known_providers(settings)
    if provider not in known:
        raise NotFound(f"no compute provider {provider!r}, which serves {target}", hint=instead_of(provider, known))
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
    definition = dict(code.definition) if code is not None else {}
    return {
        "name": known.name, "code": known.code, "by_path": known.place is not None,
        "python_path": list(known.python_path), "target": name or "",
        "settings": own if target is None else secrets.revealed(own, home),
        "definition": definition if target is None else secrets.revealed(definition, home),
        "username": code.username if code is not None else "",
    }  # fmt: skip


def _said_by(group: Sequence[KnownProvider], settings: Config, home: Home) -> list[View]:
    """What each says of itself, of one process; broken are those of which nothing is heard before that ends."""
    request = {"do": "describe", "providers": [_request(each, settings, home) for each in group]}
    try:
        done = subprocess.run(_ARGV, input=json.dumps(request).encode(), stdout=subprocess.PIPE, timeout=_PATIENCE)
        output, end = done.stdout, _end(done.returncode)
    except subprocess.TimeoutExpired as error:
        output, end = error.output or b"", f"did not answer within {_PATIENCE:g} s"
    told = [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
    silent = {"doc": "", "capabilities": None, "settings": None, "broken": f"its process {end}", "trace": ""}
    return [*told, *(silent for _ in group[len(told) :])]


def _end(code: int) -> str:
    return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"


def _ask(request: View) -> Iterator[View]:
    """What the other process says, line by line; what the provider prints goes to our standard error. Last comes how
    it ``ended``."""
    with subprocess.Popen(_ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        for line in process.stdout:
            yield json.loads(line)
    yield {"ended": _end(process.returncode)}
