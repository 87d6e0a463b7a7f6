"""A program of our own, talked to in lines over two pipes that are neither its input nor its output."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

_PIECE = 1 << 16


class Ended(Exception):
    """The program is gone. `code` as `subprocess` has it: negative for a signal."""

    def __init__(self, code: int) -> None:
        super().__init__(f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")


class PipedProcess:
    """For one thread at a time. Its standard output goes to `output`, or is `shown` to who has this.

    It ends by itself when this process does: it sees the end of its pipe.
    """

    def __init__(self, module: str, arguments: Sequence[str], *, directory: Path, output: BinaryIO | None) -> None:
        asked, self._requests = os.pipe()
        self._answers, told = os.pipe()
        os.set_blocking(self._requests, False)
        # -P: a module in that directory must not be taken for one of Python's, or of ours.
        argv = [sys.executable, "-P", "-m", module, str(asked), str(told), *arguments]
        try:
            self._process = subprocess.Popen(
                argv, cwd=directory, stdin=subprocess.DEVNULL, stdout=output or subprocess.PIPE,
                stderr=subprocess.STDOUT, pass_fds=(asked, told), start_new_session=True,
            )  # fmt: skip
        except OSError:
            self._close_pipes()
            raise
        finally:
            os.close(asked)
            os.close(told)
        self._partial = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def shown(self) -> int:
        """The descriptor of what it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    @property
    def answers(self) -> int:
        """The descriptor its answers come from."""
        return self._answers

    def send(self, line: bytes, deadline: float) -> None:
        """TimeoutError when it does not take the line before `deadline` (of the monotonic clock); Ended."""
        left = memoryview(line + b"\n")
        while left:
            _, writable, _ = select.select([], [self._requests], [], _left(deadline))
            if not writable:
                raise TimeoutError
            try:
                left = left[os.write(self._requests, left[:_PIECE]) :]
            except BlockingIOError:
                continue
            except BrokenPipeError as error:
                raise Ended(self.kill()) from error

    def receive(self, deadline: float) -> bytes:
        """The next line it says. TimeoutError when there is none before `deadline`; Ended when there will be none."""
        while b"\n" not in self._partial:
            readable, _, _ = select.select([self._answers], [], [], _left(deadline))
            if not readable:
                raise TimeoutError
            piece = os.read(self._answers, _PIECE)
            if not piece:
                raise Ended(self._code())
            self._partial += piece
        line, _, self._partial = self._partial.partition(b"\n")
        return line

    def end(self) -> None:
        """Has it ended. From any thread: who waits for it is told, and clears up."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def kill(self) -> int:
        """Ends it, and it alone: what it has started may be somebody's job. Idempotent; gives its exit code."""
        with contextlib.suppress(OSError):
            self._process.kill()
        code = self._process.wait()
        self._close_pipes()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    def _code(self) -> int:
        """Of a program that closed its pipe, and so is about to end."""
        try:
            code = self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            return self.kill()
        self.kill()
        return code

    def _close_pipes(self) -> None:
        for descriptor in (self._requests, self._answers):
            if descriptor >= 0:
                os.close(descriptor)
        self._requests = self._answers = -1


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
