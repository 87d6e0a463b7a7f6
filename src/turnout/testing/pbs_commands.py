"""``qsub``, ``qstat`` and ``qdel`` of a PBS that is not there: they take, print and complain of what the real ones do,
and run jobs as processes of this machine.

Run as a program: FOLDER FAMILY COMMAND ARGS…. It needs nothing but Python. `turnout.testing.pbs` installs it. What it
prints follows the manuals and public transcripts of PBS Professional and Torque; it is no server.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = "pbs"
UNKNOWN, FINISHED, REJECTED = 153, 35, 188
_KILL_DELAY = 2.0
#: Processors of the largest node: a job that wants more waits for ever.
_LARGEST_NODE = 1024
#: Jobs at once; others wait until one of them ends.
_AT_ONCE = 32
_OPTIONS = re.compile(r"^-([A-Za-z])\s*(.*)$")
_TAKES_VALUE, _FLAGS = "AlNoeqjJtrSWmMpu", "hV"


class Refused(Exception):
    """What a command complains of, and its exit code."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Server:
    """Its memory is a directory: a file for each job, or each task of an array. Those that may begin have an empty one
    in ``waiting``, and then in ``running``."""

    def __init__(self, folder: Path, family: str) -> None:
        self.folder = folder
        self.is_torque = family == "torque"
        for each in ("jobs", "waiting", "running"):
            (folder / each).mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        with open(self.folder / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def jobs(self) -> dict[str, dict[str, Any]]:
        """By id, ``7`` or ``7[2]``, in order."""
        found = {path.stem: json.loads(path.read_text()) for path in (self.folder / "jobs").glob("*.json")}
        return dict(sorted(found.items(), key=lambda item: _numbers(item[0])))

    def job(self, job: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self.folder / "jobs" / f"{job}.json").read_text())
            return found
        except FileNotFoundError:
            return None

    def start_waiting(self) -> None:
        """As many as there is room for. Whoever calls it has the lock."""
        room = _AT_ONCE - len(os.listdir(self.folder / "running"))
        for job in sorted(os.listdir(self.folder / "waiting"), key=_numbers)[: max(0, room)]:
            (self.folder / "waiting" / job).rename(self.folder / "running" / job)
            _start(self, job)

    def save(self, job: str, fields: dict[str, Any]) -> None:
        fresh = self.folder / "jobs" / f"{job}.{os.getpid()}"
        fresh.write_text(json.dumps(fields))
        fresh.replace(self.folder / "jobs" / f"{job}.json")

    def next_number(self) -> int:
        counter = self.folder / "counter"
        number = int(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text(str(number))
        return number


def qsub(server: Server, args: list[str]) -> None:
    """The script's path comes last; its directives count as options."""
    *given, path = args
    if not os.path.isfile(path):
        raise Refused(f"qsub: script file cannot be loaded {path}", 1)
    text = Path(path).read_text()
    lines = [line[len("#PBS ") :].strip() for line in text.splitlines() if line.startswith("#PBS ")]
    options: dict[str, list[str]] = {}
    for each in [*lines, *_paired(given)]:
        found = _OPTIONS.match(each)
        if found is None or found.group(1) not in _TAKES_VALUE + _FLAGS:
            raise Refused(f"qsub: invalid option -- '{each}'", 2)
        options.setdefault(found.group(1), []).append(found.group(2))
    _check(server, options)
    with server.locked():
        number = server.next_number()
        script = server.folder / f"{number}.SC"
        shutil.copy(path, script)
        tasks = _tasks(options, "t" if server.is_torque else "J")
        for task in tasks:
            job = str(number) if task is None else f"{number}[{task}]"
            server.save(job, _new(options, script, task))
            if "h" not in options and _processors(options) <= _LARGEST_NODE:
                (server.folder / "waiting" / job).touch()
        server.start_waiting()
    print(f"{number}{'[]' if tasks != [None] else ''}.{SERVER}")


def _numbers(job: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", job)]


def _paired(args: list[str]) -> list[str]:
    """Options with their values, as a directive has them."""
    words, paired = iter(args), []
    for word in words:
        paired.append(f"{word} {next(words, '')}" if word[1:] in set(_TAKES_VALUE) else word)
    return paired


def _check(server: Server, options: dict[str, list[str]]) -> None:
    asked = ",".join(options.get("l", []))
    if len(options.get("N", ["STDIN"])[0]) > 15:
        raise Refused("qsub: illegal -N value", 2)
    if ("J" in options) if server.is_torque else ("t" in options):
        raise Refused("qsub: invalid option -- 'J'" if server.is_torque else "qsub: invalid option -- 't'", 2)
    if "J" in options and options.get("r", ["y"])[-1] == "n":
        raise Refused("qsub: cannot submit non-rerunable Array Job", REJECTED)
    if ("select=" in asked) if server.is_torque else ("nodes=" in asked):
        raise Refused("qsub: Unknown resource: nodes" if not server.is_torque else "qsub: Unknown resource", REJECTED)
    if "gpus=" in asked:
        raise Refused("qsub: Job exceeds queue and/or server resource limits", REJECTED)
    if options.get("q", [""])[0] not in ("", "workq", "batch"):
        raise Refused("qsub: Unknown queue", 170)


def _processors(options: dict[str, list[str]]) -> int:
    """How many a job wants on one node."""
    found = re.search(r"(?:ncpus|ppn)=(\d+)", ",".join(options.get("l", [])))
    return int(found.group(1)) if found else 1


def _tasks(options: dict[str, list[str]], flag: str) -> list[int | None]:
    if flag not in options:
        return [None]
    first, _, last = options[flag][0].partition("-")
    if flag == "J" and int(last) <= int(first):
        raise Refused("qsub: illegal -J value", 2)  # the real one wants at least two
    return list(range(int(first), int(last) + 1))


def _new(options: dict[str, list[str]], script: Path, task: int | None) -> dict[str, Any]:
    walltime = re.search(r"walltime=(\d+):(\d+):(\d+)", ",".join(options.get("l", [])))
    hours, minutes, seconds = (int(each) for each in walltime.groups()) if walltime else (0, 0, 0)
    return {
        "name": options.get("N", ["STDIN"])[0], "script": str(script), "output": options.get("o", ["/dev/null"])[0],
        "task": task, "state": "H" if "h" in options else "Q", "pid": 0, "exit": None, "queued": time.time(),
        "walltime": hours * 3600 + minutes * 60 + seconds, "workdir": os.getcwd(),
    }  # fmt: skip


def _start(server: Server, job: str) -> None:
    """A process that looks after the job, and outlives this one."""
    argv = [
        sys.executable,
        "-I",
        "-S",
        __file__,
        str(server.folder),
        "torque" if server.is_torque else "pro",
        "mom",
        job,
    ]
    null = subprocess.DEVNULL
    subprocess.Popen(argv, stdin=null, stdout=null, stderr=null, start_new_session=True, cwd="/")


def mom(server: Server, args: list[str]) -> None:
    """Runs a job to its end, or to that of its time."""
    (job,) = args
    try:
        _run(server, job)
    finally:
        with server.locked():
            (server.folder / "running" / job).unlink(missing_ok=True)
            server.start_waiting()


def _run(server: Server, job: str) -> None:
    fields = server.job(job)
    assert fields is not None
    index = "PBS_ARRAYID" if server.is_torque else "PBS_ARRAY_INDEX"
    env = {
        **os.environ, "PBS_JOBID": f"{job}.{SERVER}", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBNAME": fields["name"],
        "PBS_O_WORKDIR": fields["workdir"], **({} if fields["task"] is None else {index: str(fields["task"])}),
    }  # fmt: skip
    spool = server.folder / f"{job}.OU"
    with open(spool, "wb") as output, server.locked():
        fields = server.job(job)
        if fields is None or fields["state"] != "Q":
            return
        child = subprocess.Popen(
            ["/bin/sh", fields["script"]], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env,
            cwd=os.path.expanduser("~"), start_new_session=True,
        )  # fmt: skip
        server.save(job, {**fields, "state": "R", "pid": child.pid, "started": time.time()})
    try:
        status = child.wait(fields["walltime"] or None)
    except subprocess.TimeoutExpired:
        _end(child.pid)
        child.wait()
        status = None
    code = (-11 if server.is_torque else -29) if status is None else status if status >= 0 else 256 - status
    shutil.copyfile(spool, fields["output"])
    with server.locked():
        server.save(job, {**(server.job(job) or fields), "state": "C" if server.is_torque else "F", "exit": code})


def _end(pid: int) -> None:
    """As a real one does it: all of the session is told, and killed after a while."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + _KILL_DELAY
        while number == signal.SIGTERM and time.monotonic() < deadline and _is_alive(pid):
            time.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def qdel(server: Server, args: list[str]) -> None:
    with server.locked():
        codes = [_delete(server, each.partition(".")[0]) for each in args]
    sys.exit(max(codes))


def _delete(server: Server, job: str) -> int:
    fields = server.job(job)
    if fields is None:
        print(f"qdel: Unknown Job Id {job}.{SERVER}", file=sys.stderr)
        return UNKNOWN
    if fields["state"] in "FC":
        said = "Request invalid for state of job" if server.is_torque else "Job has finished"
        print(f"qdel: {said} {job}.{SERVER}", file=sys.stderr)
        return FINISHED
    if fields["pid"]:
        _signal_later(fields["pid"])
    else:
        (server.folder / "waiting" / job).unlink(missing_ok=True)
        server.save(job, {**fields, "state": "C" if server.is_torque else "F", "exit": 271})
    return 0


def _signal_later(pid: int) -> None:
    """Returning does not wait for the end."""
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 64)  # the lock as well
        _end(pid)
        os._exit(0)


def qstat(server: Server, args: list[str]) -> None:
    if "--version" in args:
        print(
            "Version: 6.1.2" if server.is_torque else "pbs_version = 22.05.11",
            file=sys.stderr if server.is_torque else sys.stdout,
        )
        return
    flags = {each for each in args if each.startswith("-")}
    wanted = [each.partition(".")[0] for each in args if not each.startswith("-")]
    jobs = server.jobs()
    code = 0
    for name in wanted:
        if not _matching(name, jobs):
            print(f"qstat: Unknown Job Id {name}.{SERVER}", file=sys.stderr)
            code = UNKNOWN
        elif not server.is_torque and "-x" not in flags and jobs[_matching(name, jobs)[0]]["state"] == "F":
            print(
                f"qstat: {name}.{SERVER} Job has finished, use -x or -H to obtain historical job information",
                file=sys.stderr,
            )
            code = FINISHED
    shown = [job for name in wanted for job in _matching(name, jobs)] if wanted else list(jobs)
    for job in shown:
        if jobs[job]["state"] != "F" or "-x" in flags:
            print(_full(job, jobs[job], server.is_torque))
    sys.exit(code)


def _matching(name: str, jobs: dict[str, dict[str, Any]]) -> list[str]:
    return [job for job in jobs if job == name or (name.endswith("[]") and job.startswith(name[:-1]))]


def _full(job: str, fields: dict[str, Any], is_torque: bool) -> str:
    """An entry of ``qstat -f``; long values go on in the next line, after a tab."""
    comment = {"Q": "Not Running: Insufficient amount of resource: ncpus", "H": "Job held by user"}.get(
        fields["state"], ""
    )
    shown = {
        "Job_Name": fields["name"], "Job_Owner": f"me@{SERVER}.example.org", "job_state": fields["state"],
        "queue": "batch" if is_torque else "workq", "server": SERVER, "Output_Path": f"{SERVER}:{fields['output']}",
        "exec_host": "node1/0" if fields["pid"] else "", "comment": comment,
        "exit_status" if is_torque else "Exit_status": "" if fields["exit"] is None else str(fields["exit"]),
    }  # fmt: skip
    lines = [f"Job Id: {job}.{SERVER}"]
    for name, value in shown.items():
        if value:
            text = f"    {name} = {value}"
            lines += [text[:79], *(f"\t{text[at : at + 70]}" for at in range(79, len(text), 70))]
    return "\n".join(lines) + "\n"


def main() -> None:
    folder, family, command, *args = sys.argv[1:]
    try:
        {"qsub": qsub, "qstat": qstat, "qdel": qdel, "mom": mom}[command](Server(Path(folder), family), args)
    except Refused as error:
        print(error, file=sys.stderr)
        sys.exit(error.code)


if __name__ == "__main__":
    main()
