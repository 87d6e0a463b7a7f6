"""Train a small neural network, written out by hand, to tell the inside of a ring from the outside.

python train.py --lr 0.5 --width 8      works anywhere
turnout run train.py --lr 0.5 --width 8 the same, and everything is kept
"""

from __future__ import annotations

import argparse
import json
import math
import random
from pathlib import Path

try:
    from turnout import log, output_dir, params
except ImportError:  # a plain Python without turnout, outside a run: train all the same

    def log(**values: float) -> None:
        pass

    def params(**values: object) -> dict[str, object]:
        return values

    def output_dir() -> Path:
        Path("output").mkdir(exist_ok=True)
        return Path("output")


Point = tuple[float, float, int]


def ring(count: int, rng: random.Random) -> list[Point]:
    """Points in a square, and whether each lies within 0.8 of the middle."""
    points = ((rng.uniform(-1.2, 1.2), rng.uniform(-1.2, 1.2)) for _ in range(count))
    return [(x, y, int(math.hypot(x, y) < 0.8)) for x, y in points]


class Network:
    """Two inputs, one hidden layer of tanh units, one sigmoid output."""

    def __init__(self, width: int, rng: random.Random) -> None:
        self.hidden = [[rng.uniform(-1, 1) for _ in range(3)] for _ in range(width)]
        self.output = [rng.uniform(-1, 1) / width for _ in range(width)]
        self.bias = 0.0

    def forward(self, x: float, y: float) -> tuple[list[float], float]:
        active = [math.tanh(a * x + b * y + c) for a, b, c in self.hidden]
        total = self.bias + sum(w * h for w, h in zip(self.output, active, strict=True))
        return active, 1 / (1 + math.exp(-total))

    def learn(self, x: float, y: float, label: int, lr: float) -> float:
        """One step of gradient descent; the loss before it."""
        active, guess = self.forward(x, y)
        slope = guess - label
        for i, h in enumerate(active):
            back = lr * slope * self.output[i] * (1 - h * h)
            self.output[i] -= lr * slope * h
            unit = self.hidden[i]
            unit[0] -= back * x
            unit[1] -= back * y
            unit[2] -= back
        self.bias -= lr * slope
        return -math.log(max(1e-9, guess if label else 1 - guess))


def accuracy(network: Network, points: list[Point]) -> float:
    return sum((network.forward(x, y)[1] > 0.5) == bool(label) for x, y, label in points) / len(points)


def main() -> None:
    options = argparse.ArgumentParser(description="train a small network on a ring of points")
    options.add_argument("--lr", type=float, default=0.1, help="learning rate")
    options.add_argument("--width", type=int, default=8, help="hidden units")
    options.add_argument("--epochs", type=int, default=60)
    options.add_argument("--seed", type=int, default=1)
    chosen = options.parse_args()
    params(lr=chosen.lr, width=chosen.width, epochs=chosen.epochs)

    rng = random.Random(chosen.seed)
    training, held_out = ring(600, rng), ring(200, rng)
    network = Network(chosen.width, rng)
    for epoch in range(1, chosen.epochs + 1):
        loss = sum(network.learn(x, y, label, chosen.lr) for x, y, label in training) / len(training)
        score = accuracy(network, held_out)
        log(loss=loss, accuracy=score, step=epoch)
        print(f"epoch {epoch:2}  loss {loss:.4f}  accuracy {score:.3f}", flush=True)

    model = {"hidden": network.hidden, "output": network.output, "bias": network.bias}
    (output_dir() / "model.json").write_text(json.dumps(model))


if __name__ == "__main__":
    main()
