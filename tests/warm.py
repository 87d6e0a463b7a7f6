"""The command line in processes that need not import it: each is forked from one that has. Half of what the tests took
was imports.

``python -m tests.warm FD``: forks for each request that comes through the socket FD, until that is closed.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

#: What Python itself reads as it begins.
_READ_AT_START = ("PYTHON", "LANG", "LC_")
_LARGEST = 1 << 20
_STREAMS = 3


def _for_python(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if key.startswith(_READ_AT_START)}


_BEGAN = _for_python(os.environ)


class Warm:
    """For all threads of one process."""

    def __init__(self) -> None:
        self._line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            for end in (self._line, theirs):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LARGEST)
            argv = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
            env = {key: value for key, value in os.environ.items() if not key.startswith("TURNOUT_")}  # it is no user's
            self._process = subprocess.Popen(argv, cwd=Path(__file__).parents[1], env=env, pass_fds=[theirs.fileno()])
        self._lock = threading.Lock()

    def run(
        self, args: Sequence[str], *, cwd: Path, env: Mapping[str, str], input: str | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run`, which captures what it prints."""
        request = json.dumps({"args": list(args), "cwd": str(cwd), "env": dict(env), "umask": _umask()}).encode()
        out, err, told = os.pipe(), os.pipe(), os.pipe()
        given = os.pipe() if input is not None else (os.open(os.devnull, os.O_RDONLY), None)
        try:
            theirs = array.array("i", [given[0], out[1], err[1], told[1]])
            with self._lock:
                self._line.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, theirs)])
        finally:
            for end in (given[0], out[1], err[1], told[1]):
                os.close(end)
        if given[1] is not None and input is not None:
            threading.Thread(target=_write, args=(given[1], input.encode(errors="surrogateescape"))).start()
        printed = _read([out[0], err[0], told[0]], time.monotonic() + timeout)
        pid, _, status = printed[2].decode().partition("\n")
        if not status:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(args), timeout, printed[0], printed[1])
        texts = [text.decode(errors="surrogateescape").replace("\r\n", "\n") for text in printed[:2]]
        return subprocess.CompletedProcess(list(args), os.waitstatus_to_exitcode(int(status)), *texts)


def is_for_warm(env: Mapping[str, str]) -> bool:
    """Whether a process that has begun can be one with this environment, and this user's."""
    return os.geteuid() == os.getuid() and _for_python(env) == _BEGAN


def _umask() -> int:
    """Without setting it, which other threads would notice."""
    (found,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("Umask:"))
    return int(found.split()[1], 8)


def _write(pipe: int, content: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(pipe, "wb") as file:
        file.write(content)


def _read(pipes: list[int], deadline: float) -> list[bytes]:
    """All that comes through each, until all are closed, or then."""
    found = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                piece = os.read(key.fd, 1 << 16)
                found[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    for pipe in pipes:
        os.close(pipe)
    return [bytes(found[pipe]) for pipe in pipes]


def main() -> None:
    line = socket.socket(fileno=int(sys.argv[1]))
    for package in ("turnout.cli", "turnout.client"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    waiting: dict[int, int] = {}
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks ends us
    with selectors.DefaultSelector() as selector:
        selector.register(line, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if woken in ready:
                os.read(woken, 4096)
                _reap(waiting)
            if line.fileno() not in ready:
                continue
            request, fds, _, _ = socket.recv_fds(line, _LARGEST, _STREAMS + 1)
            if not request:
                return
            child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                for fd in (line.detach(), woken, wake, *waiting.values(), fds[_STREAMS]):
                    os.close(fd)
                selector.close()
                break
            for fd in fds[:_STREAMS]:
                os.close(fd)
            waiting[child] = fds[_STREAMS]
            os.write(fds[_STREAMS], f"{child}\n".encode())
    _be(json.loads(request), fds[:_STREAMS])


def _reap(waiting: dict[int, int]) -> None:
    while waiting:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        told = waiting.pop(pid)
        with contextlib.suppress(BrokenPipeError):  # who asked has given up
            os.write(told, str(status).encode())
        os.close(told)


def _be(request: dict[str, Any], streams: list[int]) -> NoReturn:
    """The command, as if it had been started."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
        os.close(fd)
    os.umask(request["umask"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.path[0] = os.getcwd()
    sys.argv = ["turnout", *request["args"]]
    modes = [("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1)]
    for number, (name, mode, buffering) in enumerate(modes):
        old = getattr(sys, name)
        setattr(sys, name, open(number, mode, buffering, encoding=old.encoding, errors=old.errors))  # noqa: SIM115
    from turnout.cli import main as turnout

    turnout()


if __name__ == "__main__":
    main()
