"""What came of a batch of calls: counts, failures with their tracebacks, and timings, by function; kept as a job.

``python -m turnout.futures.record FILE`` is the job's one run: it logs and prints what is in the file.
"""

from __future__ import annotations

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

FILE = "calls.json"
_MOST_ERRORS = 100  # that are told apart
_MOST_FAILURES = 20  # that are kept with their tracebacks, of each function


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
    """From any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._began = time.time()
        self._tallies: dict[str, Tally] = {}

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

    def count_failure(self, function: Any, seconds: float, error: BaseException, calls: int = 1) -> None:
        """All of them failed in one way."""
        self.count(function, calls, seconds, {f"{type(error).__name__}: {error}": calls}, error)

    def keep(self) -> None:
        """Hands it over as a job, if there is anything to keep. That it cannot be kept is said, and harms nothing."""
        with self._lock:
            told = {name: asdict(tally) for name, tally in self._tallies.items()}
        if told:
            try:
                self._submit(told)
            except TurnoutError as error:
                print(f"turnout: the calls are not recorded: {error.message}", file=sys.stderr)

    def _submit(self, told: dict[str, Any]) -> None:
        from turnout.client import Client

        with tempfile.TemporaryDirectory() as folder:
            content = {"seconds": time.time() - self._began, "functions": told}
            Path(folder, FILE).write_text(json.dumps(content), encoding="utf-8")
            command = [sys.executable, "-m", "turnout.futures.record", FILE]
            Client().submit_command(command, cwd=folder, name=self._name, target="local")


def _trace(error: BaseException) -> str:
    """That of where it was raised."""
    cause = error.__cause__
    if isinstance(cause, RemoteTraceback):
        return str(cause.args[0])
    return "".join(traceback.format_exception(error))


def _name_of(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def show(file: Path) -> int:
    """In the run: what was kept becomes its metrics and its output. Exit code 1 when calls failed."""
    import turnout

    kept = json.loads(file.read_text(encoding="utf-8"))
    calls, failed = (sum(each[what] for each in kept["functions"].values()) for what in ("calls", "failed"))
    turnout.log(calls=calls, failed=failed, seconds=kept["seconds"])
    print(f"{calls} calls in {kept['seconds']:.1f} s, {failed} failed")
    for name, tally in kept["functions"].items():
        mean = tally["seconds"] / max(1, tally["calls"])
        turnout.log(**{f"{name}.calls": tally["calls"], f"{name}.failed": tally["failed"], f"{name}.mean": mean})
        print(f"{name}: {tally['calls']} calls, {mean:.4g} s each, {tally['longest']:.4g} s at most")
        for error, count in tally["errors"].items():
            print(f"  {count} × {error}")
        for trace in tally["traces"]:
            print(trace)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(show(Path(sys.argv[1])))
