"""What a job of a scheduler does, in the shells that are called sh."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.harness import wait_until
from turnout.plugin.job_script import script, start_lines
from turnout.plugin.provider import Launch

#: Ends at once when it is told to, with the code that its order says.
_AGENT = """\
import json, os, signal, sys, time
order = json.load(sys.stdin)
signal.signal(signal.SIGTERM, lambda *_: os._exit(order["code"]))
open("started", "w").close()
time.sleep(60)
"""
#: Whatever this shell signals is gone before it looks again.
_SLOW_KILL = 'kill() { command kill "$@"; told=$?; sleep 0.3; return $told; }'


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("code", [0, 3])
def test_it_tells_how_its_agent_ended_also_if_that_was_at_once(shell: str, code: int, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell}")
    for folder in ("orders", "batches", "ended", "nodes"):
        (tmp_path / folder).mkdir()
    with zipfile.ZipFile(tmp_path / "agent.pyz", "w") as archive:
        for name, text in (("__init__", ""), ("agent/__init__", ""), ("agent/__main__", _AGENT)):
            archive.writestr(f"turnout/{name}.py", text)
    launch = Launch("T", "node", "nodes/T", (), b"", {}, "", python=sys.executable)
    (tmp_path / "orders" / "T.sh").write_text(start_lines(launch, "agent.pyz"))
    (tmp_path / "orders" / "T.json").write_text(json.dumps({"code": code}))
    (tmp_path / "batches" / "B").write_text("T\n")
    (tmp_path / "job").write_text(script([], str(tmp_path), "", "B", "H", [_SLOW_KILL]))

    job = subprocess.Popen([shell, str(tmp_path / "job")])
    wait_until((tmp_path / "started").exists, 20.0, "its agent started")
    job.send_signal(signal.SIGTERM)
    job.wait(20.0)
    assert (tmp_path / "ended" / "H").read_text().split() == ["T", str(code), "warned"]
    assert (tmp_path / "orders" / "T.json").exists(), "it may be started again"
