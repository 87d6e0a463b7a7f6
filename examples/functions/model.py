"""What the script computes: a module beside it, that workers elsewhere find too."""

import random


def inside(seed: int, points: int) -> int:
    """How many of so many random points lie in the quarter of a circle."""
    chance = random.Random(seed)
    return sum(chance.random() ** 2 + chance.random() ** 2 < 1.0 for _ in range(points))
