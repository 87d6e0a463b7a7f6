"""Talks to the hub. One method per thing a person can do; plain dictionaries come back, in the documented shapes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlencode

from turnout.client import recent
from turnout.client.connect import connect
from turnout.client.encoding import encode
from turnout.client.keeping import Keeping
from turnout.client.lists import Lists
from turnout.client.machines import Machines
from turnout.client.output import OutputStream
from turnout.client.providing import Providing
from turnout.client.results import Results
from turnout.client.services import Services
from turnout.errors import HubUnreachable, NotFound, TurnoutError, from_dict
from turnout.home import Home, current_directory
from turnout.model.ids import is_job_name, parse_run_name
from turnout.model.pipeline import PipelineSpec
from turnout.model.search import Search
from turnout.model.spec import JobSpec
from turnout.model.state import TERMINAL
from turnout.wire import pack
from turnout.wire.http import Answer, Body, Connection, Unreachable

if TYPE_CHECKING:
    from turnout.config import TargetSettings
    from turnout.wire.manifest import Entry

View = dict[str, Any]
_WAIT = 20.0
#: For what code of a user's own may be asked about.
_SLOW = 400.0
_PACK = 16 << 20


class RunFailed(TurnoutError):
    """A run that was waited for did not complete."""

    code = "run_failed"
    exit_code = 1


class Client(Lists, Keeping, Machines, Providing, Services, Results):
    """The hub of this user (or of `home`), started when it is needed. Not for use by several threads at once."""

    def __init__(self, home: str | Path | None = None, *, start: bool = True) -> None:
        self._home = Home(Path(home).absolute()) if home is not None else Home.from_env()
        self._start = start
        self._connection: Connection | None = None

    # --- submitting -------------------------------------------------------------------------------------------------

    def submit(self, spec: JobSpec, *, key: str | None = None) -> View:
        """Hands a job over: ``{"job": "job1", "runs": ["run1", …]}``. Returning means that it is on the hub's disk.

        A lost answer is asked for again with the same `key`, so that there is one job, not two.
        """
        headers = {"Idempotency-Key": key} if key is not None else {}
        body = encode(spec)
        answer = self._view("POST", "/api/jobs", body, headers=headers, timeout=_SLOW)
        recent.remember(self._home, _here(), answer)
        return answer

    def submit_pipeline(self, spec: PipelineSpec, *, key: str | None = None) -> View:
        """As `submit`: ``{"job": "job1", "steps": {"trim": {"job": "job2", "runs": ["run1", …]}, …}}``."""
        headers = {"Idempotency-Key": key} if key is not None else {}
        answer = self._view("POST", "/api/pipelines", encode(spec), headers=headers, timeout=_SLOW)
        runs = [run for step in answer["steps"].values() for run in step["runs"]]
        recent.remember(self._home, _here(), {"job": answer["job"], "runs": runs})
        return answer

    def resume_pipeline(self, job: str) -> View:
        """Has all that failed or was given up in a pipeline done again, and nothing else: ``{"job": "job1", "steps":
        {"trim": ["run9"], …}}`` with the new runs of each step (none yet, where these are made later), and no step of
        which nothing is missing. Conflict for a job that is no pipeline."""
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        return self._view("POST", _path("job", job, "resume"), headers=headers)

    def stands_for(self, name: str) -> str:
        """What ``$lastrun`` or ``$lastjob`` stands for: the last submitted from this directory, else of all."""
        return recent.stands_for(self._home, _here(), name)

    def meant(self, name: str) -> str:
        """The same, and ``job7`` for what only a job is called: a pipeline, or a step whose runs are not made yet. Any
        other name is given back; NotFound for a label that nothing has."""
        name = self.stands_for(name)
        if is_job_name(name) or parse_run_name(name) is not None:
            return name
        try:
            self.run(name)
        except NotFound as error:
            try:
                return str(self.job(name)["name"])
            except NotFound:
                raise error from None
        return name

    def submit_command(self, command: Sequence[str], *, cwd: str | Path | None = None, **wishes: Any) -> View:
        """What ``turnout run -d COMMAND`` does: freezes `cwd`, hands the job over, and gives what `submit` gives.

        `wishes` are the fields of `preparing.Wish`: ``name="a", tags={"k": "v"}, runs=3, resources=Resources(cpus=2)``.
        """
        from turnout.client.preparing import Wish, prepare

        wish = Wish(command=tuple(map(str, command)), **wishes)
        prepared = prepare(wish, self._home, Path(cwd).absolute() if cwd is not None else current_directory())
        return self.submit(prepared.deliver(self))

    def submit_commands(
        self, commands: Sequence[Sequence[str]], *, cwd: str | Path | None = None, **wishes: Any
    ) -> View:
        """The same with several commands, which are the runs of one job."""
        return self.submit_command((), cwd=cwd, several=tuple(tuple(map(str, each)) for each in commands), **wishes)

    def rerun(self, run: str, arguments: Sequence[str] | None = None, *, target: str | None = None) -> View:
        """Submits a run again, from the files it was given then; other `arguments` replace its own."""
        from turnout.client.rerun import Changes, prepare

        prepared = prepare(self.spec(run), Changes(arguments=arguments, target=target), self._home, current_directory())
        return self.submit(prepared.deliver(self))

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Those blobs that the hub does not have."""
        return list(self._json("POST", "/api/blobs/missing", encode(list(digests))))

    def put_stream(self, digest: str, chunks: Iterable[bytes]) -> None:
        """Keeps one blob of any size; `chunks` that can be read again are sent again when the hub goes away."""
        headers = {"Content-Type": "application/octet-stream"}
        self._request("PUT", f"/api/blobs/{digest}", chunks, headers=headers, timeout=3600.0).read()

    def put_many(self, blobs: Iterable[tuple[str, bytes]]) -> None:
        """Keeps blobs on the hub; each pack of them is on its disk before the next is sent."""
        waiting: list[bytes] = []
        size = 0
        for digest, content in blobs:
            waiting.append(pack.entry(digest, content))
            size += len(content)
            if size > _PACK:
                self._put_pack(waiting)
                waiting, size = [], 0
        if waiting:
            self._put_pack(waiting)

    def _put_pack(self, entries: list[bytes]) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        self._json("POST", "/api/blobs", b"".join(entries), headers=headers, timeout=600.0)

    # --- looking ----------------------------------------------------------------------------------------------------

    def run(self, name: str) -> View:
        return self._view("GET", self._run(name))

    def job(self, name: str) -> View:
        return self._view("GET", self._job(name))

    def events(self, name: str) -> list[View]:
        """The history of a run; of a job, what is not told of each of its runs."""
        name = self.meant(name)
        is_job = is_job_name(name)
        return list(self._json("GET", self._job(name, "events") if is_job else self._run(name, "events")))

    def metrics(self, name: str, names: Sequence[str] = ()) -> dict[str, list[View]]:
        query = "?" + urlencode([("names", metric) for metric in names]) if names else ""
        return self._view("GET", self._run(name, "metrics") + query)

    def why(self, name: str) -> View:
        """Why a run or job waits, or ended as it did; of a node, what it does. ``why`` are sentences."""
        if is_job_name(self.stands_for(name)):
            return self._view("GET", self._job(name, "why"))
        try:
            return self._view("GET", self._run(name, "why"))
        except NotFound as error:
            if parse_run_name(name) is not None:
                raise
            try:
                return self._view("GET", _path("node", name, "why"))
            except NotFound:
                raise error from None

    def output(
        self, name: str, *, follow: bool = False, attempt: int | None = None, offset: int = 0, tail: int | None = None
    ) -> OutputStream:
        """The exact bytes a run printed: its newest attempt, or `attempt`; from `offset`, or its last `tail` lines.

        With `follow`, until it is over, and through further attempts. NotFound for an attempt it did not have.
        """
        path = self._run(name, "output")

        def ask(query: str, timeout: float) -> Answer:
            return self._request("GET", f"{path}?{query}", timeout=timeout)

        return OutputStream(ask, name, follow=follow, attempt=attempt, offset=offset, tail=tail)

    def wait(self, name: str, *, timeout: float | None = None) -> View:
        """The run (or job) once it is over; TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else time.monotonic() + timeout
        name = self.meant(name)
        path = self._job(name, "wait") if is_job_name(name) else self._run(name, "wait")
        while True:
            left = _WAIT if deadline is None else min(_WAIT, deadline - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"{name} is not over after {timeout:g} s")
            view = self._view("GET", f"{path}?seconds={left:.3f}", timeout=left + 30)
            if view["state"] in TERMINAL:
                return view

    def job_wait(self, name: str, *, seconds: float) -> View:
        """The job once it is over, or as it is after `seconds`."""
        return self._view("GET", self._job(name, "wait") + f"?seconds={seconds:.3f}", timeout=seconds + 30)

    # --- searches ---------------------------------------------------------------------------------------------------

    def search(self, job: str) -> View:
        """How a search stands: its budget, how its runs are, the best so far. Conflict for a job that is none."""
        return self._view("GET", self._job(job, "search"))

    def best(self, job: str, most: int = 1) -> list[View]:
        """The best runs of a search, the best first; with several objectives, those that none beats."""
        return list(self._json("GET", self._job(job, "search/best") + f"?most={most}"))

    def tried(self, job: str) -> list[View]:
        """All that a search has tried: runs, parameters, states and the values of its objectives, in order."""
        return list(self._json("GET", self._job(job, "search/tried")))

    def check_search(self, search: Search) -> None:
        """InvalidInput or NotFound for one that its sampler or stopper would refuse. Nothing is changed."""
        self._json("POST", "/api/searches/check", encode(search))

    def change_search(
        self, job: str, *, action: str | None = None, runs: int | None = None, seconds: float | None = None,
        more: bool = False, concurrent: int | None = None,
    ) -> View:  # fmt: skip
        """Pauses or resumes a search, or changes what it may use; `more` counts on top of what it had. As `search`."""
        body = {"action": action, "runs": runs, "seconds": seconds, "more": more, "concurrent": concurrent}
        return self._view("POST", self._job(job, "search"), encode(body))

    # --- steering ---------------------------------------------------------------------------------------------------

    def cancel(
        self, runs: Sequence[str] = (), *, job: str | None = None, everything: bool = False, place: str | None = None,
        stopped: str | None = None,
    ) -> list[View]:  # fmt: skip
        """Cancels these runs, a job, or everything (at a target or node: `place`), and tells what became of each.
        `stopped`: why they are not worth going on; they end ``stopped`` then."""
        runs = [self.stands_for(name) for name in runs]
        body = {"runs": runs, "job": job and self.stands_for(job), "all": everything, "place": place}
        body |= {} if stopped is None else {"stopped": stopped}
        return list(self._json("POST", "/api/cancel", encode(body), timeout=_SLOW))

    def release(self, *names: str) -> list[str]:
        """Lets held runs, or those of held jobs, into the queue; the names of those that were held. Idempotent."""
        return list(self._json("POST", "/api/release", encode([self.stands_for(name) for name in names])))

    def extract(self, name: str, directory: str | Path) -> View:
        """Writes what the run was given to ``before/``, what it left to ``after/``, what it printed to ``output.txt``.

        `directory` is new or empty, else Conflict. Raising means that nothing was left there.
        """
        from turnout.client.extracting import extract

        return extract(self, [self.stands_for(name)], Path(directory))[0]

    def extract_all(self, names: Sequence[str], directory: str | Path) -> list[View]:
        """The same of every run that `names` mean; of several, each in a directory of its name below."""
        from turnout.client.extracting import extract

        return extract(self, self.run_names(names), Path(directory))

    def files(self, name: str) -> View:
        """The digests of the manifests of what the run was given (`before`) and left (`after`); None for nothing."""
        return self._view("GET", self._run(name, "files"))

    # --- shares ------------------------------------------------------------------------------------------------------

    def upload(
        self, paths: Sequence[str | Path], share: str, *, path: str = "", allow_secrets: Sequence[str] = (),
        omit: Sequence[str] = (), told: Callable[[int, int], None] | None = None,
    ) -> View:  # fmt: skip
        """Puts files, and all that directories hold, into a share (made if it is new), at `path` in it, and gives the
        share as it is then; ``left_out`` are directories that are not in it, for they hold nothing. What runs were
        bound to before stays as it was. `told` hears of bytes done and in all."""
        from turnout.client import shares

        shares.check_name(share)
        self._home.make()
        files, cache = [Path(each) for each in paths], self._home.stat_cache
        found = shares.gather(files, place=path, cache=cache, allow_secrets=allow_secrets, omit=omit)
        digest = shares.deliver(found, self, told)
        view = self._view("POST", _path("share", share, ""), encode({"manifest": digest}))
        return {**view, "left_out": found.empty}

    def download_share(
        self, share: str, directory: str | Path, *, pattern: str | None = None,
        told: Callable[[int, int], None] | None = None,
    ) -> View:  # fmt: skip
        """Writes the files of a share whose paths are, lie below, or match `pattern` into a new or empty directory."""
        from turnout.client import shares

        entries = shares.select(self.share_files(share), pattern)
        if not entries:
            hint = f"`turnout list shares {share}` shows what is in it"
            raise NotFound(f"nothing in share {share!r} matches {pattern!r}", hint=hint)
        return {"share": share, **shares.write(self, entries, Path(directory), told)}

    def shares(self) -> list[View]:
        return list(self._json("GET", "/api/shares"))

    def share(self, name: str) -> View:
        return self._view("GET", _path("share", name, ""))

    def share_files(self, name: str) -> list[Entry]:
        """What is in it, as its manifest has it."""
        from turnout.client import shares

        return shares.read_manifest(self, self.share(name)["manifest"])

    def bind_share(self, name: str, path: str = "") -> View:
        """What the share, or `path` in it, is now: ``{"manifest", "files", "bytes"}``. That never changes."""
        return self._view("POST", _path("share", name, "bind"), encode({"path": path}))

    def delete_share(self, name: str) -> View:
        """The share as it was. Runs that read it still can: they were bound to its files."""
        return self._view("DELETE", _path("share", name, ""))

    def open_blobs(self, digests: Sequence[str]) -> BinaryIO:
        """A stream of these blobs as wire.pack has them."""
        return self._request("POST", "/api/blobs/get", encode(list(digests)), timeout=600.0).stream

    # --- the hub ----------------------------------------------------------------------------------------------------

    def hub(self) -> View:
        return self._view("GET", "/api/hub")

    def define_target(self, name: str, target: TargetSettings) -> View:
        """What a target is with these settings: its ``place``, for the `place` of a JobSpec, and whether one launch
        there is an agent or a run (``launches``). Idempotent. ProviderError when the class that serves it is broken."""
        body = encode(target)
        return self._view("PUT", f"/api/targets/{quote(name, safe='')}", body, timeout=_SLOW)

    def targets(self) -> dict[str, View]:
        return self._view("GET", "/api/targets")

    def check_blobs(self, *, deep: bool = False) -> View:
        """Whether the kept files are whole: all of them are read if `deep`, else some, in about two seconds."""
        return self._view("GET", f"/api/blobs/check?deep={str(deep).lower()}", timeout=86400.0 if deep else 60.0)

    def stop_hub(self) -> View:
        answer = self._view("POST", "/api/hub/stop")
        self.close()
        return answer

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run(self, name: str, part: str = "") -> str:
        return _path("run", self.stands_for(name), part)

    def _job(self, name: str, part: str = "") -> str:
        return _path("job", self.stands_for(name), part)

    def _view(self, *args: Any, **options: Any) -> View:
        return dict(self._json(*args, **options))

    def _json(
        self, method: str, path: str, body: Body = None, *, headers: dict[str, str] | None = None, timeout: float = 60.0
    ) -> Any:
        return self._request(method, path, body, headers=headers, timeout=timeout).json()

    def _request(
        self, method: str, path: str, body: Body = None, *, headers: dict[str, str] | None = None, timeout: float = 60.0
    ) -> Answer:
        """Every request may be repeated (its key says that it is the same one): one that found the hub gone finds or
        starts it again. Not so a body that can be read only once.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex, **(headers or {})}
        for last in (True,) if isinstance(body, Iterator) else (False, False, True):
            if self._connection is None:
                self._connection = connect(self._home, start=self._start)
            try:
                answer = self._connection.request(method, path, body, headers=headers, timeout=timeout)
                break
            except Unreachable as error:
                self.close()
                if last:
                    raise HubUnreachable(f"the hub went away: {error}", hint="see `turnout hub logs`") from error
        if answer.status < 400:
            return answer
        try:
            told = answer.json()
        except ValueError:
            told = None
        raise from_dict(told if isinstance(told, dict) else {"message": f"the hub answered {answer.status}"})


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was removed; then it is no directory anything was submitted from
        return Path("/")


def _path(kind: str, name: str, part: str) -> str:
    """The route of a run or job. What can be no name is not found without asking: a ``/`` would be another route."""
    is_text = name.isascii() or name == name.encode(errors="ignore").decode()
    if not name or not is_text or "/" in name or name in (".", ".."):
        raise NotFound(f"no {kind} {name!r}", hint=f"`turnout list {kind}s` shows what there is")
    return f"/api/{kind}s/{quote(name, safe='')}" + (f"/{part}" if part else "")
