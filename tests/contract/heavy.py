"""A provider whose import is slow, and loads what is large."""

import asyncio  # noqa: F401 - that it is loaded is the fault
import time

from tests.contract.yard import YardProvider

_began = time.process_time()
while time.process_time() - _began < 0.1:
    pass


class Heavy(YardProvider):
    pass
