"""What came of a batch of calls: counts, failures with their tracebacks, and timings, by function; kept as a job.

``python -m turnout.futures.record FILE`` is the job's one run: it logs and prints what is in the file.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from turnout.errors import TurnoutError
from turnout.futures.errors import RemoteTraceback
from turnout.futures.folders import ExecutorFolder, forgotten_folders
from turnout.futures.packing import said
from turnout.home import Home

FILE = "calls.json"
_MOST_ERRORS = 100  # that are told apart
_MOST_FAILURES = 20  # that are kept with their tracebacks, of each function
_EACH_SECONDS = 1.0  # between two times that it is saved


@dataclass(slots=True)
class Tally:
    """Of one function. `seconds` is how long workers were at it."""

    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    longest: float = 0.0
    errors: dict[str, int] = field(default_factory=dict)
    traces: list[str] = field(default_factory=list)


class Record:
    """From any thread. It is on disk while calls are made, and becomes a job in the end: our own, or, when this process
    is killed, that of the next one that keeps a record."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._began = time.time()
        self._tallies: dict[str, Tally] = {}
        self._saving = threading.Lock()
        self._saved = float("-inf")
        self._folder: ExecutorFolder | None = None

    def count(
        self, function: Any, calls: int, seconds: float,
        raised: Mapping[str, int] | None = None, first: BaseException | None = None,
    ) -> None:  # fmt: skip
        """So many calls of it were made together; how many raised what, and the first of that."""
        trace = "" if first is None else _trace(first)
        with self._lock:
            tally = self._tallies.setdefault(_name_of(function), Tally())
            tally.calls += calls
            tally.seconds += seconds
            tally.longest = max(tally.longest, seconds / max(1, calls))
            for text, count in (raised or {}).items():
                tally.failed += count
                kept = text if text in tally.errors or len(tally.errors) < _MOST_ERRORS else "others"
                tally.errors[kept] = tally.errors.get(kept, 0) + count
            if trace and len(tally.traces) < _MOST_FAILURES:
                tally.traces.append(trace)
        if time.monotonic() - self._saved > _EACH_SECONDS:
            self._save()

    def count_failure(self, function: Any, seconds: float, error: BaseException, calls: int = 1) -> None:
        """All of them failed in one way."""
        self.count(function, calls, seconds, {said(error): calls}, error)

    def keep(self) -> None:
        """Hands it over as a job, if there is anything to keep, and what others could not because they were killed.
        What cannot be handed over is left for the next one, and harms nothing."""
        if not self._tallies:
            return
        self._save()
        try:
            _submit(self._content())
            if self._folder is not None:
                self._folder.remove()
            for folder in forgotten_folders(_where()):
                with contextlib.suppress(OSError, ValueError):  # nothing was saved
                    _submit({**json.loads((folder / FILE).read_text(encoding="utf-8")), "interrupted": True})
        except (TurnoutError, OSError) as error:
            why = error.message if isinstance(error, TurnoutError) else error
            print(f"turnout: the calls are not recorded yet: {why}", file=sys.stderr)

    def _content(self) -> dict[str, Any]:
        with self._lock:
            told = {name: asdict(tally) for name, tally in self._tallies.items()}
        return {"name": self._name, "seconds": time.time() - self._began, "functions": told}

    def _save(self) -> None:
        """For who comes after us, if we are killed; where that can be."""
        with self._saving, contextlib.suppress(OSError):
            self._saved = time.monotonic()
            if self._folder is None:
                self._folder = ExecutorFolder("calls", _where())
            new = Path(self._folder.path, f"{FILE}.new")
            new.write_text(json.dumps(self._content()), encoding="utf-8")
            new.rename(new.with_name(FILE))


def _where() -> str:
    folder = Home.from_env().root / "calls"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return str(folder)


def _submit(content: dict[str, Any]) -> None:
    from turnout.client import Client

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, FILE).write_text(json.dumps(content), encoding="utf-8")
        command = [sys.executable, "-m", "turnout.futures.record", FILE]
        Client().submit_command(command, cwd=folder, name=content["name"], target="local")


def _trace(error: BaseException) -> str:
    """That of where it was raised."""
    cause = error.__cause__
    if isinstance(cause, RemoteTraceback):
        return str(cause.args[0])
    return "".join(traceback.format_exception(error))


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def show(file: Path) -> int:
    """In the run: what was kept becomes its metrics and its output. Exit code 1 when calls failed, or were not made."""
    import turnout

    kept = json.loads(file.read_text(encoding="utf-8"))
    calls, failed = (sum(each[what] for each in kept["functions"].values()) for what in ("calls", "failed"))
    turnout.log(calls=calls, failed=failed, seconds=kept["seconds"])
    print(f"{calls} calls in {kept['seconds']:.1f} s, {failed} failed")
    if kept.get("interrupted"):
        print("Their program was killed before all were made.")
    for name, tally in kept["functions"].items():
        mean = tally["seconds"] / max(1, tally["calls"])
        turnout.log(**{f"{name}.calls": tally["calls"], f"{name}.failed": tally["failed"], f"{name}.mean": mean})
        print(f"{name}: {tally['calls']} calls, {mean:.4g} s each, {tally['longest']:.4g} s at most")
        for error, count in sorted(tally["errors"].items(), key=lambda each: (-each[1], each[0])):
            print(f"  {count} × {error}")
        for trace in tally["traces"]:
            print(trace)
    return 1 if failed or kept.get("interrupted") else 0


if __name__ == "__main__":
    sys.exit(show(Path(sys.argv[1])))
