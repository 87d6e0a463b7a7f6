"""What an agent makes of a supervisor that is gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from turnout.agent.attempt import Attempt, Phase
from turnout.agent.ender import Ender
from turnout.agent.holding import Holding, poll_numbers
from turnout.agent.rundir import RunDir
from turnout.wire.messages import Grant, NodeFacts


class Later:
    """A mailbox whose owner has all the time in the world."""

    def post_later(self, seconds: float, work: Callable[[], None]) -> None:
        work()


@pytest.mark.parametrize("phase", [Phase.STARTED, Phase.RUNNING])
def test_what_never_began_is_tried_again_whatever_was_said_of_it(tmp_path: Path, phase: Phase) -> None:
    holding = Holding(NodeFacts("host", 2, 1 << 30, [], "boot", 1, "3.11", "/"), poll_numbers(0))
    attempt = Attempt(Grant(1, 1, "run1", 1, ["true"], {}, 1.0, 0, 0), [], RunDir(str(tmp_path)))
    attempt.phase = phase
    nobody = cast(Any, None)
    Ender(holding, nobody, nobody, nobody, cast(Any, Later()), nobody).start_again(attempt, "it ended at once")
    assert attempt.phase is Phase.READY
