"""The agent's life: takes grants, starts runs, watches them, tells the hub.

One thread decides (this one, in `Node.run`). Six others only carry: the *poller* waits at the hub for orders, the
*reporter* delivers one report at a time, the *porter* brings files, the *installer* makes setups, the *shipper* takes
files away, *chores* kills and clears away. Where there are GPUs, one more looks at those.

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
import tempfile
import time
from typing import Any, Dict, Iterator, NoReturn, Optional, Union

from turnout.agent import probe, seat, tidying, tree
from turnout.agent.adopt import adopt
from turnout.agent.cache import Cache
from turnout.agent.carrier import Carrier, Mailbox
from turnout.agent.clearing import clear, clear_others
from turnout.agent.containers import Containers, clear_strays
from turnout.agent.ender import Ender, surrender
from turnout.agent.gpu_neighbours import Neighbours
from turnout.agent.gpu_watch import GpuWatch
from turnout.agent.gpus import Gpus
from turnout.agent.holding import Holding, clock, poll_numbers
from turnout.agent.hub import HubLine, Refused
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
from turnout.wire.messages import Stop
from turnout.wire.protocol import PROTOCOL

_PATHS = ("address", "directory", "cache")
_GONE_HUB_SECONDS = 5.0  # an agent with nothing to do outlives its hub by this much
_LONGEST_WAIT = 1.0
_QUOTA = 100 << 30  # bytes of the cache, when nobody says
_STEADY_SECONDS = 60.0  # who lived so long before a fault begins anew at once


def run(order: Dict[str, Any], launcher: Launcher) -> Dict[str, Any]:
    """The agent's life. Returns when there was nothing to do for long enough, or the hub does not know it any more: how
    its last run ended, if it had any.

    If it is ordered to ``clear``, it only does away with what an earlier agent left.
    """
    order = {**order, **{name: _absolute(order[name]) for name in _PATHS if name in order}}
    if order.get("clear"):
        clear(str(order["directory"]))
        return {}
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
    except Refused as error:
        say(f"the hub will not have it: {error}; beginning anew")
        _begin_anew({**order, "polls": next(numbers), "refused": PROTOCOL}, launcher, began)
    except Exception:
        say_error("a fault of the agent; beginning anew")
        _begin_anew({**order, "polls": next(numbers)}, launcher, began)
    os.close(lock)
    return node.holding.outcome


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
        given = order.get("given") or {}
        source, devices = probe.find_gpus(given.get("gpus"))
        if order.get("gpu_indices"):
            devices = [each for index, each in enumerate(devices) if index in order["gpu_indices"]]
        neighbours = Neighbours(self._root)
        gpus = Gpus(
            [each.facts for each in devices], most=int(order.get("max_runs_per_gpu", 1)),
            shares_with_others=not order.get("avoid_foreign_gpus", True),
            nodes={each.facts.id: each.nodes for each in devices},
        )  # fmt: skip
        self.holding = Holding(probe.look(devices, given), numbers, gpus)
        if "seconds" in order:
            self.holding.until = clock() + float(order["seconds"])
        self.holding.is_contained = bool(order.get("contained"))
        self.holding.is_fixed = order.get("refused") == PROTOCOL
        self._gpus: Optional[GpuWatch] = None
        if source is not None and devices:
            self._gpus = GpuWatch(
                source, devices, self.holding, Carrier("gpus", self._mailbox), runs=self.dirs.runs,
                launcher=launcher.pid, neighbours=neighbours, on_change=lambda: self._teller.speak(),
            )  # fmt: skip
        self._chores = Carrier("chores", self._mailbox)
        self._installer = Carrier("installer", self._mailbox)
        leavings = Leavings(
            self.holding, self.dirs, self._mailbox,
            shipper=Carrier("shipper", self._mailbox), line=self._line(), chores=self._chores,
        )  # fmt: skip
        self._ender = Ender(self.holding, launcher, self._watch, leavings, self._mailbox, self._chores)
        self._starter = Starter(
            self.holding, launcher, self._ender, os.path.join(self._root, "sdk"),
            lambda: self._gpus is None or self._gpus.knows(), neighbours,
        )  # fmt: skip
        cache, beside = Cache(str(order["cache"]), self._line()), os.path.dirname(str(order["cache"]))
        self._shelves = Shelf(f"{beside}/views"), Shelf(f"{beside}/setups")
        intake = Intake(
            self.holding, self.dirs, self._ender, leavings, self._mailbox,
            porter=Carrier("porter", self._mailbox), cache=cache, views=Views(self._shelves[0], cache),
            installer=self._installer, setups=Setups(self._shelves[1]), containers=Containers(self._root),
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
        self._chores.do(lambda: clear_strays(self._root), lambda outcome: None)
        self._begin_prolog()
        self._clear_others()
        if self._order.get("yields"):
            signal.signal(signal.SIGTERM, self._hear_yield)
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
            if self._gpus is not None:
                self._gpus.tend()
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

    def _hear_yield(self, *_: object) -> None:
        """At once, before anything else is heard: commands that were signalled as well may have ended already."""
        self.holding.is_yielding = True
        self._mailbox.post(self._yield)

    def _yield(self) -> None:
        """Whose node this is wants it back: what runs goes back to the queue, and nothing more begins."""
        say(f"this node is wanted back; giving back {len(self.holding.attempts)} runs")
        for attempt in list(self.holding.attempts.values()):
            self._ender.stop(Stop(attempt.grant.run, attempt.grant.attempt, "preempted"))
        self._teller.speak()

    def _clear_others(self) -> None:
        """What agents left here that were given up while nobody could reach this machine, and died."""
        live = self._order.get("live")
        if live is None:
            return

        def then(outcome: Union[int, Exception]) -> None:
            if outcome:
                say(f"cleared what earlier agents left: {outcome}")

        self._chores.do(lambda: clear_others(self._root, set(live)), then)

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
        ready = {fd for fd, _event in self._poller.poll(seconds * 1000)}
        if self._mailbox.fileno() in ready:  # first: that the node is wanted back is why runs end then
            self._mailbox.hear()
        for fd in ready - {self._mailbox.fileno()}:
            if fd == line:
                self._starter.hear()
            else:
                attempt = self._watch.ended(fd)
                if attempt is not None:
                    self._ender.end(attempt)
        for attempt in self._watch.found_ended():
            self._ender.end(attempt)

    def _is_done(self) -> bool:
        now = time.monotonic()
        welcome = self.holding.welcome
        silence, usual = now - self._teller.heard, max(_GONE_HUB_SECONDS, welcome.lease / 2)
        if silence > usual and not os.path.isdir(self._root):
            raise Denied("its directory was removed")
        is_alone = silence > max(usual, float(self._order.get("patience", 0.0)))
        is_kept = bool(self.holding.kept) and not self.holding.is_leaving
        if self.holding.attempts or self._chores.is_busy or is_kept:
            self._idle_since = now
            self._set_going(False)
            return False
        if not self._teller.is_welcome or silence > usual:  # who could give us something was not there
            self._idle_since = now
        if self.holding.is_preparing:
            return False
        is_unwanted = self.holding.is_leaving or self.holding.is_trouble_told or self.holding.is_yielding
        is_idle = now - self._idle_since > welcome.idle or self.holding.seconds_left() == 0.0
        self._set_going(is_idle)
        return is_alone or (self._teller.is_welcome and (is_unwanted or (is_idle and self.holding.is_going_told)))

    def _set_going(self, is_going: bool) -> None:
        """That it would leave, or has something to do after all, is told first: nothing is given to who is gone."""
        if self.holding.is_going is not is_going:
            self.holding.is_going, self.holding.is_going_told = is_going, False
            self._teller.speak()

    def _line(self) -> HubLine:
        return HubLine(self._order["address"], self._order["token"])


def _absolute(path: Any) -> Any:
    """On a machine that is not the hub's, paths and addresses are told from where the agent is started."""
    if isinstance(path, list):
        return [_absolute(each) for each in path]
    if path.startswith(("tcp:", "tls:")):
        return path
    kind, path = ("file:", path[len("file:") :]) if path.startswith("file:") else ("", path)
    return kind + os.path.abspath(path)


def _begin_anew(order: Dict[str, Any], launcher: Launcher, began: float) -> NoReturn:
    """With threads around no other launcher may be forked. So this program starts itself again, under the same process
    id, and adopts what runs. Faults that follow each other are answered more and more slowly."""
    faults = 0 if time.monotonic() - began > _STEADY_SECONDS else int(order.get("faults", 0)) + 1
    time.sleep(min(0.05 * 2**faults, 5.0))
    tree.signal_process(tree.ProcessId(launcher.pid, tree.start_time(launcher.pid) or 0), signal.SIGKILL)
    launcher.close()
    with tempfile.TemporaryFile() as file:  # it has no name, and takes an order of any length
        file.write(json.dumps({**order, "faults": faults}).encode())
        file.seek(0)
        os.dup2(file.fileno(), 0)
    os.execv(sys.executable, [sys.executable, "-m", "turnout.agent"])


def _raise_file_limit() -> None:
    """Each run takes a descriptor or two of ours. What the launcher gave the runs stays as it was."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    except (OSError, ValueError):
        pass
