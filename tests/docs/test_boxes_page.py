"""The page about boxes is followed too, where its two machines are hosts with real SSH servers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests import components
from tests.docs.test_console import follow
from tests.netns import running_hosts


@pytest.mark.xdist_group("sshd")
@pytest.mark.timeout(200)
def test_the_page_about_boxes(turnout_home: Path, tmp_path: Path) -> None:
    with running_hosts(components.namespaces(), ["workshop", "cellar"], home_size="2g") as yard:
        folder = tmp_path / "programs"
        folder.mkdir()
        # The reader's own configuration has these names; no key of theirs is known yet.
        configuration = (yard.folder / "config").read_text()
        (tmp_path / "config").write_text(configuration.replace(f"{yard.folder}/known_hosts", f"{tmp_path}/known_hosts"))
        (folder / "ssh").write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {tmp_path}/config "$@"\n')
        (folder / "ssh").chmod(0o755)
        follow("docs/howto/boxes.md", turnout_home, tmp_path, folder)
