"""Python processes that find the modules which this one finds, and end when it does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

_GLANCE = 0.5  # seconds


def python(statement: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command that runs `statement` in such a process, with `arguments` as those of a program."""
    paths = [each or os.getcwd() for each in sys.path]
    return [sys.executable, "-c", f"import sys; sys.path[:] = {paths!r}; {statement}", *arguments]


def python_module(name: str, folder: str, arguments: Sequence[str] = ()) -> list[str]:
    """The same of a module, as with ``python -m``. The process leads a group of its own, all of which is killed once
    this process is gone, however it ends. What `multiprocessing` keeps in files goes into `folder`."""
    keep = f"import multiprocessing; multiprocessing.current_process()._config['tempdir'] = {folder!r}; "
    end = f"{keep}from turnout.futures.launching import end_with; end_with({os.getpid()}); "
    run = f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    return python(end + run, arguments)


def end_with(parent: int) -> None:
    """Called in the new process."""
    if os.getpgrp() != os.getpid():
        os.setsid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_GLANCE)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
