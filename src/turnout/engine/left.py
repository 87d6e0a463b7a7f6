"""What runs of pipelines have left, for who decides what is done with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from turnout.blobs import BlobStore
from turnout.model.pipeline import SKIPPED
from turnout.model.state import Reason
from turnout.pipeline.plan import Left
from turnout.store import leaving, reads
from turnout.store.carrying import roots
from turnout.store.leaving import Leaver
from turnout.store.store import Connection
from turnout.wire import manifest
from turnout.wire.patterns import is_glob, matcher, plain_path

Leavers = Mapping[str, Sequence[Leaver]]


class Lefts:
    """Of the runs in `leavers`: which files, if those are asked for (`has_files`), and what they came to
    (`has_ends`). In a directory that all nodes see (`is_shared`), files are what was named and what nodes found; else
    they are in manifests."""

    def __init__(
        self, connection: Connection, blobs: BlobStore, leavers: Iterable[Leaver],
        *, is_shared: bool, has_files: bool, has_ends: bool,
    ) -> None:  # fmt: skip
        self._blobs = blobs
        self._has_files = has_files
        known = {each.id: each for each in leavers}
        self._lying = _lying(connection, known.values()) if is_shared and has_files else None
        self._ends = _ends(connection, known) if has_ends else {}
        self._found: dict[int, Left] = {}

    def of(self, leavers: Leavers) -> dict[str, list[Left]]:
        """By their steps."""
        return {name: [self._left(name, each) for each in runs] for name, runs in leavers.items()}

    def _left(self, step: str, run: Leaver) -> Left:
        if run.id not in self._found:
            self._found[run.id] = Left(
                label="" if run.label == step else run.label, values=run.values, files=self._files(run),
                unsure=() if run.is_over else tuple(each for each in run.outputs if plain_path(each) is None),
                state=SKIPPED if run.reason == Reason.CONDITION else run.state, came_to=self._ends.get(run.id, {}),
            )  # fmt: skip
        return self._found[run.id]

    def _files(self, run: Leaver) -> tuple[str, ...]:
        """Those of its outputs, in the order in which it names them; of one that is not over, as far as is known."""
        if not self._has_files:
            return ()
        if not run.is_over:
            return tuple(path for path in map(plain_path, run.outputs) if path is not None)
        if self._lying is not None:
            return self._lying.get(run.id, ())
        if run.after is None or not run.is_well:
            return ()
        paths = sorted(entry.path for entry in manifest.decode(self._blobs.read(run.after)))
        found: dict[str, None] = {}
        for is_taken in map(_matcher, run.outputs):
            found.update((path, None) for path in paths if is_taken(path))
        return tuple(found)


def _ends(connection: Connection, runs: Iterable[int]) -> dict[int, dict[str, object]]:
    """What these runs came to, as a condition asks for it. One whose result was taken over, and who has been deleted
    since, tells no more than that."""
    executed = roots(connection, runs)
    views = reads.show_by_id(connection, sorted({*executed, *executed.values()}))
    found: dict[int, dict[str, object]] = {}
    for run, root in executed.items():
        view = views.get(root) or views[run]
        told: dict[str, object] = {"state": view["state"], "exit_code": view["exit_code"]}
        told |= {f"params.{name}": value for name, value in view["params"].items()}
        metrics = {name: value for name, value in view["metrics"].items() if value is not None}  # else it is infinite
        told |= {f"metrics.{name}": value for name, value in metrics.items()}
        found[run] = {**metrics, **told}
    return found


def _lying(connection: Connection, runs: Iterable[Leaver]) -> dict[int, tuple[str, ...]]:
    """The outputs that these runs left where all nodes see them: what they named, and what nodes found."""
    well = [run for run in runs if run.is_well]
    executed = roots(connection, [run.id for run in well if any(map(is_glob, run.outputs))])
    found = leaving.told_of_outputs(connection, executed.values())
    return {
        run.id: tuple(
            dict.fromkeys(
                [*(each for each in run.outputs if not is_glob(each)), *found.get(executed.get(run.id, run.id), ())]
            )
        )
        for run in well
    }


def _matcher(pattern: str) -> Callable[[str], bool]:
    return matcher([pattern])
