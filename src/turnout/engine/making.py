"""Who makes the samplers and stoppers of searches: of installed classes here, of others in a process of their own."""

from __future__ import annotations

import shutil
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from turnout.blobs import Blobs
from turnout.engine.host import Host
from turnout.engine.hosted_search import HostedSampler, HostedStopper
from turnout.errors import Denied
from turnout.home import private_dir
from turnout.model.search import Aim, Search
from turnout.plugin.sampler import Goal, Objective, Sampler, Task
from turnout.plugin.stopper import Stopper, Watch
from turnout.registry import SAMPLERS, STOPPERS, plugin_class
from turnout.search.spaces import from_plain
from turnout.snapshot.laying import lay_out

#: For so long after somebody asked for it, code is kept: the job that it is checked for may not be written yet.
_GRACE = 600.0


def is_path(name: str) -> bool:
    """Whether that is a class among the frozen files, rather than the name of an installed one."""
    return ":" in name


@dataclass(frozen=True, slots=True)
class Code:
    """Where code comes from: `blobs` have the frozen files of jobs, `directory` those that are used; what it prints
    goes to `logs`."""

    blobs: Blobs
    directory: Path
    logs: Path


class Makers:
    """Without `code` none is taken, as on a shared hub: it would run as the user that the hub is. From any thread."""

    def __init__(self, code: Code | None = None) -> None:
        self._code = code
        self._lock = threading.Lock()
        self._hosts: dict[str, Host] = {}
        self._used: dict[str, float] = {}

    def sampler(self, search: Search, before: str | None) -> Sampler:
        """`before`: the digest of the job's frozen files. BadOption, NotFound, Denied."""
        objectives = tuple(_objective(aim) for aim in search.aims)
        task = Task(from_plain(search.space), objectives, search.seed, search.sampler_options)
        if is_path(search.sampler):
            return HostedSampler(task, search.sampler, self._host(search.sampler, before), search.space)
        return plugin_class(SAMPLERS, search.sampler)(task)

    def stopper(self, search: Search, before: str | None) -> Stopper | None:
        """As `sampler`; None when the search has none."""
        if search.stopper is None:
            return None
        watch = Watch(_objective(search.aims[0]), search.stopper_options)
        if is_path(search.stopper):
            return HostedStopper(watch, search.stopper, self._host(search.stopper, before))
        return plugin_class(STOPPERS, search.stopper)(watch)

    def keep(self, digests: set[str]) -> None:
        """Ends the processes of other jobs than those with these files, and removes their copies of the files, unless
        they were used a moment ago."""
        if self._code is None or not self._code.directory.is_dir():
            return
        with self._lock:
            recent = {name for name, used in self._used.items() if time.monotonic() - used < _GRACE}
            for folder in self._code.directory.iterdir():
                if folder.name not in digests | recent:
                    self._used.pop(folder.name, None)
                    host = self._hosts.pop(folder.name, None)
                    if host is not None:
                        host.close()
                    shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        with self._lock:
            hosts, self._hosts = list(self._hosts.values()), {}
        for host in hosts:
            host.retire()
            host.close()

    def _host(self, path: str, before: str | None) -> Host:
        """One process for each state of a project's files."""
        code = self._code
        if code is None:
            hint = "install its package on the hub, with an entry point in the group 'turnout.samplers'"
            raise Denied(f"this hub is shared and takes no code: {path}", hint=hint)
        name = before or "nothing"
        with self._lock:
            if name not in self._hosts:
                files = private_dir(code.directory) / name
                lay_out(code.blobs, before, files)
                self._hosts[name] = Host(files, [str(files)], code.logs / f"search-{name[:8]}.log")
            self._used[name] = time.monotonic()
            return self._hosts[name]


def _objective(aim: Aim) -> Objective:
    return Objective(aim.metric, Goal(aim.goal))
