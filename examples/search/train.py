"""Descend into the curved valley of Rosenbrock's function, whose lowest point is (1, 1), by steps with momentum.

python train.py --lr 0.001 --momentum 0.9    works anywhere
turnout search search.yaml                   tries what that file says
"""

from __future__ import annotations

import argparse
import math
import time

try:
    from turnout import log
except ImportError:  # a plain Python without turnout, outside a run: descend all the same

    def log(**values: float) -> None:
        pass


def height(x: float, y: float) -> float:
    return (1 - x) ** 2 + 100 * (y - x * x) ** 2


def slope(x: float, y: float) -> tuple[float, float]:
    return -2 * (1 - x) - 400 * x * (y - x * x), 200 * (y - x * x)


def descend(lr: float, momentum: float, decay: str, steps: int, pause: float) -> float:
    """How high it is in the end; infinite where it flew out of the valley."""
    x, y, vx, vy = -1.2, 1.0, 0.0, 0.0
    reached = height(x, y)
    for step in range(steps):
        if math.isfinite(reached):
            rate = lr * (0.5 + 0.5 * math.cos(math.pi * step / steps) if decay == "cosine" else 1.0)
            dx, dy = slope(x, y)
            vx, vy = momentum * vx - rate * dx, momentum * vy - rate * dy
            x, y = x + vx, y + vy
            reached = height(x, y) if max(abs(x), abs(y)) < 1e6 else math.inf
        if step % 10 == 0 or step == steps - 1:
            log(loss=reached, step=step)
            time.sleep(pause)
    return reached


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lr", type=float, default=0.0005)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--decay", choices=["none", "cosine"], default="none")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds after each value, to have time to look")
    print(f"loss {descend(**vars(parser.parse_args())):.6g}")
