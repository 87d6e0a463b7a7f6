"""A shell of this machine, for what shares a directory with it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from turnout.plugin.transport import Shell, Told


def test_several_targets_may_enter_the_same_directory_at_once(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def enter(number: int) -> None:
        try:
            for socket in range(100):
                Shell(str(tmp_path), f"/run/{number}.{socket}").enter()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [path.name for path in tmp_path.iterdir()] == ["agent.sock"]


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ("Unable to run job: no such queue.\nExiting.\n", "Unable to run job: no such queue."),
        ("tar: a: no room\ntar: Exiting with failure status due to previous errors\n", "tar: a: no room"),
        ("Exiting.\n", "Exiting."),
        ("", "exit code 3"),
    ],
)
def test_the_last_line_that_says_something_is_what_it_complains_of(said: str, complaint: str) -> None:
    assert Told(3, "", said).complaint == complaint
