"""A box that ssh reaches, as a provider, keeps every promise of the contract. The server is a real one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests import components
from tests.sshd import USER, Box, running_box
from turnout.plugin.provider import Launch, Provider
from turnout.providers.ssh import SshProvider
from turnout.testing import Lab, ProviderContract

pytestmark = [pytest.mark.xdist_group("sshd")]


_SSH = """\
#!/bin/sh
case "$*" in *" -O "*) ;; *) echo call >> {folder}/calls ;; esac
case "$(cat {folder}/mode 2>/dev/null)" in
    answer) cat {folder}/text; exit 0 ;;
    refuse) cat {folder}/text >&2; exit 255 ;;
    lose) case "$*" in *"-m turnout.agent"*) {path} "$@" > /dev/null 2>&1; cat {folder}/text >&2; exit 255 ;; esac ;;
esac
exec {path} "$@"
"""


class SshLab(Lab):
    """Stands between the provider and ssh, which exits with 255 when it does not get there."""

    def __init__(self, box: Box, folder: Path) -> None:
        self._box = box
        self._folder = folder

    def install(self) -> str:
        """The directory in which the impostor is."""
        program = self._folder / "bin" / "ssh"
        program.parent.mkdir()
        program.write_text(_SSH.format(folder=self._folder, path=shutil.which("ssh")))
        program.chmod(0o755)
        return str(program.parent)

    def calls(self) -> int:
        return (self._folder / "calls").read_text().count("call")

    def lost_reply(self) -> AbstractContextManager[None]:
        return self._spoiled("lose", "Connection to box closed by remote host.")

    def garbled(self, status: str) -> AbstractContextManager[None]:
        return self._spoiled("answer", status)

    def login_refused(self) -> AbstractContextManager[None]:
        return self._spoiled("refuse", "Permission denied (publickey).")

    def unreachable(self) -> AbstractContextManager[None]:
        return self._spoiled("refuse", "ssh: connect to host box port 22: Connection refused")

    @contextmanager
    def _spoiled(self, mode: str, text: str) -> Iterator[None]:
        (self._folder / "text").write_text(text)
        (self._folder / "mode").write_text(mode)
        yield
        (self._folder / "mode").unlink()

    def read_log(self, launch: Launch) -> bytes:
        (path,) = self._box.home.glob(f".turnout/boxes/*/{launch.directory}/agent.log")
        return path.read_bytes()


class TestSsh(ProviderContract):
    box: ClassVar[Box]
    place: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def box_is_up(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        cls.place = tmp_path_factory.mktemp("ssh")
        with running_box(components.sshd()) as cls.box, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{SshLab(cls.box, cls.place).install()}:{os.environ['PATH']}")
            yield

    def make_provider(self, settings: Mapping[str, object]) -> Provider:
        mine = {"address": f"{USER}@127.0.0.1", "port": self.box.port, "ssh-options": self.box.options}
        return SshProvider({**settings, **mine})

    def make_lab(self) -> Lab:
        return SshLab(self.box, self.place)
