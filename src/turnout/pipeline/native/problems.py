"""What is wrong with a pipeline: said for all of it at once, each with its place and what to write instead."""

from __future__ import annotations

from collections.abc import Callable

from turnout.errors import InvalidInput

#: The line of a file that a place is in, or the nearest that is written there.
Locate = Callable[[str], int | None]
_MOST_OF_A_PLACE = 3
_MOST = 30


class Problems:
    """Gathers them. A step with many runs may have the same problem often: of each place, the first few are shown.
    `where` is the file, if there is one."""

    def __init__(self, where: str, locate: Locate | None = None) -> None:
        self._where = where
        self._locate = locate
        self._found: dict[str, list[tuple[str, str]]] = {}

    def add(self, place: str, what: str, instead: str) -> None:
        """`place` is ``steps.trim.inputs``, or "" for all of the pipeline. The same is said once."""
        of_place = self._found.setdefault(place, [])
        if (what, instead) not in of_place[:_MOST_OF_A_PLACE]:
            of_place.append((what, instead))

    def take(self, others: Problems) -> None:
        for place, found in others._found.items():
            self._found.setdefault(place, []).extend(found)

    def has_enough_of(self, place: str) -> bool:
        """Whether more of them would not be shown: who looks at run after run may stop."""
        return len(self._found.get(place, ())) > _MOST_OF_A_PLACE

    def __bool__(self) -> bool:
        return bool(self._found)

    def check(self) -> None:
        """InvalidInput if there is one, with all of them."""
        if not self._found:
            return
        lines = [(place, *each) for place, found in self._found.items() for each in found[:_MOST_OF_A_PLACE]]
        if len(lines) == 1:
            ((place, what, instead),) = lines
            raise InvalidInput(self._line(place, what), hint=instead)
        shown = [f"{self._line(place, what)}; {instead}" for place, what, instead in lines[:_MOST]]
        more = sum(map(len, self._found.values())) - len(shown)
        if more:
            shown.append(f"{self._where}: … and more" if self._where else "… and more")
        raise InvalidInput("\n".join(shown), hint="mend these; a dry run looks at it again and changes nothing")

    def _line(self, place: str, what: str) -> str:
        number = self._locate(place) if self._locate is not None else None
        where = self._where if number is None else f"{self._where}:{number}"
        return ": ".join(filter(None, (where, place, what)))
