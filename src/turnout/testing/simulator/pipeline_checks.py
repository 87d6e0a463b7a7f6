"""What must hold of pipelines in the end: by what was submitted and answered, and by what commands really did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnout.model.ids import parse_job_name
from turnout.model.pipeline import SKIPPED, Gate, PipelineSpec, StepSpec
from turnout.model.state import Reason, RunState
from turnout.schedule import needs
from turnout.schedule.needs import End, Verdict
from turnout.store.belonging import OF_STEP
from turnout.testing.simulator.checks import Broken
from turnout.testing.simulator.command import Truth, left_in, manifest_of
from turnout.testing.simulator.memory import Disk
from turnout.testing.simulator.people import Person
from turnout.testing.simulator.planners import Later
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


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run waited for: these runs, and all of these steps."""

    runs: Sequence[int]
    steps: Mapping[int, Sequence[int]]

    @property
    def all_runs(self) -> list[int]:
        return [*self.runs, *(run for runs in self.steps.values() for run in runs)]

    def verdicts(self, disk: Disk, gate: Gate) -> list[Verdict]:
        singly = [needs.of_run(_end(disk, run), gate) for run in self.runs]
        whole = [needs.of_step({_end(disk, run) for run in runs}, gate, is_over=True) for runs in self.steps.values()]
        return singly + whole


def check_pipelines(disk: Disk, person: Person, truths: dict[Attempt, Truth], kinds: Sequence[str]) -> None:
    """Faults, of these `kinds`, are over: each run came to the end that those it needs leave it."""
    for asked in person.asked:
        answer: Any = disk.answers.get(asked.key)
        if asked.pipeline is None or answer is None:
            continue
        pipeline = _found(asked.pipeline, answer, disk)
        is_cut = asked.pipeline.job.fail_fast or pipeline.number in person.planner.unwanted
        is_resumed = pipeline.number in person.planner.resumed
        for step, spec in enumerate(asked.pipeline.steps):
            if not is_resumed:
                _check_told(disk, answer, spec, pipeline.runs[step])
                _check_needs(disk, pipeline, step)
            for run in pipeline.runs[step]:
                if disk.records[run].step == OF_STEP and not disk.graph.steps[pipeline.jobs[step]].stale:
                    _check_run(disk, pipeline, step, run, truths, is_cut=is_cut)
        if not is_resumed:
            _check_ended(disk, pipeline, person.planner.ended.get(pipeline.number))
            if asked.pipeline.job.fail_fast and not HUB_TROUBLES & set(kinds):
                _check_ended(disk, pipeline, _failed(disk, pipeline))


def _check_run(
    disk: Disk, pipeline: Pipeline, step: int, run: int, truths: dict[Attempt, Truth], *, is_cut: bool
) -> None:
    job, spec = pipeline.jobs[step], pipeline.spec.steps[step]
    if _is_stand_in(disk, pipeline, step, run):
        _check_stand_in(disk, job, spec, run, is_cut=is_cut)
        return
    needed = _needed(disk, job, run)
    if any(disk.records[on].step != OF_STEP for on in needed.runs):
        return  # of these, something was done again since, and who resumes the pipeline once more does this again
    _check_end(disk, run, needed, spec, is_cut=is_cut)
    if spec.gate is not Gate.ANYHOW:
        _check_began(disk, run, [on for on in needed.all_runs if not _end(disk, on).is_skipped], truths)
    _check_given(disk, run, needed.all_runs, truths)
    if disk.records[run].attempt and spec.late is not None and spec.late["fills"]:
        _check_filled(disk, run, needed, spec)


def _needed(disk: Disk, job: int, run: int) -> Needs:
    graph = disk.graph
    whole = {on: _outer(disk, on) for on, each in graph.step_needs if each == job}
    return Needs([on for on, each in sorted(graph.run_needs) if each == run], whole)


def _outer(disk: Disk, job: int) -> list[int]:
    return [run for run, record in disk.records.items() if record.step == OF_STEP and disk.rows[run].job == job]


def _end(disk: Disk, run: int) -> End:
    return End(disk.records[run].state, disk.records[run].reason)


def _left(disk: Disk, needed: Needs) -> list[str]:
    """The states of what a run waited for, as they are told at gates."""
    ends = [_end(disk, run) for run in needed.all_runs]
    return [SKIPPED if end.is_skipped else end.state for end in ends]


def _found(spec: PipelineSpec, answer: Any, disk: Disk) -> Pipeline:
    jobs = [parse_job_name(answer["steps"][step.name]["job"]) or 0 for step in spec.steps]
    runs = [[run for run, row in disk.rows.items() if row.job == job and not row.child] for job in jobs]
    return Pipeline(spec, parse_job_name(answer["job"]) or 0, jobs, runs)


def _check_told(disk: Disk, answer: Any, spec: StepSpec, runs: Sequence[int]) -> None:
    told, names = answer["steps"][spec.name]["runs"], [disk.rows[run].name for run in runs]
    if not names or (spec.late is None and told != names):
        raise Broken(f"{spec.name} was told {told}, and there are {names}")


def _check_needs(disk: Disk, pipeline: Pipeline, step: int) -> None:
    """Of a step whose runs were known, what was submitted; of a late one, as many runs as there were things to do it
    to, each once and made of what was really left; and each waits for what it was made of."""
    spec, job, runs, graph = pipeline.spec.steps[step], pipeline.jobs[step], pipeline.runs[step], disk.graph
    whole = {on for on, each in graph.step_needs if each == job}
    singly = [{on for on, each in graph.run_needs if each == run} for run in runs]
    if spec.runs:
        wanted = [{pipeline.runs[at][place] for at, place in each} for each in spec.run_needs]
        if whole != {pipeline.jobs[at] for at in spec.needs} or (wanted and singly != wanted):
            raise Broken(f"{spec.name} waits for {whole}, {singly}, and that was not submitted: {spec}")
        return
    if _is_stand_in(disk, pipeline, step, runs[0]):
        return
    assert spec.late is not None
    late = {on for on, each, _ in graph.late_needs if each == job}
    before = {on: name for on in sorted(late, key=lambda on: graph.steps[on].name) for name in _outer(disk, on)}
    candidates = [run for on in sorted(late, key=lambda on: graph.steps[on].name) for run in _outer(disk, on)]
    count = spec.late["own"] + min(spec.late["most"], len(candidates))
    files = [str(disk.rows[run].params["file"]) for run in runs if "file" in disk.rows[run].params]
    left = {left_in(manifest_of(each, disk.records[each].attempt)) for each in candidates if _has_left(disk, each)}
    if len(runs) != count or len(set(files)) != len(files) or not set(files) <= left:
        raise Broken(f"{spec.name} was made into {runs} of {files}, of {candidates} that left {left}: {spec.late}")
    one_each = [set[int]()] * spec.late["own"] + [{run} for run in candidates[: spec.late["most"]]]
    right = (set(), one_each) if spec.late["singly"] else (late, [set[int]()] * count)
    if (whole, singly) != right:
        raise Broken(f"{spec.name} waits for {whole}, {singly}, and that is {right}: {spec.late}, {before}")


def _is_stand_in(disk: Disk, pipeline: Pipeline, step: int, run: int) -> bool:
    """Whether it stands for runs that were not made."""
    return not pipeline.spec.steps[step].runs and not disk.graph.steps[pipeline.jobs[step]].made


def _check_stand_in(disk: Disk, job: int, spec: StepSpec, run: int, *, is_cut: bool) -> None:
    """Of a late step that was never made: because of what was before it, or that there was nothing."""
    record, graph = disk.records[run], disk.graph
    makers = {on: is_over for on, each, is_over in graph.late_needs if each == job}
    verdicts = [
        needs.of_step({_end(disk, each) for each in _outer(disk, on)}, spec.gate, is_over=True)
        for on, is_over in makers.items()
        if is_over or not graph.steps[on].made
    ]
    reasons = {_REASONS[verdict] for verdict in verdicts if verdict in _REASONS}
    assert spec.late is not None
    if not spec.late["own"] + min(spec.late["most"], sum(len(_outer(disk, on)) for on in makers)):
        reasons.add(Reason.UNMADE)
    if record.attempt or (record.reason not in reasons and not is_cut and record.cancel is None):
        raise Broken(f"{spec.name} was not made, and that for {record.reason}, not {reasons}: {record}")


_REASONS = {Verdict.LOST: Reason.DEPENDENCY, Verdict.SKIPPED: Reason.CONDITION}


def _check_end(disk: Disk, run: int, needed: Needs, spec: StepSpec, *, is_cut: bool) -> None:
    """Never begun, for the right reason, if something that it needs is not well, or somebody said so at its gate; else
    not given up. `is_cut`: somebody wanted all of its pipeline ended."""
    record, name = disk.records[run], disk.rows[run].name
    reasons = {_REASONS[each] for each in needed.verdicts(disk, spec.gate) if each in _REASONS}
    if not reasons and spec.gate and spec.late is not None:
        late, states = Later.of(spec.late), _left(disk, needed)
        groups = [_left(disk, Needs(runs, {})) for runs in _by_step(disk, needed).values()]
        is_passed = late.when != "bad" and any(states and set(states) == {SKIPPED} for states in groups)
        reasons |= {Reason.CONDITION} if is_passed or not late.is_done(states) else set()
    is_lost = record.state is RunState.CANCELLED and record.cancel is None
    if reasons and (record.attempt or record.state is not RunState.CANCELLED):
        raise Broken(f"{name} is {record.state} after {record.attempt} attempts, and was to be given up: {reasons}")
    if is_lost and (record.attempt or record.reason not in reasons) and not is_cut:
        raise Broken(f"{name} was given up for {record.reason}, and that was not so: {record}, {needed}, {reasons}")


def _by_step(disk: Disk, needed: Needs) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for run in needed.all_runs:
        found.setdefault(disk.rows[run].job, []).append(run)
    return found


def _check_filled(disk: Disk, run: int, needed: Needs, spec: StepSpec) -> None:
    """What it executed came from what was there when it was looked at."""
    assert spec.late is not None
    fates = spec.late["fates"]
    right = tuple(fates[_left(disk, needed).count(RunState.COMPLETED) % len(fates)].split())
    if disk.rows[run].argv != right:
        raise Broken(f"{disk.rows[run].name} executed {disk.rows[run].argv}, and that was to be {right}: {needed}")


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
