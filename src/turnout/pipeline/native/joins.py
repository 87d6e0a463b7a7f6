"""Which runs of one step a run of another has to do with: those that agree with it in the names that both have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from turnout.pipeline.plan import Place

_Key = str | tuple[str, ...]


class Group(NamedTuple):
    """Runs that agree, and the files they leave."""

    places: tuple[Place, ...]
    files: tuple[str, ...]


class Member(NamedTuple):
    """A run, as those see it that wait for it."""

    texts: Mapping[str, str]
    files: tuple[str, ...]


class Join:
    """Finds the runs of `step` by the values of `names`; without names they are all of them, and where there are none,
    any run agrees with that."""

    def __init__(self, step: str, names: tuple[str, ...], members: Sequence[Member]) -> None:
        self.step = step
        self.names = names
        self._pick = itemgetter(*names) if names and members else None
        self._groups: dict[_Key, Group] = {}
        places = [Place(step, number) for number in range(len(members))]
        if self._pick is None:
            files = tuple(dict.fromkeys(file for member in members for file in member.files))
            self._all = Group(tuple(places), files)
            return
        found: dict[_Key, list[int]] = {}
        for number, member in enumerate(members):
            found.setdefault(self._pick(member.texts), []).append(number)
        for key, numbers in found.items():
            self._groups[key] = Group(
                tuple([places[number] for number in numbers]),
                members[numbers[0]].files
                if len(numbers) == 1
                else tuple(dict.fromkeys(file for number in numbers for file in members[number].files)),
            )

    @property
    def most(self) -> int:
        """How many runs some run waits for."""
        groups = self._groups.values() if self._groups else (self._all,)
        return max(len(group.places) for group in groups)

    def group_of(self, texts: Mapping[str, str]) -> Group | None:
        """Those that the run with these values waits for; None = no run agrees with it."""
        return self._all if self._pick is None else self._groups.get(self._pick(texts))


def shared(names: Sequence[str], others: Sequence[str], *, same_files: bool) -> tuple[str, ...]:
    """The names by which two steps are joined. Files are the same only where both have them from the same pattern."""
    return tuple(name for name in names if name in others and (name != "file" or same_files))
