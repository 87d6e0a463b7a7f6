"""What 50 idle boxes cost: an agent on each that waits for work, over a connection of its own to a real SSH server.

``python -m benchmarks.boxes [BOXES] [SECONDS]``, as root, for it lets a user log in. Counted is the processor time of
the hub and of the ssh programs it keeps or starts, not that of the boxes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.lab import Line, fresh_home, held
from tests import components
from tests.sshd import USER, Box, running_box
from turnout.client import Client

LIMIT = 1.0  # percent of one core
_TICK = os.sysconf("SC_CLK_TCK")


def main() -> int:
    boxes = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 120.0
    if os.geteuid() != 0:
        print("boxes: left out, for only root can let a user log in")
        return 0
    # All connections are to one server, but as its names differ each box is one of its own, with its own directory.
    with running_box(components.sshd()) as box, fresh_home() as folder:
        Path(folder, "home").mkdir()
        Path(folder, "home", "config.yaml").write_text(_settings(box, boxes))
        hub, programs, connections = _measure(boxes, seconds)
        total = hub + programs + connections
        name = f"boxes: {boxes} idle, hub and its ssh"
        print(Line(name, total, "% core", f"limit {LIMIT:g} %", held(total, LIMIT)))
        for part, share in (("hub", hub), ("programs it started", programs), ("connections", connections)):
            print(Line(f"boxes: of that, {part}", share, "% core"))
    return 0


def _settings(box: Box, count: int) -> str:
    more = ["-o", "HostName=127.0.0.1", "-o", f"HostKeyAlias=[127.0.0.1]:{box.port}"]
    options = ", ".join(f'"{word}"' for word in [*box.options, *more])
    entries = "".join(
        f"  box{number}: {{address: {USER}@box{number}, port: {box.port}, ssh-options: [{options}]}}\n"
        for number in range(count)
    )
    return f"hub: {{agent-idle: 2h}}\nboxes:\n{entries}"


def _measure(boxes: int, seconds: float) -> list[float]:
    """The shares of a core, in percent, as `_spent` tells them, once all agents are there and all is quiet."""
    client = Client()
    jobs = [client.submit_command(["true"], target=f"box{number}", snapshot=False)["job"] for number in range(boxes)]
    for job in jobs:
        client.wait(job, timeout=300.0)
    hub = int(client.hub()["pid"])
    client.close()
    time.sleep(120.0)  # until they are looked at every ten minutes only
    began, before = time.monotonic(), _spent(hub)
    time.sleep(seconds)
    took = time.monotonic() - began
    return [100.0 * (after - then) / took for after, then in zip(_spent(hub), before, strict=True)]


def _spent(hub: int) -> list[float]:
    """Seconds of processor time: of the hub, of the programs that it started and that ended, and of its connections."""
    found = subprocess.run(["pgrep", "-f", "^ssh -S .* -M -N "], capture_output=True, text=True, check=False)
    keepers = [int(pid) for pid in found.stdout.split()]
    own = _times(hub)
    return [sum(own[:2]) / _TICK, sum(own[2:]) / _TICK, sum(sum(_times(pid)[:2]) for pid in keepers) / _TICK]


def _times(pid: int) -> list[int]:
    """User and system time, of itself and of those children it waited for."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:15]]
    except OSError:
        return [0, 0, 0, 0]


if __name__ == "__main__":
    sys.exit(main())
