"""All that an attempt writes and the hub is to have: byte by byte, and once.

The files lie where the run can get at them, and it may put anything beside them. None of that may stop us: what cannot
be had is named in `problems`, and all else goes on.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Tuple

from turnout.agent.output import Output
from turnout.agent.rundir import RunDir
from turnout.agent.spool import PIECE, Spool, TrialMetrics, following, is_spool
from turnout.wire import nni
from turnout.wire.messages import Chunk

_OUTPUT = "output"
_TRACK = "track/"
_NNI, _NNI_FOLDER = nni.STREAM, nni.METRICS.partition("/")[0]


class Streams:
    """For the main thread, one report at a time: `pieces` are sent; then comes `acknowledge` for each that was
    answered, and `rewind` whether it was or not."""

    def __init__(self, run: int, attempt: int, directory: RunDir) -> None:
        self.output = Output(directory.output)
        self._run = run
        self._attempt = attempt
        self._track = directory.track
        self._spools: Dict[str, Spool] = {}
        self._is_finished = False

    def pieces(self, most: int) -> Iterator[Tuple[Chunk, bytes]]:
        """Of each stream what the hub may not have yet, `most` bytes in all. The streams sent last come last."""
        offset, content = self.output.next(min(most, PIECE))
        if content:
            most -= len(content)
            yield Chunk(self._run, self._attempt, _OUTPUT, offset, len(content)), content
        self._find_spools()
        for name in list(self._spools):
            if most < PIECE:
                return
            spool = self._spools.pop(name)
            self._spools[name] = spool
            offset, content = spool.next(is_last=self._is_finished)
            if content:
                most -= len(content)
                yield Chunk(self._run, self._attempt, _TRACK + name, offset, len(content)), content

    def is_all_offered(self) -> bool:
        """Whether the pieces since the last `rewind` reach the end of every stream, and will be taken whole."""
        return self.output.is_all_offered() and all(spool.is_all_offered() for spool in self._spools.values())

    def acknowledge(self, stream: str, have: int) -> None:
        """The hub has so much of it on its disk. A spool file that nobody needs any more is removed."""
        if stream == _OUTPUT:
            self.output.acknowledge(have)
            return
        name = stream[len(_TRACK) :]
        spool = self._spools.get(name)
        if spool is None:
            return
        spool.acknowledge(have)
        if self._is_finished or name == _NNI:
            return
        if following(name) in self._spools and spool.remove_if_done():
            del self._spools[name]

    def rewind(self) -> None:
        """Only what was acknowledged counts."""
        self.output.sender.rewind()
        for spool in self._spools.values():
            spool.sender.rewind()

    def finish(self) -> None:
        """Nothing of the run is alive: what is there now is all."""
        self._find_spools()
        self._is_finished = True

    def mute(self) -> None:
        """No more is sent."""
        self._spools = {}
        self._is_finished = True
        self.output.settle()

    @property
    def has_spools(self) -> bool:
        """Whether any was seen and is not done with."""
        return bool(self._spools)

    def problems(self) -> List[str]:
        """What was lost, in words."""
        found = [f"{_TRACK}{name}: {spool.problem}" for name, spool in self._spools.items() if spool.problem]
        return [self.output.problem, *found] if self.output.problem else found

    def close(self) -> None:
        self.output.close()

    def _find_spools(self) -> None:
        if self._is_finished:
            return
        try:
            names = sorted(os.listdir(self._track))
        except OSError:
            return
        for name in names:
            if name not in self._spools and is_spool(name):
                self._spools[name] = Spool(f"{self._track}/{name}")
        if _NNI_FOLDER in names and _NNI not in self._spools:
            self._spools[_NNI] = TrialMetrics(f"{self._track}/{nni.METRICS}")
