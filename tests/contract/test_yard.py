"""A provider that keeps every promise passes every check: of agents here, of agents elsewhere, and of runs."""

from __future__ import annotations

from tests.contract.yard import YardElsewhere, YardProvider, YardRuns
from tests.contract.yard_lab import YardContract


class TestHere(YardContract):
    kind = YardProvider


class TestElsewhere(YardContract):
    kind = YardElsewhere


class TestRuns(YardContract):
    kind = YardRuns
