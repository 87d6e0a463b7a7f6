"""By which key a machine is known."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from turnout.client.hostkeys import HostKey, Standing, Way, look

KEY = HostKey("far.example", "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIA==")
OTHER = HostKey("far.example", "ssh-ed25519", "AAAAC3NzaC1lZDI1NTE5AAAAIB==")

#: Tells its settings as the real one does; to a machine, it gets as far as writing down its key.
SSH = """#!/bin/bash
[ "$1" = -G ] && exec {ssh} "$@"
settings=$({ssh} -G "$@")
names=far.example
grep -q '^checkhostip yes' <<< "$settings" && names=far.example,1.2.3.4
file=$(sed -n 's/^userknownhostsfile //p' <<< "$settings")
echo "$names {type} {blob}" > "$file"
exit 255
"""


@pytest.fixture
def way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Way:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(SSH.format(ssh=shutil.which("ssh"), type=KEY.type, blob=KEY.blob))
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    (tmp_path / "config").write_text("CheckHostIP yes\n")  # the default of OpenSSH before 8.5
    return Way("far.example", options=["-F", f"{tmp_path}/config", "-o", f"UserKnownHostsFile={tmp_path}/known_hosts"])


def test_a_machine_is_known_also_where_its_address_is_checked(way: Way, tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_text(f"{KEY.host} {KEY.type} {KEY.blob}\n")
    standing = look(way)
    assert standing.shown == KEY, "under the name that it would be put on record with"
    assert standing.is_known and not standing.is_changed


def test_a_key_is_the_same_under_any_name() -> None:
    shown = HostKey("far.example,1.2.3.4", KEY.type, KEY.blob)
    assert Standing(shown, [OTHER, KEY]).is_known
    assert Standing(shown, [OTHER]).is_changed
    assert not Standing(shown, []).is_known and not Standing(shown, []).is_changed
