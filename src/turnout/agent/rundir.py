"""The directory of an attempt: made, known again after a death of the agent, cleared away.

``<node>/runs/<run>.<attempt>``: ``ctl/`` is ours, ``work/`` is the run's and its current directory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections import deque
from contextlib import suppress
from typing import AbstractSet, Collection, Deque, Dict, Iterable, List, Mapping, NamedTuple, Optional

from turnout.agent import record
from turnout.agent.tree import LINUX, boot_id
from turnout.wire import nni
from turnout.wire.messages import Grant

#: What every run finds in its directory: a link of this name, to what it prints.
LINK = os.path.join("..", "ctl", "output")
PRINTED = "output.txt"
_BARE = frozenset({"output", PRINTED})
_PRIVATE = stat.S_IFREG | 0o600
_FOLDERS = frozenset({"ctl", "work"})
_CTL = frozenset({"track", "record", "output"})
_SPARES = 64
PARAMS = "params.json"
_PARAMS = frozenset({PARAMS, nni.PARAMETERS})
_LARGEST_PARAMS = 1 << 16  # that is used again


class Known(NamedTuple):
    """What an attempt's directory tells an agent that finds it."""

    grant: Grant
    after: List[str]
    gpus: List[str]
    secrets: List[str]


class RunDir:
    __slots__ = ("ctl", "path", "track", "work")

    def __init__(self, path: str) -> None:
        self.path = path
        self.ctl = f"{path}/ctl"
        self.work = f"{path}/work"
        self.track = f"{path}/ctl/track"

    @property
    def output(self) -> str:
        """Where the command's stdout and stderr go."""
        return f"{self.ctl}/output"

    @property
    def kept(self) -> str:
        """The directory whose files are kept."""
        return f"{self.work}/output"

    @property
    def text(self) -> str:
        """Where the word of its command lies that is too long for an argument, if it has one."""
        return f"{self.ctl}/text"

    @property
    def params(self) -> str:
        """Where the parameters of a search's run lie, as JSON."""
        return f"{self.track}/{PARAMS}"

    @property
    def marker(self) -> str:
        """An entry of the run's environment that no other process on this machine has."""
        return f"TURNOUT_SPOOL={self.track}"

    def make(self) -> None:
        """Fresh and private. FileExistsError when it is there."""
        for directory in (self.path, self.ctl, self.work, self.track):
            os.mkdir(directory, 0o700)

    def complete(self, outputs: Collection[str] = ()) -> None:
        """What every run finds beside its files, unless those are in its place, or one of its `outputs` will be."""
        with suppress(FileExistsError):
            os.mkdir(self.kept, 0o700)
        if PRINTED not in outputs:
            with suppress(FileExistsError):
                os.symlink(LINK, f"{self.work}/{PRINTED}")

    def make_way(self, names: Iterable[str]) -> None:
        """Takes out what `complete` put in where files have those names themselves."""
        for name in _BARE.intersection(names):
            path = f"{self.work}/{name}"
            if os.path.islink(path):
                os.unlink(path)
            elif os.path.isdir(path):
                os.rmdir(path)

    def write_params(self, contents: Mapping[str, bytes]) -> None:
        """The files of its parameters, over those that the attempt before it in this directory had."""
        for name in _PARAMS:
            fd = os.open(f"{self.track}/{name}", os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(contents[name])
                file.truncate()

    def remove_params(self) -> None:
        """What the attempt before it in this directory had."""
        for name in _PARAMS:
            with suppress(FileNotFoundError):
                os.unlink(f"{self.track}/{name}")

    def remember(self, grant: Grant, after: List[str], secrets: List[str]) -> None:
        """Who this is, for an agent that comes after this one. Told last: the mark of a directory that is ready.

        That agent has to cover the `secrets` in the output that it sends; here only this user can read them, like
        that output itself, and no longer than the directory is there.
        """
        known = {"secrets": secrets} if secrets else {}
        record.tell(self.ctl, {"grant": vars(grant), "after": after, **known})

    def remember_outputs(self, looks: Dict[str, List[int]]) -> None:
        """How those of its outputs look that are there before it begins."""
        record.tell(self.ctl, {"outputs": looks})

    def recall_outputs(self) -> Dict[str, List[int]]:
        return dict(record.read(self.ctl).get("outputs", {}))

    def remember_gpus(self, gpus: List[str]) -> None:
        """Which ones it was given, on the machine as it was booted now. The last word counts."""
        record.tell(self.ctl, {"gpus": gpus, "gpus_on": boot_id()})

    def remember_container(self, program: str, name: str) -> None:
        """What it is executed in, and by whom: for who has to end it."""
        record.tell(self.ctl, {"container": [program, name]})

    @property
    def is_contained(self) -> bool:
        """Whether it was executed in a container."""
        return "container" in record.read(self.ctl)

    def mark_kept(self) -> None:
        """It is over and told of, and stays to be looked at."""
        record.tell(self.ctl, {"kept": True})

    @property
    def is_kept(self) -> bool:
        return record.read(self.ctl).get("kept") is True

    def recall(self) -> Optional[Known]:
        """What was remembered; None when nothing (whole) was, or of another attempt than the directory is named for."""
        told = record.read(self.ctl)
        try:
            grant = Grant(**told["grant"])
            known = Known(grant, list(told["after"]), list(told.get("gpus", ())), list(told.get("secrets", ())))
        except (TypeError, KeyError):
            return None
        return known if self.path.endswith(f"/{grant.run}.{grant.attempt}") else None

    def is_bare(self) -> bool:
        """Whether the run left its directory as it found it, when it found no files of its own."""
        try:
            return set(os.listdir(self.work)) == _BARE and not os.listdir(self.kept)
        except OSError:
            return False

    def remove(self) -> None:
        """Also what a run made unreadable for itself; what cannot be removed is left."""
        shutil.rmtree(self.path, ignore_errors=True)
        if os.path.lexists(self.path):
            _remove_stubborn(self.path)


class RunDirs:
    """All of them on this node. Making one takes longer than a short run (file systems spread directories over the
    disk), so one that is done with is emptied and kept for the next.

    Every method may be called from any thread.
    """

    def __init__(self, root: str) -> None:
        self.runs = os.path.join(root, "runs")
        self._spare = os.path.join(root, "spare")
        self._spares: Deque[str] = deque()

    def prepare(self) -> None:
        """Call it once, first. What an earlier agent left spare goes."""
        os.makedirs(self.runs, mode=0o700, exist_ok=True)
        shutil.rmtree(self._spare, ignore_errors=True)
        os.makedirs(self._spare, mode=0o700, exist_ok=True)

    def of(self, run: int, attempt: int) -> RunDir:
        return RunDir(f"{self.runs}/{run}.{attempt}")

    def found(self) -> List[RunDir]:
        """What lies there, whatever it is."""
        try:
            return [RunDir(f"{self.runs}/{name}") for name in sorted(os.listdir(self.runs))]
        except FileNotFoundError:
            return []

    def make(self, directory: RunDir) -> None:
        """A fresh one with nothing but what `RunDir.complete` puts in; what an earlier try left is removed."""
        try:
            spare = self._spares.pop()
            os.rename(spare, directory.path)
        except (IndexError, OSError):
            if os.path.lexists(directory.path):
                directory.remove()
            directory.make()
            directory.complete()

    def put_away(self, directory: RunDir, *, is_bare: bool) -> bool:
        """Empties it and keeps it for the next attempt. False when it cannot be: then remove it.

        Nothing of its run may be alive, and only Linux lets us know that. `is_bare` is what `RunDir.is_bare` said then.
        """
        if not LINUX or len(self._spares) >= _SPARES:
            return False
        spare = f"{self._spare}/{os.path.basename(directory.path)}"
        try:
            if not _is_ours(directory):
                return False
            _empty(directory.path, besides=_FOLDERS)
            for name in _empty(directory.track, besides=_PARAMS):
                _keep_if_free(f"{directory.track}/{name}", largest=_LARGEST_PARAMS)
            _empty(directory.ctl, besides=_CTL)
            record.forget(directory.ctl)
            _keep_if_free(directory.output, largest=0)
            if not is_bare:
                _empty(directory.kept)
                _empty(directory.work, besides=_BARE)
            os.rename(directory.path, spare)
        except OSError:
            return False
        self._spares.append(spare)
        return True


def _is_ours(directory: RunDir) -> bool:
    """Whether what `RunDirs.make` gives is still there as it was; OSError when not all of it is."""
    folders = (directory.path, directory.ctl, directory.track, directory.work, directory.kept)
    are_private = all(os.lstat(path).st_mode == stat.S_IFDIR | 0o700 for path in folders)
    return are_private and os.readlink(f"{directory.work}/{PRINTED}") == LINK


def _keep_if_free(path: str, *, largest: int) -> None:
    """Removes it unless it can be written to anew: it is not larger, has this one name, only this user can read it, and
    no process has it open, not even one outside the tree that was handed it (a lease on a file is only given out then).
    OSError when it is not there."""
    fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if found.st_mode == _PRIVATE and found.st_nlink == 1 and found.st_size <= largest:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            return
    except OSError:
        pass
    finally:
        os.close(fd)
    os.unlink(path)


def _empty(folder: str, besides: AbstractSet[str] = frozenset()) -> List[str]:
    """Which ones of those besides are there."""
    left = []
    for name in os.listdir(folder):
        if name in besides:
            left.append(name)
            continue
        path = f"{folder}/{name}"
        try:
            os.unlink(path)
        except (IsADirectoryError, PermissionError):
            shutil.rmtree(path)
    return left


def _remove_stubborn(path: str) -> None:
    try:
        if os.path.islink(path) or not os.path.isdir(path):
            os.unlink(path)
            return
        os.chmod(path, 0o700)
        for folder, names, _ in os.walk(path):
            for name in names:
                if not os.path.islink(os.path.join(folder, name)):
                    os.chmod(os.path.join(folder, name), 0o700)
    except OSError:
        pass
    shutil.rmtree(path, ignore_errors=True)
