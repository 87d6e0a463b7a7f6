"""Queues that are known to be empty."""

from __future__ import annotations

from turnout.engine.quiet import ALL, Quiet


def test_what_was_found_empty_stays_so_until_something_comes() -> None:
    quiet = Quiet()
    assert not quiet.is_empty("a", 0.0)
    quiet.found_empty("a", quiet.stamp("a"), 0.0)
    assert quiet.is_empty("a", 1.0) and not quiet.is_empty("b", 1.0)
    quiet.stir({"queue:b", "runs"})
    assert quiet.is_empty("a", 2.0)
    quiet.stir({"queue:a"})
    assert not quiet.is_empty("a", 3.0)


def test_a_word_about_all_queues_is_one_about_each() -> None:
    quiet = Quiet()
    quiet.found_empty("a", quiet.stamp("a"), 0.0)
    quiet.stir({"queue"})
    assert not quiet.is_empty("a", 1.0)


def test_what_came_while_it_was_looked_at_counts() -> None:
    quiet = Quiet()
    stamp = quiet.stamp("a")
    quiet.stir({"queue:a"})
    quiet.found_empty("a", stamp, 0.0)
    assert not quiet.is_empty("a", 0.0)


def test_it_is_not_believed_for_ever() -> None:
    """Another hub may have put something there, of which nobody here hears."""
    quiet = Quiet()
    quiet.found_empty("a", quiet.stamp("a"), 0.0)
    assert not quiet.is_empty("a", 60.0)


def test_all_are_empty_until_something_comes_into_one() -> None:
    quiet = Quiet()
    for topics in ({"queue:a"}, {"queue"}):
        quiet.found_empty(ALL, quiet.stamp(ALL), 0.0)
        assert quiet.is_empty(ALL, 1.0)
        quiet.stir(topics)
        assert not quiet.is_empty(ALL, 1.0)
