"""What a provider is before it does anything: quick to load, and described by data."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from unittest import SkipTest

from turnout.plugin.provider import Capabilities, Provider
from turnout.testing.contract.bench import Bench, expect, plain
from turnout.testing.contract.watch import IO, THREADS, heard

_QUICK = 0.05
#: Libraries that no provider may load before it is used: each takes longer than all of turnout's command line.
_HEAVY = (
    "numpy", "pandas", "scipy", "torch", "tensorflow", "matplotlib", "sqlalchemy", "fastapi", "pydantic", "requests",
    "boto3", "botocore", "google.cloud", "azure", "kubernetes", "ray", "dask", "distributed", "parsl", "celery",
    "paramiko", "asyncio", "multiprocessing",
)  # fmt: skip
_MEASURE = """
import json, sys, time
import turnout.plugin.provider
before = set(sys.modules)
began = time.process_time()
__import__(sys.argv[1])
print(json.dumps([time.process_time() - began, sorted(set(sys.modules) - before)]))
"""


class Describing(Bench):
    def test_importing_it_is_quick(self) -> None:
        """To import the provider's module takes less than 50 ms of processor time: every hub start pays for it."""
        seconds = min(_measure(type(self.provider))[0] for _ in range(3))
        expect(seconds < _QUICK, f"its import takes {seconds * 1000:.0f} ms; import what is large where it is used")

    def test_importing_it_loads_nothing_heavy(self) -> None:
        """To import the provider's module loads no large library: that waits until the provider is used."""
        loaded = _measure(type(self.provider))[1]
        heavy = sorted({each for each in _HEAVY for name in loaded if name == each or name.startswith(f"{each}.")})
        expect(not heavy, f"its import loads {', '.join(heavy)}; import them in the methods that use them")

    def test_its_constructor_does_no_io(self) -> None:
        """To construct it touches no file, process or connection, so that a place that is down keeps no hub from
        starting."""
        with heard(IO) as done:
            self.make_provider(self.settings)
        expect(not done, f"its constructor does IO: {done}")

    def test_its_constructor_starts_no_thread(self) -> None:
        """To construct it starts no thread: the core owns time."""
        with heard(THREADS) as done:
            self.make_provider(self.settings)
        expect(not done, f"its constructor starts a thread: {done}")

    def test_it_has_a_name_and_capabilities(self) -> None:
        """`name` is one word, and `capabilities` says in known words what it can do."""
        kind = type(self.provider)
        name = getattr(kind, "name", None)
        expect(isinstance(name, str) and name and name == "".join(name.split()), f"name is {name!r}, and not one word")
        can = getattr(kind, "capabilities", None)
        if not isinstance(can, Capabilities):
            raise AssertionError(f"capabilities is {can!r}, and not Capabilities(...)")
        expect(can.launches in ("agents", "runs"), f"capabilities.launches is {can.launches!r}: agents or runs")

    def test_settings_are_a_dataclass_whose_defaults_hold(self) -> None:
        """`Settings` is a dataclass that can be made with no arguments: whoever writes no key gets its defaults."""
        schema = self._schema()
        expect(dataclasses.is_dataclass(schema), f"Settings is {schema!r}, and not a dataclass")
        try:
            schema()
        except TypeError as error:
            raise AssertionError(f"Settings() cannot be made: {error}; give every key a default") from error

    def test_every_setting_says_what_it_is_for(self) -> None:
        """Each key of `Settings` has `doc` in its metadata: that is what people read in ``turnout provider show``."""
        fields = dataclasses.fields(self._schema())
        silent = [each.name for each in fields if not str(each.metadata.get("doc", "")).strip()]
        expect(not silent, f"no doc for: {', '.join(silent)}; write field(default=..., metadata={{'doc': '...'}})")

    def test_settings_come_back_from_json_as_they_were(self) -> None:
        """The defaults of `Settings`, and its schema, are plain data: written as JSON and read again they are the
        same. Targets are sent to the hub that way."""
        from turnout.config.shapes import shapes_of

        schema = self._schema()
        shapes = {name: shape.schema() for name, shape in shapes_of(schema).items()}
        expect(plain(shapes) == json.loads(json.dumps(shapes)), "its schema is no JSON")
        values = dataclasses.asdict(schema())
        try:
            again = schema(**plain(values))
        except TypeError as error:
            raise AssertionError(f"its defaults are no JSON: {error}") from error
        expect(plain(dataclasses.asdict(again)) == plain(values), "its defaults change on their way through JSON")

    def test_its_seats_are_known_without_a_look(self) -> None:
        """`seats` gives names of machines, each once, without IO, as does `seat_max_runs`: they are asked all the
        time."""
        with heard(IO) as done:
            seats: list[object] = list(self.provider.seats())
            limits = [self.provider.seat_max_runs(str(each)) for each in seats]
        expect(not done, f"seats() or seat_max_runs() does IO: {done}")
        expect(all(each is None or each > 0 for each in limits), f"seat_max_runs() gives {limits}")
        are_names = all(isinstance(each, str) and each for each in seats)
        expect(are_names and len(set(seats)) == len(seats), f"seats() gives {seats!r}: names, each once, are needed")

    def _schema(self) -> Any:
        schema = type(self.provider).Settings
        if schema is None:
            raise SkipTest("it takes whatever is written (Settings is None)")
        return schema


def _measure(kind: type[Provider]) -> tuple[float, list[str]]:
    """Seconds, and the modules that were loaded, of a fresh Python that imports the class's module."""
    module = kind.__module__
    if module == "__main__":
        raise SkipTest("it is defined in the program itself")
    env: Mapping[str, str] = {**os.environ, "PYTHONPATH": os.pathsep.join(each for each in sys.path if each)}
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, module], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    expect(done.returncode == 0, f"{module} cannot be imported by itself: {done.stderr.strip()[-500:]}")
    seconds, loaded = json.loads(done.stdout.splitlines()[-1])
    return seconds, loaded
