"""Pi by chance: one function, called many times, on workers wherever they are.

``python pi.py`` uses processes of this machine, ``python pi.py TARGET [HOST PYTHON]`` nodes of a target of turnout:
HOST is an address of this machine that they can reach, and PYTHON the program there.
"""

import sys

import model

import turnout
from turnout.futures.dask_target import DaskOnTarget
from turnout.futures.engine import Needs

CALLS, POINTS = 200, 2_000


def executor() -> turnout.Executor:
    match sys.argv[1:]:
        case []:
            return turnout.Executor(workers=2)
        case [target]:
            return turnout.Executor(target, workers=2)
        case [target, host, python]:
            return turnout.Executor(DaskOnTarget(target, 2, Needs(), host=host, python=python))
    raise SystemExit(__doc__)


with executor() as ex:
    found = sum(ex.map(model.inside, range(CALLS), [POINTS] * CALLS))
    print(f"pi is about {4 * found / (CALLS * POINTS):.2f}")
