"""XT: a class with the methods of its `BackendInterface` is a compute provider here, and any target can be driven
through that interface (`backend_for`). Scripts that log through its `Run` log here."""

from turnout.compat.xt.backend import backend_for
from turnout.compat.xt.backends.backend_interface import BackendInterface
from turnout.compat.xt.run import Run

__all__ = ["BackendInterface", "Run", "backend_for"]
