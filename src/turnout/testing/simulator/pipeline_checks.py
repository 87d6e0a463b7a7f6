"""What must hold of pipelines in the end: by what was submitted and answered, and by what commands really did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from turnout.model.ids import parse_job_name
from turnout.model.pipeline import PipelineSpec, StepSpec
from turnout.model.state import Reason, RunState
from turnout.schedule.record import RunRecord
from turnout.store.belonging import OF_STEP
from turnout.testing.simulator.checks import Broken
from turnout.testing.simulator.command import Truth, left_in, manifest_of
from turnout.testing.simulator.memory import Disk
from turnout.testing.simulator.people import Person
from turnout.wire.messages import Attempt

#: What may hold a hub up after a failure that shall end all; without these, that is done at once.
HUB_TROUBLES = frozenset({"kill hub", "stop hub", "fragile hub", "slow disk", "sleep"})
_AT_ONCE = 0.5


@dataclass(frozen=True, slots=True)
class Pipeline:
    """One that was submitted: its number, and of each step its job and the ids of its outer runs."""

    spec: PipelineSpec
    number: int
    jobs: Sequence[int]
    runs: Sequence[Sequence[int]]

    def needed(self, step: int, run: int, disk: Disk) -> list[int]:
        """What that run of that step waited for, by what was submitted; of a late one, all that its step did."""
        spec = self.spec.steps[step]
        singly = spec.run_needs[run] if spec.run_needs else ()
        return [each for at in spec.needs for each in self.runs[at]] + [self.runs[at][place] for at, place in singly]


def check_pipelines(disk: Disk, person: Person, truths: dict[Attempt, Truth], kinds: Sequence[str]) -> None:
    """Faults, of these `kinds`, are over: each run came to the end that those it needs leave it."""
    for asked in person.asked:
        answer: Any = disk.answers.get(asked.key)
        if asked.pipeline is None or answer is None:
            continue
        pipeline = _found(asked.pipeline, answer, disk)
        is_cut = asked.pipeline.job.fail_fast or pipeline.number in person.planner.unwanted
        if pipeline.number in person.planner.resumed:
            _check_resumed(disk, pipeline, truths, is_cut=is_cut)
            continue
        for step, spec in enumerate(asked.pipeline.steps):
            _check_told(disk, answer, spec, pipeline.runs[step])
            for place, run in enumerate(pipeline.runs[step]):
                needed = pipeline.needed(step, place, disk)
                _check_end(disk, disk.records[run], needed, spec, is_cut=is_cut)
                if not spec.bears_failures:
                    _check_began(disk, run, needed, truths)
                _check_given(disk, run, needed, truths)
            if spec.late is not None:
                _check_late(disk, pipeline, step)
        _check_ended(disk, pipeline, person.planner.ended.get(pipeline.number))
        if asked.pipeline.job.fail_fast and not HUB_TROUBLES & set(kinds):
            _check_ended(disk, pipeline, _failed(disk, pipeline))


def _check_resumed(disk: Disk, pipeline: Pipeline, truths: dict[Attempt, Truth], *, is_cut: bool) -> None:
    """By what the store says each waited for, because other runs than those of which people were told took places."""
    graph = disk.graph
    for step, job in enumerate(pipeline.jobs):
        whole = {on for on, each in graph.step_needs if each == job}
        outer = [run for run, record in disk.records.items() if record.step == OF_STEP and disk.rows[run].job in whole]
        for run in pipeline.runs[step]:
            needed = [*outer, *(on for on, each in graph.run_needs if each == run)]
            record = disk.records[run]
            if record.step == OF_STEP and record.attempt and not graph.steps[job].bears_failures:
                _check_began(disk, run, needed, truths)
                _check_given(disk, run, needed, truths)
            is_lost = record.reason in (Reason.DEPENDENCY, Reason.CONDITION) and record.step == OF_STEP
            is_well = all(disk.records[on].state is RunState.COMPLETED for on in needed)
            if is_lost and is_well and pipeline.spec.steps[step].late is None and not is_cut:
                raise Broken(f"{disk.rows[run].name} is not taken up though all that it needs is well: {record}")


def _found(spec: PipelineSpec, answer: Any, disk: Disk) -> Pipeline:
    jobs = [parse_job_name(answer["steps"][step.name]["job"]) or 0 for step in spec.steps]
    runs = [[run for run, row in disk.rows.items() if row.job == job and not row.child] for job in jobs]
    return Pipeline(spec, parse_job_name(answer["job"]) or 0, jobs, runs)


def _check_told(disk: Disk, answer: Any, spec: StepSpec, runs: Sequence[int]) -> None:
    told, names = answer["steps"][spec.name]["runs"], [disk.rows[run].name for run in runs]
    if not names or (spec.late is None and told != names):
        raise Broken(f"{spec.name} was told {told}, and there are {names}")


def _check_end(disk: Disk, record: RunRecord, needed: Sequence[int], spec: StepSpec, *, is_cut: bool) -> None:
    """Never begun, for the right reason, if something that it needs is not well; else not given up. `is_cut`: somebody
    wanted all of its pipeline ended."""
    name, is_lost = disk.rows[record.id].name, record.state is RunState.CANCELLED and record.cancel is None
    is_due = not is_cut and not _makes_nothing(disk, needed, spec)
    bad = [] if spec.bears_failures else [on for on in needed if disk.records[on].state is not RunState.COMPLETED]
    if bad and (record.attempt or record.state is not RunState.CANCELLED):
        raise Broken(f"{name} is {record.state} after {record.attempt} attempts, though {bad} are not well")
    if is_lost and not bad and is_due:
        raise Broken(f"{name} was given up though all that it needs is well: {record}, {needed}")
    if is_lost and (record.attempt or record.reason not in (Reason.DEPENDENCY, Reason.CONDITION)):
        raise Broken(f"{name} was given up after {record.attempt} attempts, and says {record.reason}: {record}")
    if record.reason is Reason.UNMADE and (record.attempt or not _makes_nothing(disk, needed, spec)):
        raise Broken(f"{name} was not made after {record.attempt} attempts, though there was something to do: {record}")
    is_skipped = is_lost and record.reason is Reason.CONDITION
    if is_skipped and not _has_condition(spec) and all(disk.records[on].reason is not Reason.CONDITION for on in bad):
        raise Broken(f"{name} was skipped, and neither has a condition nor what it needs: {record}")


def _makes_nothing(disk: Disk, needed: Sequence[int], spec: StepSpec) -> bool:
    """Whether a late step has no runs, by what came before it."""
    if spec.late is None:
        return False
    is_bad = any(disk.records[on].state is not RunState.COMPLETED for on in needed)
    is_skipped = spec.late["when"] and (spec.late["when"] == "bad") is not is_bad
    return bool(is_skipped) or not spec.late["own"] + min(spec.late["most"], len(needed))


def _has_condition(spec: StepSpec) -> bool:
    return spec.late is not None and bool(spec.late["when"])


def _check_began(disk: Disk, run: int, needed: Sequence[int], truths: dict[Attempt, Truth]) -> None:
    """No command of it was executed before those of all that it needs had come to their good ends."""
    mine = [run, *(each for each, record in disk.records.items() if record.parent == run)]
    began = [when for (each, _), truth in truths.items() if each in mine for when in truth.began]
    before = (disk.records[each] for need in needed for each in _executed(disk, need))
    ended = [truths.get((record.id, record.attempt), Truth()).ended for record in before]
    if began and (None in ended or any(when > min(began) for when in ended if when is not None)):
        raise Broken(f"{disk.rows[run].name} began at {min(began)}, and those that it needs ended at {ended}")


def _executed(disk: Disk, run: int) -> list[int]:
    """Itself, or the children of a parent."""
    if not disk.records[run].is_parent:
        return [run]
    return [each for each, record in disk.records.items() if record.parent == run]


def _check_given(disk: Disk, run: int, needed: Sequence[int], truths: dict[Attempt, Truth]) -> None:
    """Each time it was executed, it had all that was left for it; and what is well left what it had to."""
    left = [each for each in dict.fromkeys(needed) if _has_left(disk, each)]
    right = sorted(manifest_of(each, disk.records[each].attempt) for each in left)
    for attempt in range(1, disk.records[run].attempt + 1):
        for given in truths.get((run, attempt), Truth()).inputs:
            if sorted(given) != right:
                raise Broken(f"{disk.rows[run].name} was given {given}, and was to have {right}")
    if _has_left(disk, run) and not truths[run, disk.records[run].attempt].left:
        raise Broken(f"{disk.rows[run].name} is well and left nothing of {disk.rows[run].outputs}")


def _has_left(disk: Disk, run: int) -> bool:
    record = disk.records[run]
    return record.state is RunState.COMPLETED and bool(disk.rows[run].outputs) and not record.is_parent


def _check_late(disk: Disk, pipeline: Pipeline, step: int) -> None:
    """As many runs as there were things to do it to, each once and made of what was really left; or one for all."""
    spec, runs = pipeline.spec.steps[step], pipeline.runs[step]
    assert spec.late is not None
    if [disk.rows[run].argv for run in runs] == [spec.display]:
        return  # one that stands for them: `_check_end` knows whether that is right
    needed = pipeline.needed(step, 0, disk)
    wanted = spec.late["own"] + min(spec.late["most"], len(needed))
    labels = Counter(disk.rows[run].label for run in runs)
    files = [str(disk.rows[run].params["file"]) for run in runs if "file" in disk.rows[run].params]
    left = {left_in(manifest_of(each, disk.records[each].attempt)) for each in needed if _has_left(disk, each)}
    if len(runs) != wanted or len(set(files)) != len(files) or not set(files) <= left:
        raise Broken(
            f"{spec.name} was made into {labels} of {files}; there were {needed} that left {left}: {spec.late}"
        )


def _failed(disk: Disk, pipeline: Pipeline) -> float | None:
    """When its first run failed."""
    mine = [disk.records[run] for runs in pipeline.runs for run in runs]
    return min((each.ended + _AT_ONCE for each in mine if each.state is RunState.FAILED and each.ended), default=None)


def _check_ended(disk: Disk, pipeline: Pipeline, when: float | None) -> None:
    """From then on nothing of it was begun any more."""
    if when is None:
        return
    jobs = set(pipeline.jobs)
    for run, row in disk.rows.items():
        if row.job in jobs:
            late = [past for past in disk.events[run] if past.event == "started" and past.time > when]
            if late:
                raise Broken(f"{row.name} began at {late[0].time} in a pipeline that was over at {when}")
