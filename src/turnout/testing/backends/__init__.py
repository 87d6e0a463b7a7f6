"""The conformance kit of calculation backends: what every one of them has to do, as checks that its tests inherit.

A check is one method, `test_...`, whose docstring is the promise.
"""

from __future__ import annotations

from turnout.testing.backends.alone import Alone
from turnout.testing.backends.calling import Calling
from turnout.testing.backends.ending import Ending
from turnout.testing.backends.failing import Failing
from turnout.testing.backends.promising import Promising


class BackendContract(Calling, Promising, Failing, Alone, Ending):
    """Inherit it under a name that pytest collects, and say how your backend is made::

        class TestMine(BackendContract):
            def make_backend(self, number_of_workers, resources):
                return MyBackend(number_of_workers, resources)

    What a backend cannot do is said with the reason (``scales = "there is one machine"``), and the checks of it are
    skipped; see `turnout.testing.backends.bench` for all there is to say.
    """
