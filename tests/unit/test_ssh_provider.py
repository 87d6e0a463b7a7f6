"""Agents that ssh starts; here by a shell of this machine, which is the same but for the way there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.harness import short_folder
from turnout.plugin.provider import Failure, Launch
from turnout.providers.ssh import SshProvider

TOOLS = ("sh", "cat", "mkdir", "mv", "sed", "getconf", "wc")


def test_an_agent_that_does_not_begin_is_a_failure_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, program = tmp_path / "bin", tmp_path / "agent.pyz"
    tools.mkdir()
    program.write_bytes(b"")
    for name in TOOLS:  # and nothing to detach a process with
        (tools / name).symlink_to(os.path.realpath(shutil.which(name) or name))
    monkeypatch.setenv("PATH", str(tools))
    there = short_folder()
    provider = SshProvider({"address": "localhost", "directory": str(there)})
    launch = Launch("token", "node", "nodes/1", (), b"{}", program=str(program), python=sys.executable)
    (answer,) = provider.submit([launch])
    shutil.rmtree(there)
    assert isinstance(answer, Failure) and answer.message.startswith("no agent began there: sh:")
