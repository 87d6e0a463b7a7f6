"""What this agent started for itself does not outlive it: when the agent is killed, its installations end with it.

A pipe is held by nobody but the agent. Beside the script that it starts, a shell waits for a word from it: when the
pipe ends without one, the agent is gone, and the whole process group is killed.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Optional, Type


class Leash:
    """``with Leash() as leash:`` around starting a shell in a session of its own and waiting for it."""

    def __enter__(self) -> "Leash":
        self._read, self._write = os.pipe()
        return self

    @property
    def line(self) -> str:
        """To be executed first. Twice forked, so that a ``wait`` of the script does not wait for it."""
        watch = "( ( read -r turnout_word <&9 || kill -9 0 ) >/dev/null 2>&1 & )"
        return f"exec 9<&0 </dev/null; {watch}; exec 9<&-"

    @property
    def stdin(self) -> int:
        """What the shell has to get as its standard input; its commands get none."""
        return self._read

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """What the script left running on purpose stays."""
        os.write(self._write, b"over\n")
        os.close(self._write)
        os.close(self._read)
