"""The Python client: everything the command line does, as calls."""

from turnout.client.client import Client, RunFailed

__all__ = ["Client", "RunFailed"]
