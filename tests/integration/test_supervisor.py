"""A command under its supervisor: what it is given, what is kept of it, and that it is executed once."""

from __future__ import annotations

import json
import os
import resource
import stat
import time
from pathlib import Path

import pytest

from tests.integration.supervising import KEY, Node
from tests.integration.supervising import node as node
from tests.integration.supervising import thrifty_node as thrifty_node
from turnout.agent import record, tree
from turnout.agent.launcher import Ended, Failed, Started


@pytest.mark.parametrize("code", [0, 1, 3, 255])
def test_exit_code_is_recorded(node: Node, code: int) -> None:
    before = time.time()
    ended = node.shell(f"exit {code}")
    assert (ended.cause, ended.exit_code, ended.signal) == ("exit", code, None)
    assert ended.message == f"exit code {code}"
    assert before <= ended.started <= ended.ended <= time.time()
    assert 0 < ended.seconds < 10


@pytest.mark.parametrize(("name", "number"), [("SEGV", 11), ("KILL", 9), ("TERM", 15)])
def test_signal_is_recorded(node: Node, name: str, number: int) -> None:
    ended = node.shell(f"kill -{name} $$")
    assert (ended.cause, ended.exit_code, ended.signal) == ("signal", None, number)
    assert ended.message == f"killed by SIG{name}"


def test_use_of_the_machine_is_recorded(node: Node) -> None:
    ended = node.python("import time\nx = b'x' * (80 << 20)\nwhile time.process_time() < 0.3: pass")
    assert ended.max_rss > 80 << 20
    assert 0.3 <= ended.cpu_seconds < 5


def test_output_is_kept_to_the_byte(node: Node) -> None:
    written = bytes(range(256)) * 3000 + b"\r\x1b[0K\n\n no newline at the end"
    (node.root / "expected").write_bytes(written)
    ended = node.shell(f"cat {node.root}/expected")
    assert node.output() == written
    assert ended.output_bytes == len(written)


def test_stdout_and_stderr_go_to_one_file_in_the_order_they_came(node: Node) -> None:
    node.shell("echo one; echo two >&2; echo three; printf four >&2")
    assert node.output() == b"one\ntwo\nthree\nfour"


def test_command_finds_a_clean_place(node: Node) -> None:
    """Its own directory and session, empty stdin, no descriptor of ours, every signal as a shell would have it."""
    ended = node.shell(
        "pwd -P; cat; ls /proc/self/fd | wc -w; ps -o sid= -p $$; echo $$; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    )
    assert ended.exit_code == 0
    cwd, files, session, pid, blocked, ignored = node.output().decode().splitlines()
    assert cwd == str((node.directory() / "work").resolve())
    assert files == "4"  # 0, 1, 2 and the one by which ls reads the list
    assert session.strip() == pid
    assert int(blocked.split()[1], 16) == 0
    assert int(ignored.split()[1], 16) & ~(0b11 << 31) == 0  # 32 and 33 are the C library's own


def test_umask_is_the_agents_or_the_orders_and_our_files_are_private(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        node = Node(tmp_path)
    finally:
        os.umask(before)
    node.shell("umask; touch made")
    assert node.output() == b"0027\n"
    assert stat.S_IMODE((node.directory() / "work" / "made").stat().st_mode) == 0o640
    assert {stat.S_IMODE(path.stat().st_mode) for path in node.ctl().iterdir()} == {0o600}
    node.shell("umask; touch made", key="2.1", umask=0o002)
    assert node.output("2.1") == b"0002\n"
    assert stat.S_IMODE((node.directory("2.1") / "work" / "made").stat().st_mode) == 0o664
    assert {stat.S_IMODE(path.stat().st_mode) for path in node.ctl("2.1").iterdir()} == {0o600}
    node.close()


def test_environment_arrives_intact(node: Node) -> None:
    shared = {
        "PATH": os.environ["PATH"],
        "QUOTES": "a 'b' \"c\" $d `e` \\",
        "LINES": "one\ntwo\n",
        "GREEK": "λμ ☃",
        "RAW": "\udcff\udc80",
    }
    own = {"LARGE": "x" * 100_000, "GREEK": "Ω", "EMPTY": ""}
    node.define(shared)
    node.run("env", "-0", env=own)
    name, value = node.marker.split("=")
    expected = {os.fsencode(k): os.fsencode(v) for k, v in {**shared, **own, name: value}.items()}
    assert dict(entry.split(b"=", 1) for entry in node.output().split(b"\0")[:-1]) == expected


def test_environment_of_a_job_can_be_dropped(node: Node) -> None:
    node.launcher.forget(7)
    node.launcher.start(node.order("true"))
    answer = node.answer(KEY, Failed)
    assert isinstance(answer, Failed)
    assert "environment" in answer.error
    assert record.examine(str(node.directory())) is None


def test_program_is_found_by_the_runs_own_path(node: Node) -> None:
    tools = node.root / "tools"
    tools.mkdir()
    (tools / "mine").write_text("#!/bin/sh\necho found\n")
    (tools / "mine").chmod(0o755)
    node.run("mine", env={"PATH": f"/nowhere:{tools}:/bin"})
    assert node.output() == b"found\n"


def test_program_is_found_in_the_working_directory(node: Node) -> None:
    order = node.order("./mine")
    program = node.directory() / "work" / "mine"
    program.write_text("#!/bin/sh\necho here\n")
    program.chmod(0o755)
    node.launcher.start(order)
    node.finish()
    assert node.output() == b"here\n"


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["no-such-command"], 127, "command not found: 'no-such-command'"),
        (["./absent"], 127, "no such file: ./absent"),
        ([""], 127, "command not found: ''"),
        (["./plain"], 126, "chmod +x"),
        (["plain"], 126, "chmod +x"),
        (["./output"], 126, "directory"),
        (["./orphan"], 126, "#!/no/such/interpreter"),
        (["./text"], 126, "#! line"),
        (["true", "x" * 200_000], 126, "one of its arguments has 200,000 bytes, and Linux hands over up to 131,071"),
        (["true", *["x" * 1000] * 7000], 126, "its 7,000 arguments and its environment have 7,"),
        (["true", "nul\0"], 126, "not possible"),
    ],
)
def test_command_that_cannot_be_started(node: Node, argv: list[str], code: int, says: str) -> None:
    order = node.order(*argv, env={"PATH": ".:/usr/bin:/bin"})
    work = node.directory() / "work"
    for name, text in [("plain", "#!/bin/sh\n"), ("orphan", "#!/no/such/interpreter\n"), ("text", "hi\n")]:
        (work / name).write_text(text)
        (work / name).chmod(0o644 if name == "plain" else 0o755)
    node.launcher.start(order)
    ended = node.finish()
    assert (ended.cause, ended.exit_code, ended.signal) == ("spawn_failed", code, None)
    assert says in ended.message
    assert node.output().decode() == f"turnout: {ended.message}\n"
    assert ended.output_bytes == len(node.output())


def test_working_directory_that_is_gone(node: Node) -> None:
    order = node.order("true")
    (node.directory() / "work" / "output").rmdir()
    (node.directory() / "work").rmdir()
    node.launcher.start(order)
    ended = node.finish()
    assert ended.cause == "spawn_failed"
    assert str(node.directory() / "work") in ended.message


def test_two_starts_at_once_execute_once(node: Node) -> None:
    for _ in range(2):
        node.launcher.start(node.order("bash", "-c", "echo executed; exec sleep 1000", seconds=0.5))
    node.answer(KEY, Ended)
    node.answer(KEY, Ended)
    assert node.output() == b"executed\n"
    ended = record.examine(str(node.directory()))
    assert isinstance(ended, record.Exit) and ended.cause == "timeout"


def test_start_after_the_end_executes_nothing(node: Node) -> None:
    first = node.shell("echo executed")
    assert node.shell("echo again") == first
    assert node.output() == b"executed\n"


def test_start_after_a_supervisor_died_executes_nothing(node: Node) -> None:
    """It told that it begins, so the command may have been executed."""
    order = node.order("touch", "executed")
    told = record.claim(str(node.ctl()))
    assert told is not None
    record.begin(told, tree.ProcessId(1, 0), time.time(), None)
    os.close(told)
    node.launcher.start(order)
    node.answer(KEY, Ended)
    assert record.examine(str(node.directory())) == record.Died(record.read_running(str(node.ctl())))
    assert not (node.directory() / "work" / "executed").exists()


def test_running_record_names_supervisor_and_command(node: Node) -> None:
    started = node.start("bash", "-c", "echo $$ > pid; exec sleep 1000")
    pid = int(node.wait_for_file("pid"))
    running = node.wait_for_child()
    assert running == record.examine(str(node.directory()))
    assert running.supervisor == started.process
    assert running.child == tree.ProcessId(pid, tree.start_time(pid) or 0)
    assert running.boot == tree.boot_id()
    node.stop(started)
    node.finish()


def test_records_are_json(node: Node) -> None:
    node.run("no \u2028 such \"command'")
    raw = json.loads((node.ctl() / "record").read_text().splitlines()[-1])["exit"]
    assert record.Exit(**raw) == record.examine(str(node.directory()))
    assert set(raw) == {
        "cause", "exit_code", "signal", "message", "started", "ended", "seconds", "output_bytes", "max_rss",
        "cpu_seconds",
    }  # fmt: skip


def test_kept_supervisors_have_one_attempt_after_the_other(thrifty_node: Node) -> None:
    node = thrifty_node
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
    supervisors = set()
    for number in range(12):
        key = f"{number}.1"
        own = {"OWN": str(number)} if number % 2 else {}
        supervisors.add(node.start("bash", "-c", f"echo ${{OWN-none}}; pwd; exit {number}", key=key, env=own).process)
        ended = node.finish(key)
        assert (ended.cause, ended.exit_code) == ("exit", number)
        assert ended.max_rss < ours + (100 << 20)  # a fork begins as large as its parent
        said = f"{number if number % 2 else 'none'}\n{(node.directory(key) / 'work').resolve()}\n"
        assert node.output(key).decode() == said
    assert len(supervisors) == 1


def test_stop_for_an_ended_attempt_does_not_hit_the_next_one(thrifty_node: Node) -> None:
    node = thrifty_node
    first = node.start("true", key="1.1")
    node.finish("1.1")
    second = node.start("bash", "-c", "echo on; sleep 0.5; exit 5", key="2.1")
    assert first.process == second.process
    node.stop(first, key="1.1")
    assert node.finish("2.1").exit_code == 5


def test_many_at_once(thrifty_node: Node) -> None:
    node = thrifty_node
    keys = [f"{number}.1" for number in range(40)]
    for number, key in enumerate(keys):
        node.launcher.start(node.order("bash", "-c", f"echo {key}; exit {number}", key=key))
    for number, key in enumerate(keys):
        assert isinstance(node.answer(key, Started, Failed), Started)
        assert node.finish(key).exit_code == number
        assert node.output(key) == f"{key}\n".encode()
