"""The conformance kit: what every compute provider has to do, as checks that a provider's tests inherit.

A check is one method, `test_...`, whose docstring is the promise. pytest runs them like any other test; nothing here
needs it: `turnout.testing.contract.report` makes them by itself.
"""

from __future__ import annotations

from turnout.testing.contract.behaving import Behaving
from turnout.testing.contract.bench import Broken as Broken
from turnout.testing.contract.describing import Describing
from turnout.testing.contract.ending import Ending
from turnout.testing.contract.lab import Lab as Lab
from turnout.testing.contract.observing import Observing
from turnout.testing.contract.starting import Starting


class ProviderContract(Describing, Starting, Observing, Ending, Behaving):
    """Inherit it under a name that pytest collects, and say how your provider is made::

        class TestMine(ProviderContract):
            def make_provider(self, settings):
                return MyProvider({**settings, "queue": "test"})

    With `make_lab` the kit can also break the place behind the provider (see `Lab`); checks that need what your lab
    does not have are skipped, as are those of capabilities that your provider does not claim.
    """
