"""Successive halving at several speeds at once, for nobody knows how early a good run can be told."""

from __future__ import annotations

from itertools import accumulate

from turnout.search.options import Options
from turnout.search.stoppers.halving import Climbing, Ladder

_GOLDEN = 0.6180339887498949  # its multiples fall evenly into any interval


class HyperbandStopper(Climbing):
    """Halving in brackets: the first bracket ends runs from step `min_resource` on, each further one begins `eta` times
    later. A run belongs to one bracket, by its number, and is compared only with the others in it; brackets that end
    runs early get more of them, so that all take about the same time.

    - `max_resource`: the step at which runs are complete; it has to be given
    - `min_resource`: the first rung of the first bracket (1)
    - `eta`: what part goes on, and how far it is to the next rung (3)
    - `brackets`: how many (as many as there are rungs up to `max_resource`; the last may end none)
    - `start`: no run is stopped before it has told this step (0)
    - `min_runs`: so many of the same bracket, the run included, must have come to the rung (1)
    """

    name = "hyperband"

    def set_up(self, options: Options) -> None:
        top = options.needed_whole("max_resource", "the step at which a run is complete", least=2)
        first = options.whole("min_resource", 1, least=1)
        eta = options.whole("eta", 3, least=2)
        if top <= first:
            raise options.wrong("max_resource", f"above min_resource, {first}")
        firsts = [first]
        while firsts[-1] * eta <= top:
            firsts.append(firsts[-1] * eta)
        count = options.some_whole("brackets", least=1) or len(firsts)
        if count > len(firsts):
            raise options.wrong("brackets", f"1 to {len(firsts)}, the rungs from min_resource to max_resource")
        self._ladders = [Ladder(each, eta, top) for each in firsts[:count]]
        self._ends = list(accumulate(_share(place, count, eta) for place in range(count)))

    def ladder_of(self, run: int) -> Ladder:
        return self._ladders[self.bracket_of(run)]

    def bracket_of(self, run: int) -> int:
        """From 0, the one that ends runs first."""
        where = run * _GOLDEN % 1.0 * self._ends[-1]
        return next(place for place, end in enumerate(self._ends) if where < end or end == self._ends[-1])


def _share(place: int, count: int, eta: int) -> float:
    """How many runs a bracket gets, so that each bracket takes about as long as the last, whose runs are few and
    long."""
    halvings = count - 1 - place
    return count / (halvings + 1) * float(eta) ** halvings
