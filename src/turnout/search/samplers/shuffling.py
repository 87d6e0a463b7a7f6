"""Numbers in an order that looks like chance, without a list of them."""

from __future__ import annotations

from hashlib import blake2b

_ROUNDS = 4


class Shuffle:
    """Each of 0, 1, ... `size` - 1 once; the order depends on `seed`.

    A Feistel network permutes the numbers of an even number of bits; where it leads out, it is gone through again.
    """

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._bits = max(1, ((size - 1).bit_length() + 1) // 2)
        self._seed = seed

    def at(self, index: int) -> int:
        found = self._permuted(index)
        while found >= self._size:
            found = self._permuted(found)
        return found

    def _permuted(self, number: int) -> int:
        mask = (1 << self._bits) - 1
        left, right = number >> self._bits, number & mask
        for turn in range(_ROUNDS):
            digest = blake2b(f"{self._seed}/{turn}/{right}".encode(), digest_size=16).digest()
            left, right = right, left ^ (int.from_bytes(digest, "big") & mask)
        return left << self._bits | right
