"""The agent's main loop: takes grants, starts runs, watches them, tells the hub.

One thread decides (this one). Three others only carry: the *poller* waits at the hub for orders, the *reporter* delivers one report
at a time, the *porter* moves files. They hand what they got to the main thread through a queue.
"""

from __future__ import annotations

import json
import os
import queue
import select
import shutil
import sys
import threading
import time
from typing import Any, Callable, Dict, List, NoReturn, Optional, Tuple, Union

from turnout.agent import probe, record, sdk, tree
from turnout.agent.after import capture_after, open_after
from turnout.agent.attempt import Attempt, Phase
from turnout.agent.hub import HubLine, Refused
from turnout.agent.launcher import Failed, Launcher, LauncherDied, Started
from turnout.agent.stage import RunDir, fill, script_path
from turnout.agent.supervisor import Order
from turnout.wire import manifest, messages
from turnout.wire.http import Unreachable
from turnout.wire.messages import PROTOCOL, Fact, Grant, Hello, JobOrder, Orders, Poll, Report, Stop, Welcome

Ref = Tuple[int, int]
_TAIL_SECONDS = 0.1  # how late output of a running command may leave this node
_REPORT_BYTES = 8 << 20
_STREAM_BYTES = 1 << 20
_RETRY_LEAST, _RETRY_MOST = 0.05, 1.0
_GONE_HUB_SECONDS = 5.0  # an agent with nothing to do outlives its hub by this much
_SHORT_RUN = 0.1  # seconds: while runs are shorter, a few more are kept at hand
_AHEAD_MOST = 16  # times max-runs
_RETURN_SECONDS = 1.0  # a run kept at hand for longer goes back


def run(order: Dict[str, Any], launcher: Launcher) -> None:
    """The agent's life. Returns when there has been nothing to do for long enough."""
    Node(order, launcher).run()


class Node:
    def __init__(self, order: Dict[str, Any], launcher: Launcher) -> None:
        self._order = order
        self._launcher = launcher
        self._root = str(order["directory"])
        self._cache = str(order["cache"])
        self._attempts: Dict[Ref, Attempt] = {}
        self._jobs: Dict[int, JobOrder] = {}
        self._defined: Dict[int, bool] = {}
        self._facts = probe.look()
        self._free_gpus = list(self._facts.gpus)
        self._welcome: Optional[Welcome] = None
        self._inbox: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poller = _select_poll()
        self._by_pidfd: Dict[int, Attempt] = {}
        self._porter = _Carrier(self._line(), self._post, "porter")
        self._reporter = _Carrier(self._line(), self._post, "reporter")
        self._reporting: Optional[List[Tuple[Attempt, int]]] = None
        self._must_report = False
        self._retry_at = 0.0
        self._retry_after = _RETRY_LEAST
        self._last_answer = time.monotonic()
        self._idle_since = time.monotonic()
        self._typical = 10.0
        self._poll_now = Poll(0.0, 0, 0, [], [], 0.0)
        self._leaving = False

    # --- life -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        self._prepare()
        self._adopt()
        self._say_hello()
        self._poller.register(self._launcher.fileno(), select.POLLIN)
        self._poller.register(self._wake_read, select.POLLIN)
        threading.Thread(target=self._keep_polling, name="poller", daemon=True).start()
        while not self._is_done():
            self._wait()
            self._take_inbox()
            self._start_ready()
            self._report()

    def _prepare(self) -> None:
        for directory in (self._root, os.path.join(self._root, "runs"), self._cache):
            os.makedirs(directory, mode=0o700, exist_ok=True)
        sdk.install(os.path.join(self._root, "sdk"))
        me = {"pid": os.getpid(), "start": tree.start_time(os.getpid()), "launch_token": self._order["launch_token"]}
        path = os.path.join(self._root, "agent.json")
        fd = os.open(path + ".tmp", os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(me, file)
        os.replace(path + ".tmp", path)

    def _adopt(self) -> None:
        """Takes over what an earlier agent of this directory left: running, ended, or begun and orphaned. What never began is
        removed; the hub will grant it again."""
        runs = os.path.join(self._root, "runs")
        for name in os.listdir(runs):
            directory = RunDir(os.path.join(runs, name))
            known = directory.recall()
            found = record.examine(directory.path) if known is not None else None
            if known is None or found is None:
                directory.remove()
                continue
            attempt = Attempt(known["grant"], known["after"], directory)
            attempt.confirmed = True
            self._attempts[attempt.ref] = attempt
            attempt.add_fact("staged", {"adopted": True})
            attempt.phase = Phase.RUNNING
            if isinstance(found, record.Running):
                attempt.add_fact("running", {"pid": found.child.pid if found.child else None})
                self._watch(attempt, found.supervisor)
            else:
                attempt.add_fact("running", {})
                self._end(attempt)

    def _say_hello(self) -> None:
        from turnout._version import __version__

        line = self._line()
        hello = Hello(PROTOCOL, __version__, self._facts, [attempt.ref for attempt in self._attempts.values()])
        while self._welcome is None:
            try:
                self._welcome = line.hello(hello)
            except Unreachable as error:
                if not self._attempts and time.monotonic() - self._last_answer > _GONE_HUB_SECONDS:
                    raise SystemExit(f"the hub does not answer: {error}") from error
                time.sleep(_RETRY_LEAST)
            except Refused as error:
                self._surrender(f"the hub refuses this agent: {error}")
        line.close()
        self._last_answer = time.monotonic()
        for ref in self._welcome.fenced:
            self._fence((ref[0], ref[1]))
        self._publish_poll()

    def _is_done(self) -> bool:
        if self._attempts:
            self._idle_since = time.monotonic()
            return False
        assert self._welcome is not None
        now = time.monotonic()
        if now - self._last_answer > max(_GONE_HUB_SECONDS, self._welcome.lease / 2):
            return True
        return self._leaving or now - self._idle_since > self._welcome.idle

    def _surrender(self, why: str) -> NoReturn:
        """The hub knows this agent no more: nothing here may go on in its name."""
        print(f"turnout agent: {why}; ending {len(self._attempts)} runs", file=sys.stderr, flush=True)
        for attempt in list(self._attempts.values()):
            self._kill(attempt)
            attempt.directory.remove()
        raise SystemExit(0)

    # --- the hub ----------------------------------------------------------------------------------------------------

    def _line(self) -> HubLine:
        return HubLine(self._order["address"], self._order["token"])

    def _keep_polling(self) -> None:
        """The poller's life: one long poll after the other."""
        line = self._line()
        pause = _RETRY_LEAST
        while True:
            asked = self._poll_now
            try:
                orders = line.poll(asked)
            except (Unreachable, Refused) as error:
                self._post(lambda error=error: self._take_trouble(error))  # type: ignore[misc]
                time.sleep(pause)
                pause = min(pause * 2, _RETRY_MOST)
                continue
            pause = _RETRY_LEAST
            done = threading.Event()

            def take(orders: Orders = orders, asked: Poll = asked, done: threading.Event = done) -> None:
                self._take_orders(orders, asked)
                done.set()

            self._post(take)
            done.wait(5.0)  # the next poll tells what became of these orders

    def _publish_poll(self) -> None:
        assert self._welcome is not None
        held = list(self._attempts.values())
        busy = sum(attempt.grant.slots for attempt in held if attempt.phase.value < Phase.ENDED.value)
        slots = self._welcome.max_runs + self._ahead() - busy
        memory = self._facts.memory - sum(a.grant.memory for a in held if a.phase.value < Phase.ENDED.value)
        gpus = len(self._free_gpus) - sum(a.grant.gpus for a in held if a.phase.value < Phase.STARTED.value)
        self._poll_now = Poll(
            slots=0.0 if self._leaving else slots, memory=memory, gpus=gpus, held=[attempt.ref for attempt in held],
            jobs=list(self._jobs), wait=self._welcome.lease / 3,
        )  # fmt: skip

    def _ahead(self) -> float:
        """Slots beyond max-runs, so that the next short run is at hand when one ends."""
        assert self._welcome is not None
        if self._typical >= _SHORT_RUN:
            return 0.0
        return self._welcome.max_runs * min(_AHEAD_MOST, _SHORT_RUN / max(self._typical, 1e-4))

    def _take_trouble(self, error: Union[Unreachable, Refused]) -> None:
        if isinstance(error, Refused) and error.status in (401, 403):
            self._surrender(str(error))
        if isinstance(error, Refused) and error.status == 409:
            self._welcome = None
            self._say_hello()

    def _take_orders(self, orders: Orders, asked: Poll) -> None:
        self._last_answer = time.monotonic()
        for job in orders.jobs:
            self._jobs[job.job] = job
        fenced = set(orders.fenced)
        for ref in fenced:
            self._fence(ref)
        for ref in asked.held:
            attempt = self._attempts.get((ref[0], ref[1]))
            if attempt is not None:
                attempt.confirmed = True
        for grant in orders.grants:
            self._accept(grant)
        for stop in orders.stops:
            self._stop(stop)
        self._leaving = orders.exit
        self._publish_poll()

    # --- one attempt, from grant to start ---------------------------------------------------------------------------

    def _accept(self, grant: Grant) -> None:
        ref = (grant.run, grant.attempt)
        job = self._jobs.get(grant.job)
        if ref in self._attempts or job is None:
            return
        directory = RunDir(os.path.join(self._root, "runs", f"{grant.run}.{grant.attempt}"))
        attempt = Attempt(grant, job.after, directory)
        self._attempts[ref] = attempt
        self._must_report = True  # this confirms it: the first renewal of its lease
        if job.before is None and grant.carry is None:
            self._stage(attempt, job, None)
        else:
            self._porter.do(lambda line: self._stage(attempt, job, line))

    def _stage(self, attempt: Attempt, job: JobOrder, line: Optional[HubLine]) -> None:
        """Fills the run's directory; in the main thread when there is nothing to move, else in the porter's."""
        began = time.monotonic()
        try:
            attempt.directory.make()
            told = fill(attempt.directory, attempt.grant, job, self._cache, line or self._line())
            attempt.directory.remember(attempt.grant, job)
            told["seconds"] = round(time.monotonic() - began, 4)
            outcome: Union[Dict[str, Any], Exception] = told
        except Exception as error:
            outcome = error
        if line is None:
            self._staged(attempt, outcome)
        else:
            self._post(lambda: self._staged(attempt, outcome))

    def _staged(self, attempt: Attempt, outcome: Union[Dict[str, Any], Exception]) -> None:
        if attempt.phase is not Phase.STAGING:
            return
        if isinstance(outcome, Unreachable):
            job = self._jobs[attempt.grant.job]
            self._porter.do(lambda line: self._stage(attempt, job, line), after=_RETRY_MOST)
            return
        if isinstance(outcome, Exception):
            self._fail(attempt, f"its directory could not be prepared: {outcome}")
            return
        attempt.add_fact("staged", outcome)
        attempt.phase = Phase.READY

    def _start_ready(self) -> None:
        """Starts what is confirmed and fits, in the order it was granted; gives back what has waited too long."""
        if not self._attempts:
            return
        assert self._welcome is not None
        busy = sum(attempt.grant.slots for attempt in self._attempts.values() if attempt.uses_slot)
        now = time.monotonic()
        for attempt in list(self._attempts.values()):
            if attempt.phase is not Phase.READY or not attempt.confirmed:
                continue
            fits = busy + attempt.grant.slots <= self._welcome.max_runs + 1e-9
            if fits and attempt.grant.gpus <= len(self._free_gpus):
                busy += attempt.grant.slots
                self._launch(attempt)
            elif now - attempt.granted > _RETURN_SECONDS:
                self._give_back(attempt)

    def _launch(self, attempt: Attempt) -> None:
        grant, job = attempt.grant, self._jobs[attempt.grant.job]
        attempt.gpus = [self._free_gpus.pop(0) for _ in range(grant.gpus)]
        if grant.job not in self._defined:
            self._defined[grant.job] = True
            self._launcher.define(grant.job, self._job_environment(job))
        argv = grant.argv
        if job.script is not None:
            shell = shutil.which("bash") or "/bin/sh"
            argv = [shell, script_path(attempt.directory, job), *grant.argv]
        attempt.phase = Phase.STARTED
        attempt.started = time.monotonic()
        self._launcher.start(
            Order(
                key=attempt.key, dir=attempt.directory.path, argv=argv, job=grant.job,
                env=self._run_environment(attempt), seconds=job.seconds, grace=job.grace, memory=job.memory,
            )  # fmt: skip
        )

    def _job_environment(self, job: JobOrder) -> Dict[str, str]:
        assert self._welcome is not None
        path = [os.path.join(self._root, "sdk"), job.env.get("PYTHONPATH", "")]
        names = {"EXPERIMENT": job.experiment, "WORKSPACE": job.workspace, "NODE": self._welcome.node, "JOB": job.name}
        twins = {
            "XT_EXPERIMENT_NAME": job.experiment, "XT_WORKSPACE_NAME": job.workspace, "XT_NODE_ID": self._welcome.node,
            "XT_JOB_ID": job.name, "XT_CONTROLLER": "1", "XT_USERNAME": job.env.get("USER", ""),
        }  # fmt: skip
        ours = {f"TURNOUT_{name}": value for name, value in names.items()}
        return {**job.env, **twins, **ours, "PYTHONPATH": os.pathsep.join(part for part in path if part)}

    def _run_environment(self, attempt: Attempt) -> Dict[str, str]:
        grant, directory = attempt.grant, attempt.directory
        output = os.path.join(directory.work, "output")
        env = {
            "TURNOUT_RUN_NAME": grant.name, "TURNOUT_ATTEMPT": str(grant.attempt), "TURNOUT_OUTPUT_DIR": output,
            "TURNOUT_PARAMS": json.dumps(grant.params), "TURNOUT_SPOOL": directory.track, "PWD": directory.work,
            "XT_RUN_NAME": grant.name, "XT_OUTPUT_DIR": output,
            "XT_RESUME_NAME": grant.name if grant.attempt > 1 else "",
        }  # fmt: skip
        if attempt.gpus or self._facts.gpus:
            env["CUDA_VISIBLE_DEVICES"] = ",".join(attempt.gpus)
        return env

    def _give_back(self, attempt: Attempt) -> None:
        attempt.phase = Phase.CAPTURED
        attempt.add_fact("returned", {})

    # --- one attempt, from start to end -----------------------------------------------------------------------------

    def _take_launcher(self) -> None:
        try:
            answers = self._launcher.read()
        except LauncherDied:
            self._begin_anew()
        by_key = {attempt.key: attempt for attempt in self._attempts.values() if attempt.phase is Phase.STARTED}
        for answer in answers:
            attempt = by_key.get(answer.key)
            if attempt is None:
                continue
            if isinstance(answer, Failed):
                self._fail(attempt, answer.error)
            elif isinstance(answer, Started):
                attempt.phase = Phase.RUNNING
                attempt.add_fact("running", {"pid": answer.process.pid})
                self._watch(attempt, answer.process)

    def _watch(self, attempt: Attempt, supervisor: tree.ProcessId) -> None:
        attempt.supervisor = supervisor
        attempt.pidfd = tree.open_pidfd(supervisor)
        if attempt.pidfd is None:
            self._end(attempt)
            return
        self._by_pidfd[attempt.pidfd] = attempt
        self._poller.register(attempt.pidfd, select.POLLIN)
        if attempt.stop_cause is not None:
            tree.signal_process(supervisor, 15)

    def _end(self, attempt: Attempt) -> None:
        """The supervisor is gone: what does its record say?"""
        self._unwatch(attempt)
        found = record.examine(attempt.directory.path)
        if isinstance(found, record.Exit):
            body = {**vars(found), "seconds": round(found.seconds, 6)}
            body.pop("output_bytes")
            self._typical += 0.2 * (found.seconds - self._typical)
            self._conclude(attempt, body)
            return
        running = found.running if isinstance(found, record.Died) else None
        child = running.child if running is not None else None
        cgroup = running.cgroup if running is not None else None
        self._launcher.sweep()
        attempt.phase = Phase.ENDED

        def bury(_line: HubLine) -> None:
            empty = tree.end_orphans(child, attempt.directory.marker, cgroup=cgroup)
            message = "its supervisor was killed; what it had started was ended" + ("" if empty else ", not all of it")
            self._post(lambda: self._conclude(attempt, {"cause": "infra", "message": message}))

        self._porter.do(bury)

    def _fail(self, attempt: Attempt, message: str) -> None:
        """It never began, through no fault of its own."""
        self._conclude(attempt, {"cause": "infra", "message": message})

    def _conclude(self, attempt: Attempt, body: Dict[str, Any]) -> None:
        attempt.phase = Phase.ENDED
        self._free_gpus.extend(attempt.gpus)
        attempt.gpus = []
        attempt.add_fact("ended", body)
        for _ in attempt.chunks(1 << 30):  # looks for artifacts in what was not sent yet
            pass
        attempt.rewind()
        entries, problems = capture_after(attempt.directory.work, attempt.after, sorted(attempt.artifacts))
        if entries:
            self._porter.do(lambda line: self._keep_files(attempt, entries, problems, line))
        else:
            self._captured(attempt, {"files": 0, "bytes": 0, **({"problems": problems} if problems else {})})

    def _keep_files(
        self, attempt: Attempt, entries: List[manifest.Entry], problems: List[str], line: HubLine
    ) -> None:
        """Uploads what the run left; in the porter's thread."""
        try:
            body = _upload(attempt.directory.work, entries, line)
        except Unreachable:
            self._porter.do(lambda line: self._keep_files(attempt, entries, problems, line), after=_RETRY_MOST)
            return
        except (OSError, Refused, ValueError) as error:
            body = {"files": 0, "bytes": 0, "error": f"its files could not be kept: {error}"}
        if problems:
            body["problems"] = problems
        self._post(lambda: self._captured(attempt, body))

    def _captured(self, attempt: Attempt, body: Dict[str, Any]) -> None:
        if attempt.phase is not Phase.ENDED:
            return
        size, digest = attempt.output_seal()
        attempt.result = {**body, "output_bytes": size, "output_sha256": digest}
        attempt.phase = Phase.CAPTURED

    def _stop(self, stop: Stop) -> None:
        attempt = self._attempts.get((stop.run, stop.attempt))
        if attempt is None or attempt.stop_cause is not None or attempt.phase.value >= Phase.ENDED.value:
            return
        attempt.stop_cause = stop.cause
        if attempt.phase in (Phase.STAGING, Phase.READY):
            self._conclude(attempt, {"cause": stop.cause, "message": "ended before it was started"})
            return
        record.write_stop(attempt.directory.ctl, stop.cause)
        if attempt.supervisor is not None:
            tree.signal_process(attempt.supervisor, 15)

    def _fence(self, ref: Ref) -> None:
        """The hub says that this attempt is not ours any more: nothing of it may go on here."""
        attempt = self._attempts.pop(ref, None)
        if attempt is None:
            return
        attempt.phase = Phase.OVER
        self._free_gpus.extend(attempt.gpus)
        self._kill(attempt)
        self._porter.do(lambda _line: attempt.directory.remove())

    def _kill(self, attempt: Attempt) -> None:
        self._unwatch(attempt)
        found = record.examine(attempt.directory.path)
        if isinstance(found, record.Running):
            tree.kill_tree(found.supervisor)
            tree.end_orphans(found.child, attempt.directory.marker, cgroup=found.cgroup)

    def _unwatch(self, attempt: Attempt) -> None:
        if attempt.pidfd is not None:
            self._poller.unregister(attempt.pidfd)
            del self._by_pidfd[attempt.pidfd]
            os.close(attempt.pidfd)
            attempt.pidfd = None

    # --- telling the hub --------------------------------------------------------------------------------------------

    def _report(self) -> None:
        """Hands the reporter all there is to tell, if it is free and there is anything."""
        now = time.monotonic()
        if self._reporting is not None or now < self._retry_at or not self._attempts:
            return
        facts: List[Fact] = []
        chunks: List[messages.Chunk] = []
        payloads: List[bytes] = []
        told: List[Tuple[Attempt, int]] = []
        budget = _REPORT_BYTES
        for attempt in self._attempts.values():
            for chunk, content in attempt.chunks(min(budget, _STREAM_BYTES)):
                chunks.append(chunk)
                payloads.append(content)
                budget -= len(content)
            if attempt.phase is Phase.CAPTURED and attempt.result is not None and attempt.is_all_sent():
                attempt.add_fact("captured", attempt.result)
                attempt.result = None
            if attempt.facts:
                facts.extend(attempt.facts)
                told.append((attempt, len(attempt.facts)))
        if not (facts or chunks or self._must_report):
            return
        self._must_report = False
        self._publish_poll()
        asked = self._poll_now
        body = messages.pack_report(Report(facts, chunks, asked), payloads)
        self._reporting = told
        self._reporter.do(lambda line: self._deliver(line, body, asked))

    def _deliver(self, line: HubLine, body: bytes, asked: Poll) -> None:
        """In the reporter's thread."""
        try:
            orders = line.report(body)
        except (Unreachable, Refused) as error:
            self._post(lambda error=error: self._undelivered(error))  # type: ignore[misc]
            return
        self._post(lambda: self._delivered(orders, asked))

    def _delivered(self, orders: Orders, asked: Poll) -> None:
        assert self._reporting is not None
        told, self._reporting = self._reporting, None
        self._retry_after = _RETRY_LEAST
        for key, have in orders.acks.items():
            name, _, stream = key.partition("/")
            run, _, number = name.partition(".")
            attempt = self._attempts.get((int(run), int(number)))
            if attempt is not None:
                attempt.acknowledge(stream, have)
        refused = set(orders.refused)
        for attempt in self._attempts.values():
            attempt.rewind()
        for attempt, count in told:
            last = attempt.facts[count - 1]
            if f"{attempt.key}/captured" in refused:
                attempt.result = last.body
                attempt.facts = attempt.facts[count:]
                continue
            attempt.facts = attempt.facts[count:]
            if last.kind in ("captured", "returned"):
                self._retire(attempt)
        self._take_orders(orders, asked)

    def _undelivered(self, error: Union[Unreachable, Refused]) -> None:
        """Nobody knows whether it arrived: all of it will be told again."""
        self._reporting = None
        self._must_report = True
        for attempt in self._attempts.values():
            attempt.rewind()
        self._retry_at = time.monotonic() + self._retry_after
        self._retry_after = min(self._retry_after * 2, _RETRY_MOST)
        self._take_trouble(error)

    def _retire(self, attempt: Attempt) -> None:
        """The hub has everything."""
        self._attempts.pop(attempt.ref, None)
        attempt.phase = Phase.OVER
        attempt.directory.remove()
        if not any(other.grant.job == attempt.grant.job for other in self._attempts.values()):
            self._defined.pop(attempt.grant.job, None)
            self._launcher.forget(attempt.grant.job)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until something happened, or it is time to look at growing output."""
        running = any(attempt.phase is not Phase.READY for attempt in self._attempts.values())
        timeout = _TAIL_SECONDS if running else 1.0
        if self._attempts and self._reporting is None:
            timeout = min(timeout, max(0.0, self._retry_at - time.monotonic()) or timeout)
        for fd, _event in self._poller.poll(timeout * 1000):
            if fd == self._launcher.fileno():
                self._take_launcher()
            elif fd == self._wake_read:
                while True:
                    try:
                        if not os.read(self._wake_read, 4096):
                            break
                    except BlockingIOError:
                        break
            elif fd in self._by_pidfd:
                self._end(self._by_pidfd[fd])

    def _post(self, action: Callable[[], None]) -> None:
        """From any thread: have the main thread do this."""
        self._inbox.put(action)
        try:
            os.write(self._wake_write, b"!")
        except BlockingIOError:
            pass  # it will wake anyway

    def _take_inbox(self) -> None:
        while True:
            try:
                action = self._inbox.get_nowait()
            except queue.Empty:
                return
            action()

    def _begin_anew(self) -> NoReturn:
        """The launcher was killed. With threads around no other may be forked: this program starts itself again, and adopts."""
        read, write = os.pipe()
        os.write(write, json.dumps(self._order).encode())
        os.close(write)
        os.dup2(read, 0)
        os.execv(sys.executable, [sys.executable, "-m", "turnout.agent"])


class _Carrier:
    """A thread that does one thing after the other with its own line to the hub."""

    def __init__(self, line: HubLine, post: Callable[[Callable[[], None]], None], name: str) -> None:
        self._line = line
        self._post = post
        self._work: "queue.SimpleQueue[Tuple[Callable[[HubLine], None], float]]" = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def do(self, work: Callable[[HubLine], None], after: float = 0.0) -> None:
        self._work.put((work, after))

    def _run(self) -> None:
        while True:
            work, after = self._work.get()
            if after:
                time.sleep(after)
            try:
                work(self._line)
            except Exception as error:
                self._post(lambda error=error: _raise(error))  # type: ignore[misc]


def _raise(error: Exception) -> None:
    raise error


def _select_poll() -> "select.poll":
    return select.poll()


def _upload(work: str, entries: List[manifest.Entry], line: HubLine) -> Dict[str, Any]:
    listing = manifest.encode(entries)
    digest = manifest.digest_of(listing)
    by_digest = {entry.digest: entry for entry in entries if not entry.link}
    missing = set(line.missing([*by_digest, digest]))

    def blobs() -> Any:
        for name, entry in by_digest.items():
            if name in missing:
                yield name, entry.size, os.fdopen(open_after(work, entry.path), "rb")

    line.put(blobs())
    if digest in missing:
        import io

        line.put(iter([(digest, len(listing), io.BytesIO(listing))]))
    return {"manifest": digest, "files": len(entries), "bytes": sum(entry.size for entry in entries)}
