"""The kit finds faults: each check fails for a provider that breaks its promise, and says what is wrong."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.contract.mutants import MUTANTS, UnknownIsAlive
from tests.contract.yard import Order, YardProvider
from tests.contract.yard_lab import YardContract
from turnout.plugin.provider import Handle, Launch
from turnout.testing import ProviderContract
from turnout.testing.contract.report import Outcome, checks_of, make


def check(name: str, kind: type[YardProvider], patience: float) -> Outcome:
    contract = type("Contract", (YardContract,), {"kind": kind, "patience": patience})
    (outcome,) = make(contract, [f"test_{name}"]).checks
    return outcome


def test_every_check_has_a_provider_that_it_catches() -> None:
    assert [name.removeprefix("test_") for name in checks_of(ProviderContract)] == list(MUTANTS)


def test_every_check_says_what_is_promised() -> None:
    assert all(getattr(ProviderContract, name).__doc__ for name in checks_of(ProviderContract))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_promise_is_seen(name: str) -> None:
    outcome = check(name, MUTANTS[name], patience=1.5)
    assert outcome.outcome == "failed" and outcome.reason, outcome


def test_what_is_unknown_and_called_alive_is_seen() -> None:
    outcome = check("observing_unknown_handles_is_no_error", UnknownIsAlive, patience=1.5)
    assert outcome.outcome == "failed"


def test_a_check_that_hangs_is_over_some_time() -> None:
    class Hangs(YardProvider):
        def seats(self) -> tuple[str, ...]:
            while True:
                pass

    outcome = check("its_seats_are_known_without_a_look", Hangs, patience=0.1)
    assert outcome.outcome == "failed" and "not over after" in outcome.reason


class Stillborn(YardProvider):
    """What it starts complains, and ends."""

    def order(self, launch: Launch) -> Order:
        return replace(super().order(launch), argv=("sh", "-c", "cat > /dev/null; echo no such interpreter"))


def test_a_launch_that_ends_unheard_is_told_with_what_it_printed_and_no_other_is_waited_for() -> None:
    contract = type("Contract", (YardContract,), {"kind": Stillborn, "patience": 30.0})
    first, second = make(contract, ["test_a_launch_starts_one_program", "test_arguments_arrive_intact"]).checks
    assert first.outcome == "failed" and first.seconds < 10
    assert first.reason.endswith("gone before it was heard; it printed:\nno such interpreter")
    assert (second.outcome, second.reason) == ("skipped", "not even the first launch was heard")


def test_a_traceback_shows_the_code_of_the_provider_alone() -> None:
    class Raises(YardProvider):
        def find(self, token: str) -> Handle | None:
            raise ValueError("half a number")

    outcome = check("find_of_an_unknown_token_is_none", Raises, patience=1.5)
    assert outcome.reason == "ValueError: half a number" and "test_kit.py" in outcome.trace
    assert "turnout/testing" not in outcome.trace


def test_the_report_is_data() -> None:
    seen: list[Outcome] = []
    names = ["test_it_has_a_name_and_capabilities", "test_a_run_begins_in_a_copy_of_its_files"]
    report = make(YardContract, names, seen.append)
    told = json.loads(json.dumps(report.as_dict()))
    assert (told["provider"], told["code"]) == ("yard", "tests.contract.yard:YardProvider")
    assert (told["passed"], told["failed"], told["skipped"]) == (1, 0, 1)
    assert told["capabilities"]["records"] is True
    assert [each["outcome"] for each in told["checks"]] == ["passed", "skipped"] == [each.outcome for each in seen]
    assert told["checks"][1]["reason"] == "it launches agents, who bring the files themselves"
    assert told["checks"][0]["promise"].startswith("`name` is one word")
