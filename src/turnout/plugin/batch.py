"""Schedulers that are used by commands: what a class needs to say of one, and all that is the same for every one."""

from __future__ import annotations

import hashlib
import re
import shlex
import time
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from turnout.plugin.examining import examine_shared
from turnout.plugin.job_directory import JobDirectory, Record
from turnout.plugin.job_script import WARNED, script, start_lines
from turnout.plugin.provider import Capabilities, Failure, Finding, Handle, Launch, Need, Observation, Phase, Provider
from turnout.plugin.settings import text, texts
from turnout.plugin.transport import ARGUMENTS, SshSettings, Told, Transport, listed, transport

_PATIENCE = 90.0  # a scheduler that is busy takes its time
_FRESH = 10.0  # seconds for which it is believed which jobs have a name
#: Besides the kinds of `Failure`, what a complaint may mean: nobody can tell whether the job was taken.
UNCLEAR = "unclear"

#: $1 = where the shell reads what it needs to know first; the command comes by standard input, however long it is.
_COMMAND = f'[ -z "$1" ] || . "$1" || exit 1; {ARGUMENTS}; exec "$@" </dev/null'


@dataclass(frozen=True)
class BatchSettings(SshSettings):
    """What every scheduler of this kind may be told."""

    directory: str = field(
        default="", metadata={"doc": "A directory that nodes share with the machine where jobs are submitted."}
    )
    relay: str = field(
        default="", metadata={"doc": "HOST or HOST:PORT of that machine, if nodes can reach the hub only through it."}
    )
    profile: str = field(
        default="", metadata={"doc": "A file that a shell reads there before any command of the scheduler."}
    )
    setup_lines: Sequence[str] = field(
        default=(), metadata={"doc": "Shell lines of a job before its agent starts, as in `[module load python]`."}
    )
    raw_options: Sequence[str] = field(
        default=(), metadata={"doc": "Options of a job, passed on as they are, as in `[--exclusive]`."}
    )


@dataclass(frozen=True)
class Batch:
    """Launches of equal need that become one native job, an array if they are several. `root` is the directory."""

    name: str
    root: str
    launches: Sequence[Launch]

    @property
    def count(self) -> int:
        return len(self.launches)

    @property
    def need(self) -> Need:
        return self.launches[0].need

    @property
    def script(self) -> str:
        return f"{self.root}/batches/{self.name}.sh"

    @property
    def log(self) -> str:
        """For what goes wrong before a job's own log is there."""
        return f"{self.root}/batches/{self.name}.log"


class BatchProvider(Provider):
    """A scheduler is what is abstract here: pure functions from values to texts, and from texts to values.

    A handle is the native id of the job, and for a task of an array that of the task, as the scheduler writes it.
    """

    capabilities = Capabilities(launches="agents", elastic=True, wall_time=True, records=True)
    Settings = BatchSettings
    #: Names of environment variables that the scheduler's commands need.
    variables: ClassVar[Sequence[str]] = ()
    #: What a line of options in a script begins with.
    directive: ClassVar[str]
    #: Shell words that in a job are the number of its task (nothing if it is no array), and, with that as ``$task``,
    #: its handle.
    task: ClassVar[str]
    identity: ClassVar[str]
    #: What in a complaint about a submit tells its kind (see `Failure`, and `UNCLEAR`); none of it: rejected.
    complaints: ClassVar[Sequence[Tuple[str, str]]] = ()
    #: What in a complaint about a cancel says that there was nothing to end.
    already_gone: ClassVar[Sequence[str]] = ()

    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(settings)
        self.transport: Transport = transport(settings, "clusters", variables=self.variables)
        self.transport.patience = _PATIENCE
        self._directory = JobDirectory(self.transport)
        self._named: Tuple[str, List[str], float] = ("", [], 0.0)

    @abstractmethod
    def options(self, batch: Batch) -> List[str]:
        """Of its script, one a line: its name, that it is not to be run again by itself, what it needs, and the range
        of its array (from 1) if it is several."""

    @abstractmethod
    def submit_argv(self, batch: Batch) -> List[str]:
        """The command that submits `batch.script`, logging to `batch.log`."""

    def parse_submit(self, told: Told) -> str:
        """The native id of the job. ValueError when there is none in it. Unless said otherwise, it is the number with
        which the last line begins: JOB, JOB.SERVER, JOB[].SERVER, JOB.1-3:1 or JOB;CLUSTER."""
        found = re.fullmatch(r"(\d+)(?:[.;\[]\S*)?", "".join(told.out.strip().splitlines()[-1:]))
        if found is None:
            raise ValueError("no number of a job")
        return found.group(1)

    @abstractmethod
    def handle(self, job: str, index: int) -> Handle:
        """That of a task of an array."""

    @abstractmethod
    def status_argv(self, handles: Sequence[Handle]) -> List[str]:
        """The one command that tells how all these are, however many."""

    @abstractmethod
    def parse_status(self, told: Told) -> Dict[Handle, Observation]:
        """What it tells; there may be others among them. ValueError when this is no answer: it must be possible to
        tell one that names no job from none."""

    @abstractmethod
    def cancel_argv(self, handles: Sequence[Handle]) -> List[str]: ...

    @abstractmethod
    def find_argv(self, name: str) -> List[str]: ...

    @abstractmethod
    def parse_find(self, told: Told, name: str) -> List[str]:
        """The native ids of the jobs of that name, the latest last. ValueError when this is no answer."""

    @abstractmethod
    def version_argv(self) -> List[str]: ...

    def probe_argv(self, batch: Batch) -> List[str]:
        """The command that tells whether `batch.script` would be taken, and submits nothing; none = there is none."""
        return []

    def history_argv(self, handles: Sequence[Handle]) -> List[str]:
        """The command that tells of jobs which are over; none = there is none."""
        return []

    def parse_history(self, told: Told) -> Dict[Handle, Observation]:
        """What it tells; nothing where the site keeps no history."""
        return {}

    def name_of(self, token: str) -> str:
        """What a job is called whose first launch has that token."""
        return f"turnout-{token[:16]}"

    def text(self, key: str, default: str = "") -> str:
        """A setting of its own; `default` if nothing is said of it."""
        return text(self.settings, key, default)

    def render(self, batch: Batch) -> str:
        """The script of a job. Failure for an option of several lines: all but the first would be commands."""
        options = [*self.options(batch), *texts(self.settings, "raw-options")]
        for each in options:
            if "\n" in each:
                raise Failure(f"an option of its jobs has several lines: {each!r}", kind="rejected")
        directives = [f"{self.directive} {each}" for each in options]
        return script(directives, batch.root, self.task, batch.name, self.identity, texts(self.settings, "setup-lines"))

    def submit(self, launches: Sequence[Launch]) -> List[Union[Handle, Failure]]:
        """One native job for all launches of equal need (and program)."""
        self._named = "", [], 0.0
        alike: Dict[Tuple[Need, str], List[Launch]] = {}
        for launch in launches:
            alike.setdefault((launch.need, launch.program), []).append(launch)
        answers: Dict[str, Union[Handle, Failure]] = {}
        for some in alike.values():
            answers.update(zip((each.token for each in some), self._submit(some)))
        return [answers[launch.token] for launch in launches]

    def observe(self, handles: Sequence[Handle]) -> Dict[Handle, Observation]:
        """A job that the scheduler does not know any more is asked for in its history and in the job's own record."""
        if not handles:
            return {}
        with suppress(Failure, OSError):  # of which `check` tells; how the jobs are does not depend on it
            self._keep_relay()
        told = self._run(self.status_argv(handles))
        try:
            known = self.parse_status(told)
        except ValueError as error:
            raise self._failure(told, "transient", "the scheduler's answer was not understood") from error
        seen = {handle: known.get(handle, Observation(Phase.GONE)) for handle in handles}
        bare = [
            h for h, each in seen.items() if each.phase is Phase.GONE and (each.exit_code is None or _is_bare(each))
        ]
        return {**seen, **self._ends(bare, known)}

    def cancel(self, handles: Sequence[Handle]) -> None:
        handles = [each for each in handles if _age(each)]  # one word that is no id, and many schedulers end nothing
        if not handles:
            return
        self._directory.mark_cancelled(handles)
        told = self._run(self.cancel_argv(handles))
        lines = [line for line in f"{told.err}\n{told.out}".splitlines() if line.strip()]
        if told.code != 0 and not (lines and all(any(each in line for each in self.already_gone) for line in lines)):
            raise self._failure(told, "transient")

    def find(self, token: str) -> Optional[Handle]:
        """By the name of its job, which is that of the first launch of its batch; or by the record of its end."""
        batches, ended = self._directory.traces(token)
        found = [self._find(*each) for each in batches or [(self.name_of(token), 1, 1)]]
        return max([each for each in found if each is not None] or ended, key=_age, default=None)

    def _find(self, name: str, number: int, count: int) -> Optional[Handle]:
        """The handle of one task of the latest job of that name."""
        jobs = self._jobs_named(name)
        return None if not jobs else jobs[-1] if count == 1 else self.handle(jobs[-1], number)

    def _jobs_named(self, name: str) -> List[str]:
        """The tasks of an array are looked for one after the other: the scheduler is asked once for all of them."""
        known, jobs, until = self._named
        if name == known and time.monotonic() < until:
            return jobs
        told = self._run(self.find_argv(name))
        try:
            jobs = self.parse_find(told, name)
        except ValueError as error:
            raise self._failure(told, "transient", "the scheduler's answer was not understood") from error
        if jobs:
            self._named = name, jobs, time.monotonic() + _FRESH
        return jobs

    def check(self) -> List[Finding]:
        """Whether the machine can be reached and has room, whether the scheduler answers, and whether it would take a
        job of ours."""
        found = examine_shared(self.transport)
        if any(each.level == "problem" for each in found):
            return found
        try:
            return [*found, *self._check_relay(), self._check_scheduler()]
        except Failure as error:
            return [*found, Finding("problem", f"{self.transport.place}: {error.message}", "try it there yourself")]

    def _check_relay(self) -> List[Finding]:
        try:
            if self.text("relay"):
                _read(self.text("identity"))
                self._directory.check_relay(self.text("python"))
        except Failure as error:
            hint = "install one there, or name one: `python: /path/to/python3`"
            return [Finding("problem", f"{self.transport.place}: no relay can be started: {error.message}", hint)]
        except OSError as error:
            hint = "restart the hub: `turnout hub stop`"
            return [Finding("problem", f"no relay can be started: the hub's certificate cannot be read: {error}", hint)]
        return []

    def _check_scheduler(self) -> Finding:
        place, told = self.transport.place, self._run(self.version_argv())
        if told.code != 0:
            what = f"{place} has no {self.version_argv()[0]}: {told.complaint}"
            return Finding("problem", what, "name the file that sets its path up: `profile: FILE`")
        version = (told.out.strip() or self.name).splitlines()[0]
        try:
            self._find(self.name_of("none"), 1, 1)  # that its commands are there does not mean that somebody answers
        except Failure as error:
            hint = "ask who runs it whether it is up"
            return Finding("problem", f"{version} on {place} does not answer: {error.message}", hint)
        batch = Batch("check", self.transport.enter(), [Launch("check", "", "", (), b"")])
        batch = replace(batch, name=f"check-{hashlib.sha256(self.render(batch).encode()).hexdigest()[:8]}")
        self.transport.run('mkdir -p batches && cat > "$1"', batch.script, given=self.render(batch).encode())
        argv = self.probe_argv(batch)
        told = self._run(argv) if argv else Told(0, "", "")
        if told.code != 0:
            hint = f"correct the settings of the target, or try it there yourself: {shlex.join(argv)}"
            return Finding("problem", f"{version} on {place} would not take a job: {told.complaint}", hint)
        return Finding("ok", f"{version} on {place}, jobs share {batch.root}")

    def rest(self) -> None:
        self.transport.close()

    def clear(self) -> None:
        """The directory there goes. Failure while there are jobs: those of another target may share it."""
        handles = [handle for token in self._directory.open_tokens() if (handle := self.find(token))]
        there = [handle for handle, seen in self.observe(handles).items() if seen.phase is not Phase.GONE]
        if there:
            raise Failure(f"{len(there)} jobs are still there: {', '.join(there[:5])}")
        self._directory.clear()
        self.transport.close()

    def _submit(self, launches: Sequence[Launch]) -> List[Union[Handle, Failure]]:
        """Failure when it is not known whether the native job is there."""
        try:
            batch = Batch(self.name_of(launches[0].token), self.transport.enter(), launches)
            self._bring(batch)
            self._keep_relay()
        except Failure as error:
            return [Failure(error.message, kind=error.kind) for _ in launches]
        except OSError as error:
            return [Failure(f"the agents' program cannot be read: {error}") for _ in launches]
        told = self._run(self.submit_argv(batch))
        if told.code != 0:
            if self._kind(told) == UNCLEAR:
                raise Failure(told.complaint)
            return [self._failure(told, "rejected") for _ in launches]
        try:
            job = self.parse_submit(told)
        except ValueError as error:
            raise Failure(f"the answer to a submit was not understood: {told.out[:200]!r}") from error
        return [job] if batch.count == 1 else [self.handle(job, number) for number in range(1, batch.count + 1)]

    def _bring(self, batch: Batch) -> None:
        """All that the job's tasks read is there. The program, which they have in common, only if it was not."""
        program = _read(batch.launches[0].program)
        name = f"agent-{hashlib.sha256(program).hexdigest()[:16]}.pyz"
        files = {f"batches/{batch.name}": "".join(f"{launch.token}\n" for launch in batch.launches).encode()}
        files[f"batches/{batch.name}.sh"] = self.render(batch).encode()
        for launch in batch.launches:
            files[f"orders/{launch.token}.json"] = launch.stdin
            files[f"orders/{launch.token}.sh"] = start_lines(launch, name).encode()
        self._directory.bring(files, name, program)

    def _keep_relay(self) -> None:
        if listen := self.text("relay"):
            self._directory.keep_relay(listen, _read(self.text("identity")).decode(), self.text("python"))

    def _ends(self, handles: Sequence[Handle], known: Mapping[Handle, Observation]) -> Dict[Handle, Observation]:
        """How those ended of which the scheduler does not say it by itself: what a job that left by itself wrote down
        is enough; of others the history may know more."""
        if not handles:
            return {}
        records, cancelled = self._directory.records(handles)
        told_to = [handle for handle in handles if handle not in records or records[handle].said == WARNED]
        unsaid = [handle for handle in told_to if handle not in known or known[handle].exit_code is None]
        argv = self.history_argv(unsaid) if unsaid else []
        history = self.parse_history(self._run(argv)) if argv else {}
        ends = {}
        for handle in handles:
            told = [each[handle] for each in (history, known) if handle in each and each[handle].phase is Phase.GONE]
            seen = told[0] if told else Observation(Phase.GONE, id=handle)
            if handle in told_to and handle in cancelled and _is_bare(seen):
                seen = replace(seen, reason="cancelled")
            ends[handle] = _with_record(seen, records[handle]) if handle in records else seen
        return ends

    def _run(self, argv: Sequence[str]) -> Told:
        return self.transport.ask(_COMMAND, self.text("profile"), given=listed(argv))

    def _kind(self, told: Told) -> Optional[str]:
        said = f"{told.err}\n{told.out}"
        return next((kind for text, kind in self.complaints if text in said), None)

    def _failure(self, told: Told, otherwise: str, what: str = "") -> Failure:
        kind = self._kind(told) or otherwise
        message = f"{what}: {told.complaint}" if what else told.complaint
        retry_after = 60.0 if kind == "throttled" else 0.0
        return Failure(message, kind="transient" if kind == UNCLEAR else kind, retry_after=retry_after)


def _is_bare(seen: Observation) -> bool:
    """Whether nothing but its exit tells why it is over."""
    return seen.reason in ("", "signal", "exit_code")


def _with_record(seen: Observation, record: Record) -> Observation:
    if seen.exit_code is not None:
        return seen
    reason = seen.reason or ("signal" if record.code > 128 else "exit_code" if record.code else "")
    detail = seen.detail or ("it was told to end" if record.said == WARNED else record.said)
    return replace(seen, exit_code=record.code, reason=reason, detail=detail)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _age(handle: Handle) -> int:
    """Later jobs have higher numbers."""
    digits = re.match(r"\d+", handle)
    return int(digits.group()) if digits else 0
