"""Replay a seed, or search many: see ``--help``."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from typing import Any

from turnout.testing.simulator import KINDS, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m turnout.testing.simulator", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seed", type=int, help="tell the whole story of this one, with all messages")
    what.add_argument("--seeds", metavar="A..B", help="play these, tell which go wrong, and count what happened")
    parser.add_argument("--real", action="store_true", help="with the real engine on SQLite, not its model")
    parser.add_argument("--sites", action="store_true", help="at sites with queues of their own; with --real")
    parser.add_argument("--searches", action="store_true", help="with people who search parameters")
    parser.add_argument("--pipelines", action="store_true", help="with people who chain steps into pipelines")
    parser.add_argument("--resumes", action="store_true", help="and take them up again; with --real")
    parser.add_argument("--spare", action="append", default=[], choices=KINDS, help="leave out a kind of fault")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    spared = frozenset(options.spare)
    kinds = {"sites": options.sites, "searches": options.searches, "pipelines": options.pipelines}
    kinds["resumes"] = options.resumes
    settings = {"real": options.real, **kinds, "spared": spared}
    if options.seed is not None:
        outcome = simulate(options.seed, **settings, verbose=True)
        print(outcome.story())
        print(outcome.verdict())
        return int(outcome.problem is not None)
    first, _, end = options.seeds.partition("..")
    return _search(range(int(first), int(end)), settings)


def _search(seeds: range, settings: dict[str, Any]) -> int:
    began, seen, wrong = time.perf_counter(), Counter[str](), 0
    for seed in seeds:
        outcome = simulate(seed, **settings)
        seen.update(outcome.seen)
        if outcome.problem is not None:
            wrong += 1
            print(outcome.verdict(), flush=True)
    for what, count in sorted(seen.items()):
        print(f"{count:7} {what}")
    each = (time.perf_counter() - began) / max(len(seeds), 1)
    print(f"{len(seeds)} seeds, {wrong} went wrong, {1000 * each:.1f} ms each")
    return int(wrong > 0)


sys.exit(main())
