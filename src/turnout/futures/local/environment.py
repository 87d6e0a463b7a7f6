"""What a worker finds in its environment: how many threads libraries may start, and which GPUs there are."""

from __future__ import annotations

import os

from turnout.futures.engine import Needs
from turnout.futures.local.devices import VISIBLE

#: Each is read by a library when that is loaded, and by none later.
_THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "RAYON_NUM_THREADS", "POLARS_MAX_THREADS",
)  # fmt: skip


def environment(needs: Needs, gpus: list[str]) -> dict[str, str]:
    """Ours, with what the worker has. One without GPUs of its own sees those that we see if there are none to give."""
    env = {**os.environ, **dict.fromkeys(_THREADS, str(needs.cpus))}
    if needs.gpus:
        env[VISIBLE] = ",".join(gpus)
    return env
