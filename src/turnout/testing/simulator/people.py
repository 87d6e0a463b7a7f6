"""Users: they submit until they are answered, cancel and restart when they like, and remember what they were told."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from turnout.engine.steer import Cancelled
from turnout.engine.submit import PipelineSubmission, Submission
from turnout.model.ids import parse_job_name
from turnout.model.pipeline import PipelineSpec
from turnout.model.spec import CommandKind, JobSpec, Resources, Retry, RunSpec, Schedule
from turnout.schedule.record import RunRecord
from turnout.testing.simulator.hub import Hub
from turnout.testing.simulator.link import Line, Weather
from turnout.testing.simulator.planners import Planner, choose_pipeline
from turnout.testing.simulator.seekers import Seeker, choose_search
from turnout.testing.simulator.world import LEASE, Process, World
from turnout.wire.messages import Attempt

#: Fates of a job's attempts, in turn; the last one stands for all further ones.
_FATES = ("ok", "ok", "ok", "fail ok", "fail", "signal", "timeout", "oom fail ok", "spawn_failed")
_RETRIES = (
    Retry(), Retry(failures=0, losses=0), Retry(failures=2), Retry(failures=1, losses=1), Retry(failures=0, losses=1),
)  # fmt: skip


@dataclass(slots=True)
class Asked:
    """One submission, all the answers that came, and how often it was sent. Who is not `patient` sends it once. Of a
    `pipeline`, `spec` is what its steps have in common."""

    key: str
    spec: JobSpec
    answers: list[dict[str, object]] = field(default_factory=list)
    sent: int = 0
    patient: bool = True
    pipeline: PipelineSpec | None = None

    @property
    def submission(self) -> Submission | PipelineSubmission:
        body = self.key.encode()
        if self.pipeline is not None:
            return PipelineSubmission(spec=self.pipeline, principal="person", key=self.key, body=body)
        return Submission(spec=self.spec, principal="person", key=self.key, body=body)


#: What jobs ask for by turns; a node has two.
_GPUS = (None, None, 1, None, None, 2, None)


class Person(Process):
    """Submits jobs to `targets`, searches too if it `seeks`, pipelines if it `plans`, and cancels and restarts some of
    what it got."""

    def __init__(
        self, world: World, hub: Hub, weather: Weather, targets: list[str], *, seeks: bool = False, plans: bool = False,
        resumes: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(world, "person")
        self._hub = hub
        self._line = Line(world, weather, self, hub.receive)
        self._targets = targets
        self._seeks = seeks
        self._plans, self._resumes = plans, resumes
        self.planner = Planner(self, hub, self._line, resumes=resumes)
        self.asked: list[Asked] = []
        self.cancelled: dict[str, str] = {}
        """what the last answer to a cancel said of each run"""
        self.restarted: set[Attempt] = set()
        """the attempts of which an answer said that they will be ended for another"""
        self.begin()

    def plan(self, jobs: int, until: float) -> None:
        for number in range(jobs):
            asked = Asked(f"key{number}", self._choose(number))
            self.asked.append(asked)
            asked.patient = self.world.rng.random() < 0.9
            self.after(self.world.rng.uniform(0.0, until), partial(self._submit, asked))
        for number in range(self.world.rng.choice((1, 1, 2)) if self._seeks else 0):
            key = f"search{number}"
            self.asked.append(asked := Asked(key, choose_search(self.world.rng, key, self._targets)))
            self.after(self.world.rng.uniform(0.0, until), partial(self._submit, asked))
        for number in range(self.world.rng.choice((1, 1, 2, 3)) if self._plans else 0):
            pipeline = choose_pipeline(self.world.rng, f"pipeline{number}", self._targets, is_plain=self._resumes)
            self.asked.append(asked := Asked(f"pipeline{number}", pipeline.job, pipeline=pipeline))
            asked.patient = self.world.rng.random() < 0.9
            self.after(self.world.rng.uniform(0.0, until), partial(self._submit, asked))

    @property
    def is_waiting(self) -> bool:
        """Whether it still wants an answer."""
        return any(asked.patient and not asked.answers for asked in self.asked)

    def _choose(self, number: int) -> JobSpec:
        rng = self.world.rng
        repeat = rng.choice((1, 1, 2, 4))
        fates = rng.choice(_FATES)
        nodes = rng.choice((None, None, None, None, 2))
        runs = 1 if repeat > 1 or nodes else rng.choice((1, 1, 2))
        total = rng.choice((None, 3, 5)) if nodes and repeat == 1 else None
        script = rng.choice((None, None, "prepare")) if repeat > 1 or total else None
        return JobSpec(
            kind=CommandKind.COMMAND, display=(fates,), repeat=repeat, nodes=nodes, total=total, parent_script=script,
            schedule=rng.choice(tuple(Schedule)),
            runs=(RunSpec(argv=tuple(fates.split())),) * runs,
            target=rng.choice(self._targets), retry=rng.choice(_RETRIES), priority=rng.choice((0, 0, 0, 5)),
            concurrent=rng.choice((None, None, None, 1, 4)),
            resources=Resources(cpus=rng.choice((None, None, 1, 2)), gpus=_GPUS[number % len(_GPUS)]),
        )  # fmt: skip

    def _submit(self, asked: Asked) -> None:
        asked.sent += 1
        if asked.sent > 1:
            self.world.sometimes("submission repeated")
        self._line.ask(
            partial(self._hub.on_submit, asked.submission), timeout=LEASE,
            on_answer=partial(self._submitted, asked), on_trouble=partial(self._not_submitted, asked),
        )  # fmt: skip

    def _submitted(self, asked: Asked, answer: object) -> None:
        assert isinstance(answer, dict)
        asked.answers.append(answer)
        self.world.note("person", "got", {name: answer[name] for name in ("job", "runs", "steps") if name in answer})
        if asked.pipeline is not None:
            names = self.planner.choose_runs(answer)
            self.planner.tend(answer)
        else:
            names = [str(name) for name in answer["runs"]]
        if asked.spec.search is not None and len(asked.answers) == 1:
            Seeker(self, self._hub, self._line, asked.key, parse_job_name(str(answer["job"])) or 0).begin()
        if asked.spec.search is not None:
            names = self._some(names)
        if self.world.rng.random() < 0.25:
            if asked.spec.repeat > 1 and self.world.rng.random() < 0.5:
                names = [f"{names[0]}.{self.world.rng.randint(1, asked.spec.repeat)}"]
            self.after(self.world.rng.choice((0.0, 0.3, 1.0, 3.0)), partial(self._cancel, names))
        if self.world.rng.random() < 0.15:
            self.after(self.world.rng.choice((0.1, 0.5, 1.0, 3.0)), partial(self._restart, names))
        if self.world.rng.random() < 0.1:  # an answer that did not satisfy: the same again
            self._submit(asked)

    def _some(self, parents: list[str]) -> list[str]:
        """Of a search: all of it, what it does at one target, or one of its runs."""
        rng = self.world.rng
        return rng.choice((parents, parents, parents[:1], [f"{rng.choice(parents)}.{rng.randint(1, 3)}"]))

    def _not_submitted(self, asked: Asked, error: Exception) -> None:
        if asked.patient and not asked.answers:
            self.after(0.2, partial(self._submit, asked))

    def _cancel(self, names: list[str]) -> None:
        self._line.ask(
            partial(self._hub.on_cancel, names), timeout=LEASE,
            on_answer=self._were_cancelled, on_trouble=lambda error: self._cancel_again(names),
        )  # fmt: skip

    def _were_cancelled(self, done: object) -> None:
        assert isinstance(done, list)
        for item in done:
            assert isinstance(item, Cancelled)
            self.world.note("person", "cancelled", item.name, item.outcome)
            self.world.sometimes("cancel: " + item.outcome)
            self.cancelled[item.name] = item.outcome

    def _restart(self, names: list[str]) -> None:
        self._line.ask(
            partial(self._hub.on_restart, names), timeout=LEASE,
            on_answer=self._were_restarted, on_trouble=lambda error: self.world.sometimes("restart unanswered"),
        )  # fmt: skip

    def _were_restarted(self, asked: object) -> None:
        assert isinstance(asked, list)
        for record in asked:
            assert isinstance(record, RunRecord)
            self.world.note("person", "restarted", record.id, record.attempt)
            self.world.sometimes("restart requested")
            self.restarted.add((record.id, record.attempt))

    def _cancel_again(self, names: list[str]) -> None:
        self.world.sometimes("cancel repeated")
        self.after(0.2, partial(self._cancel, names))
