"""One process per attempt: starts the command, owns its process tree and its output, records how it ended.

It is forked by the launcher and outlives agent and hub. `supervise` is its whole life. Nothing is imported, and there
is no thread and no signal handler in it: thousands of them share their memory only as long as they leave it alone.

**At most once.** The command is executed only by the holder of the lock on ``ctl/record`` who found there that nobody
had begun, and then wrote that it has. A supervisor that dies before that executed nothing, and another may be
started. From then on nobody ever executes in this directory again, whether or not the command came to be: the attempt
is lost, not repeated.

**Files** of ours are 0600 by their own mode. The umask is the agent's but for the command, which gets the order's.

macOS: a process that leaves its parent (double fork) is not adopted there, and so not ended with the tree.
"""

from __future__ import annotations

import errno
import os
import resource  # noqa: F401  os.wait4 imports it when first called, and that would be in every supervisor
import signal
import time
import traceback
from contextlib import suppress
from typing import List, Mapping, NamedTuple, Optional

from turnout.agent import record, tree
from turnout.agent.limits import NoLimit, limit_memory
from turnout.agent.spawn import Environment, SpawnError, spawn

RETRY_SECONDS = 1.0  # between two tries to write a record to a full disk
_ARMING_TRIES = 60
_UNKILLABLE_SECONDS = 10.0
_KILL_PAUSE = 0.01
_SETTLE_SECONDS, _CLEANUP_SECONDS = 5.0, 60.0
_THEIR_CODES = 125  # and above: podman and docker say so that it is they who failed

#: Blocked before the fork, so that none can hit a supervisor before it listens; all but the heard ones are ignored so.
BLOCKED = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM})
_HEARD = frozenset({signal.SIGCHLD, signal.SIGTERM})
_RSS_UNIT = 1024 if tree.LINUX else 1
_SIGNAL_NAMES = {int(s): s.name for s in signal.Signals}
_MESSAGES = {
    "timeout": "time limit reached",
    "oom": "out of memory",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "preempted": "preempted",
}


class Order(NamedTuple):
    """What to run. `dir` is the attempt's directory (absolute), `env` what it has beside the environment of `job`.

    `seconds` limits its time and `memory` its bytes, None = no limit. `grace` is how long the tree has between SIGTERM
    and SIGKILL when it is ended; `linger` the same for what a command that ended by itself left running. `umask` is the
    command's, None = ours. `cwd` is where it begins, seen from `dir`. `cleanup` ends what the command started outside
    of its tree (a container, say), and is executed unless the command ended well by itself; such a command clears up
    behind itself for a moment.
    """

    key: str
    dir: str
    argv: List[str]
    job: int
    env: Mapping[str, str] = {}
    seconds: Optional[float] = None
    grace: float = 10.0
    memory: Optional[int] = None
    linger: float = 2.0
    umask: Optional[int] = None
    cwd: str = "work"
    cleanup: List[str] = []


def supervise(order: Order, env: Environment) -> bool:
    """Take an attempt from its start to its exit record. True when nothing of it is left and another may follow.

    The calling process is a subreaper without children, in its own session, with BLOCKED blocked. An attempt that
    began before, or is in other hands, is left alone. Never raises: a fault of ours ends the tree and leaves no exit
    record but ``ctl/crash.txt``; the agent will call the attempt lost.
    """
    ctl = f"{order.dir}/ctl"
    attempt = _Attempt(order, env, ctl)
    try:
        claimed = record.claim(ctl)
        if claimed is not None:
            attempt.run(claimed)
            os.close(claimed)
        return not attempt.reap()
    except BaseException:
        _note_crash(ctl)
        attempt.end(0.0)
        return False


class _End(NamedTuple):
    """Why the tree is to be ended, None when the command ended by itself, and how long it has to do so on its own."""

    cause: Optional[str]
    grace: float


class _Attempt:
    """The command of one attempt, from before it exists until nothing of it is left."""

    def __init__(self, order: Order, env: Environment, ctl: str) -> None:
        self._order = order
        self._env = env
        self._ctl = ctl
        self._record = -1
        self._output: Optional[int] = None
        self._main = 0
        self._status: Optional[int] = None
        self._started = self._ended = time.time()
        self._began = self._finished = time.monotonic()
        self._max_rss = 0
        self._cpu_seconds = 0.0

    def run(self, claimed: int) -> None:
        """With the record, locked."""
        self._record = claimed
        stop = record.read_stop(self._ctl)
        if stop is not None:
            self._conclude(stop.cause, f"{_MESSAGES[stop.cause]} before it was started")
            return
        limit = limit_memory(self._order.memory, f"turnout-{os.getpid()}-{time.time_ns()}")
        try:
            self._start(limit)
        except SpawnError as error:
            limit.remove()
            self._say(f"turnout: {error.message}\n")
            self._conclude("spawn_failed", error.message, error.code)
            return
        end = self._watch(limit)
        if self._order.cleanup and end.cause is None:
            self._settle(_SETTLE_SECONDS)
        stuck = self.end(end.grace)
        if self._order.cleanup and (end.cause is not None or not self._ended_well()):
            self._clean_up()
        cause = end.cause or self._own_cause(limit)
        limit.remove()
        message = _fate(self._status) if cause in ("exit", "signal") else _MESSAGES[cause]
        self._conclude(cause, message + _complaint(stuck))

    def _start(self, limit: NoLimit) -> None:
        me = os.getpid()
        try:
            self._output = _open_output(f"{self._ctl}/output")
            os.chdir(os.path.join(self._order.dir, self._order.cwd))
            self._arm(tree.ProcessId(me, tree.start_time(me) or 0), limit.cgroup)
            try:
                limit.enter()
                self._started = self._ended = time.time()
                self._began = self._finished = time.monotonic()
                self._main = spawn(self._order.argv, self._env, self._output, umask=self._order.umask)
                record.add_child(self._record, tree.ProcessId(self._main, tree.start_time(self._main) or 0))
            finally:
                with suppress(OSError):
                    limit.leave()
        except OSError as error:
            raise SpawnError(126, f"the run could not be prepared: {error}") from error

    def _arm(self, me: tree.ProcessId, cgroup: Optional[str]) -> None:
        """Record that it begins. On a full disk room is waited for, a minute at most; OSError after that."""
        tries = _ARMING_TRIES
        while True:
            tries -= 1
            try:
                return record.begin(self._record, me, time.time(), cgroup)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not tries:
                    raise
            time.sleep(RETRY_SECONDS)

    def _watch(self, limit: NoLimit) -> _End:
        """Wait until the command ends or has to be ended. What happened first counts."""
        told = False
        while True:
            self.reap()
            if self._status is not None:
                return _End(None, self._order.linger)
            # A SIGTERM without a reason is for an attempt that this process had before, or from a stranger.
            stop = record.read_stop(self._ctl) if told else None
            if stop is not None:
                return _End(stop.cause, self._order.grace if stop.grace is None else stop.grace)
            left = self._time_left()
            if left is not None and left <= 0:
                return _End("timeout", self._order.grace)
            if limit.exceeded():
                return _End("oom", 0.0)
            waits = [seconds for seconds in (left, limit.interval) if seconds is not None]
            told = wait_for_signal(min(waits) if waits else None) == signal.SIGTERM

    def _time_left(self) -> Optional[float]:
        seconds = self._order.seconds
        return None if seconds is None else self._began + seconds - time.monotonic()

    def reap(self) -> bool:
        """Collect whatever ended. False when no process of the tree is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self._max_rss = max(self._max_rss, usage.ru_maxrss * _RSS_UNIT)
            self._cpu_seconds += usage.ru_utime + usage.ru_stime
            if pid == self._main and self._status is None:
                self._status = status
                self._note_end()

    def _note_end(self) -> None:
        self._ended, self._finished = time.time(), time.monotonic()

    def end(self, grace: float) -> List[tree.ProcessId]:
        """SIGTERM to the tree, SIGKILL after `grace` seconds, until nothing is left; returns what even that left.

        A process in uninterruptible sleep or of another user may stay; the exit record must not wait for it for ever.
        """
        if not self.reap():
            return []
        kill_at = time.monotonic() + grace
        if grace > 0:
            tree.signal_own_tree(signal.SIGTERM)
            tree.signal_own_tree(signal.SIGCONT)  # a stopped process dies only when it goes on
        while self.reap():
            left = kill_at - time.monotonic()
            if left > 0:
                kill_at = self._wait_for_end(kill_at, left)
                continue
            stuck = tree.signal_own_tree(signal.SIGKILL)
            if left < -_UNKILLABLE_SECONDS:
                if self._status is None:
                    self._note_end()
                return stuck
            wait_for_signal(_KILL_PAUSE)
        return []

    def _settle(self, seconds: float) -> None:
        """Until nothing of the tree is left, or `seconds` went by."""
        until = time.monotonic() + seconds
        while self.reap() and time.monotonic() < until:
            wait_for_signal(min(_KILL_PAUSE, seconds))

    def _ended_well(self) -> bool:
        """With an exit code of the command's own: above are those of who executes it, and of signals."""
        return self._status is not None and 0 <= os.waitstatus_to_exitcode(self._status) < _THEIR_CODES

    def _clean_up(self) -> None:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        with suppress(SpawnError):
            spawn(self._order.cleanup, self._env, null)
            self._settle(_CLEANUP_SECONDS)
            self.end(0.0)
        os.close(null)

    def _wait_for_end(self, kill_at: float, left: float) -> float:
        """Sleep until something happens; returns `kill_at`, or an earlier time when another stop asked for that."""
        stop = record.read_stop(self._ctl) if wait_for_signal(left) == signal.SIGTERM else None
        if stop is None or stop.grace is None:
            return kill_at
        return min(kill_at, time.monotonic() + stop.grace)

    def _own_cause(self, limit: NoLimit) -> str:
        """Why a command that was not ended by us ended."""
        status = self._status or 0
        # A shell that saw its command killed exits with 128 + 9.
        killed = os.waitstatus_to_exitcode(status) in (-signal.SIGKILL, 128 + signal.SIGKILL)
        if status != 0 and limit.explains(killed):
            return "oom"
        return "signal" if os.WIFSIGNALED(status) else "exit"

    def _say(self, text: str) -> None:
        if self._output is not None:
            with suppress(OSError):
                os.write(self._output, text.encode(errors="replace"))

    def _conclude(self, cause: str, message: str, code: Optional[int] = None) -> None:
        """Write the exit record and let go of the directory."""
        result = code if self._status is None else os.waitstatus_to_exitcode(self._status)
        exit = record.Exit(
            cause=cause,
            exit_code=result if result is not None and result >= 0 else None,
            signal=-result if result is not None and result < 0 else None,
            message=message,
            started=self._started,
            ended=self._ended,
            seconds=self._finished - self._began,
            output_bytes=os.fstat(self._output).st_size if self._output is not None else 0,
            max_rss=self._max_rss,
            cpu_seconds=self._cpu_seconds,
        )
        if self._output is not None:
            os.close(self._output)
        os.chdir("/")
        self._insist(exit)

    def _insist(self, exit: record.Exit) -> None:
        """Try until it is written, every second, however long the disk stays full, or until the directory is gone."""
        while os.access(self._ctl, os.F_OK):
            try:
                record.write_exit(self._record, exit)
                break
            except OSError:
                time.sleep(RETRY_SECONDS)


def wait_for_signal(seconds: Optional[float]) -> int:
    """Sleep until a child ends or SIGTERM comes, `seconds` at most (None: for ever). The signal, 0 when none came."""
    if not hasattr(signal, "sigtimedwait"):
        return _wait_by_timer(seconds)
    if seconds is None:
        return signal.sigwaitinfo(_HEARD).si_signo
    came = signal.sigtimedwait(_HEARD, max(seconds, 0.0))
    return came.si_signo if came else 0


def _wait_by_timer(seconds: Optional[float]) -> int:
    """The same on macOS, which has no sigtimedwait."""
    if seconds is not None:
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    came = signal.sigwait(_HEARD | {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    return 0 if came == signal.SIGALRM else int(came)


def _open_output(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _fate(status: Optional[int]) -> str:
    code = os.waitstatus_to_exitcode(status or 0)
    return f"exit code {code}" if code >= 0 else f"killed by {_SIGNAL_NAMES.get(-code, -code)}"


def _complaint(stuck: List[tree.ProcessId]) -> str:
    if not stuck:
        return ""
    return f"; could not be ended: process {', '.join(str(process.pid) for process in stuck[:10])}"


def _note_crash(ctl: str) -> None:
    with suppress(OSError):
        fd = os.open(f"{ctl}/crash.txt", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.write(fd, traceback.format_exc().encode(errors="replace"))
