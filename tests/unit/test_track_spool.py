"""Records are whole, in order and complete, whatever threads, forks, signals, kills and disks do."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import turnout
import turnout.track.spool as spool_module
from turnout.track.spool import MAX_PAYLOAD, Segment, Spool
from turnout.wire import frames

SRC = str(Path(turnout.__file__).parents[1])


def read(directory: Path) -> dict[str, list[bytes]]:
    """The payloads in each file; every file must be frames to its last byte."""
    found = {}
    for path in sorted(directory.iterdir()):
        content = path.read_bytes()
        scanned = list(frames.scan(content))
        assert (scanned[-1].end if scanned else 0) == len(content), f"{path.name} holds more than frames"
        found[path.name] = [frame.payload for frame in scanned]
    return found


@contextmanager
def script(code: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A script in a run; with its children it is gone afterwards, whatever became of it."""
    environment = {**os.environ, "PYTHONPATH": SRC, "TURNOUT_SPOOL": str(directory)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_frames_are_those_of_the_wire(tmp_path: Path) -> None:
    segment = Segment(str(tmp_path), "1-00000000", 0)
    for payload in (b"", b"abc", b"\x00" * 1000):
        segment.append(payload)
    expected = frames.encode(0, b"") + frames.encode(1, b"abc") + frames.encode(2, b"\x00" * 1000)
    assert (tmp_path / "1-00000000.0000").read_bytes() == expected
    assert MAX_PAYLOAD == frames.MAX_PAYLOAD


def test_the_file_is_made_by_the_first_record_for_this_user_only(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    before = os.umask(0)
    try:
        spool.append(b"x")
    finally:
        os.umask(before)
    (path,) = tmp_path.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    pid, rest = path.name.split("-")
    assert int(pid) == os.getpid() and len(rest) == len("01234567.0000") and rest.endswith(".0000")


def test_a_full_segment_is_followed_by_the_next_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 200)
    spool = Spool(str(tmp_path))
    written = [b"%050d" % i for i in range(20)]
    for payload in written:
        spool.append(payload)
    files = read(tmp_path)
    assert [name.split(".")[1] for name in files] == ["0000", "0001", "0002", "0003", "0004"]
    assert len({name.split(".")[0] for name in files}) == 1
    assert [payload for payloads in files.values() for payload in payloads] == written


def test_many_threads_write_one_file_and_each_stays_in_order(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    begin = threading.Barrier(8)

    def work(thread: int) -> None:
        begin.wait()
        for i in range(500):
            spool.append(b"%d %d" % (thread, i))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (payloads,) = read(tmp_path).values()
    for number in range(8):
        own = [payload for payload in payloads if payload.startswith(b"%d " % number)]
        assert own == [b"%d %d" % (number, i) for i in range(500)]
    assert len(payloads) == 8 * 500


def test_a_forked_child_has_a_file_of_its_own(tmp_path: Path) -> None:
    code = """
        import os, turnout
        turnout.log(who=0)
        children = [os.fork() for _ in range(2)]   # makes 3 further processes
        for i in range(50):
            turnout.log(i=i)
        while True:
            try: os.wait()
            except ChildProcessError: break
    """
    with script(code, tmp_path) as process:
        assert process.wait(30) == 0
    files = read(tmp_path)
    assert len(files) == 4
    assert sorted(len(payloads) for payloads in files.values()) == [50, 50, 50, 51]


def test_a_fork_while_another_thread_logs_does_not_hang_the_child(tmp_path: Path) -> None:
    code = """
        import os, threading, turnout
        def work():
            for i in range(20000): turnout.log(i=i)
        thread = threading.Thread(target=work); thread.start()
        for _ in range(20):
            if (child := os.fork()) == 0:
                turnout.log(child=1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        thread.join()
    """
    with script(code, tmp_path) as process:
        assert process.wait(60) == 0
    payloads = [payload for payloads in read(tmp_path).values() for payload in payloads]
    assert len(payloads) == 20020


def test_killed_at_any_moment_everything_acknowledged_is_there(tmp_path: Path) -> None:
    code = """
        import os, turnout
        for i in range(10**9):
            turnout.log(i=i)
            if i % 1000 == 999: os.write(1, b"%d\\n" % i)
    """
    with script(code, tmp_path) as process:
        assert process.stdout is not None
        for _ in range(5):
            done = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        done = max([done, *map(int, process.stdout.read().split("\n")[:-1])])
    (path,) = tmp_path.iterdir()
    logged = [json.loads(frame.payload)["m"]["i"] for frame in frames.scan(path.read_bytes())]
    assert logged == list(range(len(logged)))
    assert len(logged) > done


def test_a_signal_handler_that_logs_in_the_middle_of_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool(str(tmp_path))
    spool.append(b"first")
    real_write = os.write

    def interrupted_write(fd: int, content: bytes) -> int:
        monkeypatch.setattr(os, "write", real_write)
        spool.append(b"from the handler")
        return real_write(fd, content)

    for payload in (b"second", b"third"):
        monkeypatch.setattr(os, "write", interrupted_write)
        spool.append(payload)
    assert sorted(read(tmp_path).values()) == [[b"first", b"second", b"third"], [b"from the handler"] * 2]


def test_an_interrupt_in_the_middle_of_a_record_costs_no_later_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = Spool(str(tmp_path))
    real_write = os.write

    def interrupted_write(fd: int, content: bytes) -> int:
        real_write(fd, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted_write)
    with pytest.raises(KeyboardInterrupt):
        spool.append(b"first")
    monkeypatch.setattr(os, "write", real_write)
    spool.append(b"second")
    assert sorted(read(tmp_path).values()) == [[b"first"], [b"second"]]


class TestDiskTrouble:
    """An experiment never dies of its tracking: the loss is counted, and said once."""

    def test_a_missing_directory(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        spool = Spool(str(tmp_path / "gone"))
        for _ in range(3):
            spool.append(b"x")
        assert spool.lost == 3
        warning = capsys.readouterr().err
        assert warning.count("\n") == 1 and str(tmp_path / "gone") in warning and "No such file" in warning

    def test_a_full_disk_tears_nothing_and_recording_goes_on_when_there_is_room(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spool = Spool(str(tmp_path))
        spool.append(b"first")
        real_write = os.write
        monkeypatch.setattr(os, "write", lambda fd, content: real_write(fd, content[:10]))
        spool.append(b"half written")

        def refused(fd: int, content: bytes) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", refused)
        spool.append(b"not written")
        monkeypatch.setattr(os, "write", real_write)
        spool.append(b"second")
        assert list(read(tmp_path).values()) == [[b"first", b"second"]]
        assert spool.lost == 2

    def test_a_next_segment_that_cannot_be_made_is_tried_again(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 1)
        directory = tmp_path / "spool"
        directory.mkdir()
        spool = Spool(str(directory))
        spool.append(b"first")
        directory.rename(tmp_path / "away")
        spool.append(b"lost")
        (tmp_path / "away").rename(directory)
        spool.append(b"second")
        assert list(read(directory).values()) == [[b"first"], [b"second"]]
        assert spool.lost == 1

    def test_without_a_stderr_to_warn_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with open(os.devnull, "w") as closed:
            pass
        for stderr in (None, closed):
            monkeypatch.setattr(sys, "stderr", stderr)
            spool = Spool(str(tmp_path / "gone"))
            spool.append(b"x")
            assert spool.lost == 1


def test_a_record_over_the_limit_is_the_callers_mistake(tmp_path: Path) -> None:
    spool = Spool(str(tmp_path))
    with pytest.raises(ValueError, match="at most"):
        spool.append(b"x" * (MAX_PAYLOAD + 1))
    assert list(tmp_path.iterdir()) == []
