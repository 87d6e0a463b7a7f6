"""What goes wrong, in NNI's words."""

from __future__ import annotations


class NNIError(Exception):
    """`name` is what programs compare, as NNI's own errors have it: ``NOT_FOUND``."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message


class NotFound(NNIError, LookupError):
    """There is no trial of that id."""

    def __init__(self, message: str) -> None:
        super().__init__("NOT_FOUND", message)


def is_not_found(error: BaseException) -> bool:
    """Whether it says that there is no such trial, in whatever class: also one that was written for NNI, or Python's
    own for a key that is not there."""
    if isinstance(error, KeyError):
        return True
    return getattr(error, "name", "") == "NOT_FOUND" or type(error).__name__ in ("NotFound", "NotFoundError")
