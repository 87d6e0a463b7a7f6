"""What becomes of a call that its function did not end itself."""

from __future__ import annotations

from concurrent.futures import BrokenExecutor

from turnout.errors import TurnoutError


class WorkerDied(TurnoutError, BrokenExecutor):
    """The process that made the call ended amid it: it was killed, ran out of memory, or ended itself."""

    code = "worker_died"


class TaskTimeout(TurnoutError, TimeoutError):
    """The call took longer than it may, and was ended, with its process."""

    code = "task_timeout"


class EngineLost(TurnoutError, BrokenExecutor):
    """What was to make the call cannot be reached any more, so nobody knows what became of it."""

    code = "engine_lost"
    retryable = True


class MissingExtra(TurnoutError, ImportError):
    """A library that this needs is not installed here."""

    code = "missing_extra"

    def __init__(self, library: str, extra: str) -> None:
        super().__init__(f"{library} is not installed", hint=f"pip install 'turnout[{extra}]'")

    def __str__(self) -> str:
        return f"{self.message}: {self.hint}"


class RemoteTraceback(Exception):
    """The cause of an error that a call raised in another process: its traceback there."""

    def __init__(self, trace: str) -> None:
        super().__init__(trace)

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'
