"""The agent's life: takes grants, starts runs, watches them, tells the hub.

One thread decides (this one, in `Node.run`). Six others only carry: the *poller* waits at the hub for orders, the
*reporter* delivers one report at a time, the *porter* brings files, the *installer* makes setups, the *shipper* takes
files away, *chores* kills and clears away.

An attempt passes through `intake` (grant to ready), `starter` (ready to running) and `ender` (ended to gone), while
`teller` tells of it; `holding` is what they share.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any, Dict, Iterator, NoReturn, Union

from turnout.agent import probe, seat, tidying, tree
from turnout.agent.adopt import adopt
from turnout.agent.cache import Cache
from turnout.agent.carrier import Carrier, Mailbox
from turnout.agent.clearing import clear
from turnout.agent.ender import Ender, surrender
from turnout.agent.holding import Holding, poll_numbers
from turnout.agent.hub import HubLine
from turnout.agent.intake import Intake
from turnout.agent.launcher import Launcher, LauncherDied
from turnout.agent.leavings import Leavings
from turnout.agent.log import say, say_error
from turnout.agent.poller import Poller
from turnout.agent.prolog import run_epilog, run_prolog
from turnout.agent.rundir import RunDirs
from turnout.agent.setups import Setups
from turnout.agent.shelf import Shelf
from turnout.agent.starter import Starter
from turnout.agent.teller import Denied, Teller
from turnout.agent.views import Views
from turnout.agent.watch import Watch

_PATHS = ("address", "directory", "cache")
_GONE_HUB_SECONDS = 5.0  # an agent with nothing to do outlives its hub by this much
_LONGEST_WAIT = 1.0
_QUOTA = 100 << 30  # bytes of the cache, when nobody says
_STEADY_SECONDS = 60.0  # who lived so long before a fault begins anew at once


def run(order: Dict[str, Any], launcher: Launcher) -> None:
    """The agent's life. Returns when there was nothing to do for long enough, or the hub does not know it any more.

    If it is ordered to ``clear``, it only does away with what an earlier agent left.
    """
    order = {**order, **{name: _absolute(str(order[name])) for name in _PATHS if name in order}}
    if order.get("clear"):
        clear(str(order["directory"]))
        return
    began = time.monotonic()
    numbers = poll_numbers(int(order.get("polls", 0)))
    root = str(order["directory"])
    os.makedirs(root, mode=0o700, exist_ok=True)
    seat.announce(root, str(order["launch_token"]))
    lock = seat.take(root)
    try:
        node = Node(order, launcher, numbers)
        node.run()
        run_epilog(list(order.get("epilog") or ()), str(order.get("node", "")))
    except Denied as error:
        if seat.is_superseded(root):
            say("another agent takes over here")
        else:
            say(f"not wanted here: {error}; ending {len(node.holding.attempts)} runs")
            surrender(node.holding, node.dirs)
            run_epilog(list(order.get("epilog") or ()), str(order.get("node", "")))
    except LauncherDied as error:
        say(f"{error}; beginning anew")
        _begin_anew({**order, "polls": next(numbers)}, launcher, began)
    except Exception:
        say_error("a fault of the agent; beginning anew")
        _begin_anew({**order, "polls": next(numbers)}, launcher, began)
    os.close(lock)


class Node:
    """All the parts, and the loop."""

    def __init__(self, order: Dict[str, Any], launcher: Launcher, numbers: Iterator[int]) -> None:
        self._order = order
        self._launcher = launcher
        self._root = str(order["directory"])
        self._poller = select.poll()
        self._mailbox = Mailbox()
        self.dirs = RunDirs(self._root)
        self._watch = Watch(self._poller)
        self.holding = Holding(probe.look(), numbers)
        self._chores = Carrier("chores", self._mailbox)
        self._installer = Carrier("installer", self._mailbox)
        leavings = Leavings(
            self.holding, self.dirs, self._mailbox,
            shipper=Carrier("shipper", self._mailbox), line=self._line(), chores=self._chores,
        )  # fmt: skip
        self._ender = Ender(self.holding, launcher, self._watch, leavings, self._mailbox, self._chores)
        self._starter = Starter(self.holding, launcher, self._ender, os.path.join(self._root, "sdk"))
        cache, beside = Cache(str(order["cache"]), self._line()), os.path.dirname(str(order["cache"]))
        self._shelves = Shelf(f"{beside}/views"), Shelf(f"{beside}/setups")
        intake = Intake(
            self.holding, self.dirs, self._ender, leavings, self._mailbox,
            porter=Carrier("porter", self._mailbox), cache=cache, views=Views(self._shelves[0], cache),
            installer=self._installer, setups=Setups(self._shelves[1]),
        )  # fmt: skip
        reporter = Carrier("reporter", self._mailbox)
        self._teller = Teller(self.holding, intake, self._ender, leavings, reporter=reporter, line=self._line())
        self._idle_since = time.monotonic()

    def run(self) -> None:
        """Returns when there is no more to do. Denied when nobody wants what is here, LauncherDied."""
        _raise_file_limit()
        self.dirs.prepare()
        os.makedirs(str(self._order["cache"]), mode=0o700, exist_ok=True)
        adopt(self.dirs, self.holding, self._watch, self._ender)
        self._begin_prolog()
        self._tidy()
        self._poller.register(self._launcher.fileno(), select.POLLIN)
        self._poller.register(self._mailbox.fileno(), select.POLLIN)
        is_polling = False
        while not self._is_done():
            self._wait()
            self._starter.start_ready()  # first: a report's answer may take a while, and a place is free now
            self._mailbox.take()
            self._starter.start_ready()
            self._starter.look()
            self._teller.tell()
            if self._teller.is_welcome and not is_polling:
                is_polling = True
                self._start_polling()
        for directory in self.holding.kept:
            directory.remove()

    def _begin_prolog(self) -> None:
        """Nothing new is taken before it is over, and nothing ever if it fails."""
        lines = list(self._order.get("prolog") or ())
        if not lines:
            return
        self.holding.is_preparing = True

        def then(outcome: Union[Exception, None]) -> None:
            self.holding.is_preparing = False
            if outcome is not None:
                say(str(outcome))
                self.holding.trouble = str(outcome)
            self._teller.speak()

        self._installer.do(lambda: run_prolog(self._root, lines, str(self._order.get("node", ""))), then)

    def _tidy(self) -> None:
        """Now, and then every so often."""
        most = int(self._order.get("quota", _QUOTA))

        def then(outcome: Union[int, Exception]) -> None:
            if outcome:
                say(f"tidied the cache: {outcome}" + ("" if isinstance(outcome, Exception) else " bytes went"))
            self._mailbox.post_later(tidying.EVERY_SECONDS, self._tidy)

        self._chores.do(lambda: tidying.tidy(str(self._order["cache"]), self._shelves, most), then)

    def _start_polling(self) -> None:
        teller = self._teller
        Poller(
            self._line(), self._mailbox, ask=lambda: teller.poll, take=teller.take, take_trouble=teller.take_trouble
        ).start()

    def _wait(self) -> None:
        """Until something happened, or it is time to look at growing output."""
        seconds = self._teller.seconds_left(self._mailbox.seconds_left(_LONGEST_WAIT))
        line = self._launcher.fileno()
        self._poller.modify(line, select.POLLIN | (select.POLLOUT if self._launcher.is_behind else 0))
        for fd, _event in self._poller.poll(seconds * 1000):
            if fd == line:
                self._starter.hear()
            elif fd == self._mailbox.fileno():
                self._mailbox.hear()
            else:
                attempt = self._watch.ended(fd)
                if attempt is not None:
                    self._ender.end(attempt)
        for attempt in self._watch.found_ended():
            self._ender.end(attempt)

    def _is_done(self) -> bool:
        now = time.monotonic()
        welcome = self.holding.welcome
        is_alone = now - self._teller.heard > max(_GONE_HUB_SECONDS, welcome.lease / 2)
        if is_alone and not os.path.isdir(self._root):
            raise Denied("its directory was removed")
        is_kept = bool(self.holding.kept) and not self.holding.is_leaving
        if self.holding.attempts or self._chores.is_busy or is_kept:
            self._idle_since = now
            return False
        if self.holding.is_preparing:
            return False
        is_idle = self.holding.is_leaving or self.holding.is_trouble_told or now - self._idle_since > welcome.idle
        return is_alone or (self._teller.is_welcome and is_idle)

    def _line(self) -> HubLine:
        return HubLine(self._order["address"], self._order["token"])


def _absolute(path: str) -> str:
    """On a machine that is not the hub's, paths are told from where the agent is started."""
    return path if path.startswith("tcp:") else os.path.abspath(path)


def _begin_anew(order: Dict[str, Any], launcher: Launcher, began: float) -> NoReturn:
    """With threads around no other launcher may be forked. So this program starts itself again, under the same process
    id, and adopts what runs. Faults that follow each other are answered more and more slowly."""
    faults = 0 if time.monotonic() - began > _STEADY_SECONDS else int(order.get("faults", 0)) + 1
    time.sleep(min(0.05 * 2**faults, 5.0))
    tree.signal_process(tree.ProcessId(launcher.pid, tree.start_time(launcher.pid) or 0), signal.SIGKILL)
    launcher.close()
    read, write = os.pipe()
    os.write(write, json.dumps({**order, "faults": faults}).encode())
    os.close(write)
    os.dup2(read, 0)
    os.execv(sys.executable, [sys.executable, "-m", "turnout.agent"])


def _raise_file_limit() -> None:
    """Each run takes a descriptor or two of ours. What the launcher gave the runs stays as it was."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):
        pass
