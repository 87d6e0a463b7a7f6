"""``turnout.Pipeline``: a pipeline in Python, handed over as one from a file is.

::

    p = turnout.Pipeline("folds", target="cluster")
    fit = p.step("fit", train.fit, args={"model": "{output}"}, matrix={"fold": range(3)}, outputs="models/{fold}.json")
    p.step("report", train.report, args={"models": "{inputs}", "page": "{output}"}, collect=fit, outputs="report.md")
    job = p.run()
"""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from turnout.client import ask, plan_text, search_file
from turnout.client.client import Client
from turnout.client.job_keys import alike
from turnout.client.module_text import Module
from turnout.client.pipeline_file import files_in, shared_directory
from turnout.client.pipeline_job import PipelineJob
from turnout.client.pipelines import PipelineWish, PreparedPipeline, prepare_pipeline
from turnout.client.preparing import Wish
from turnout.errors import InvalidInput
from turnout.home import Home, current_directory
from turnout.model.ids import check_label, check_tag_key
from turnout.pipeline import native
from turnout.pipeline.native.builder import Function
from turnout.pipeline.native.model import Step
from turnout.pipeline.native.plain import plain
from turnout.pipeline.plan import Plan


class Pipeline(native.Builder):
    """Steps, and what they have in common. What is wrong with a step is said where it is added.

    `name` is for people; `job` are options for all steps that do not say otherwise, ``target="cluster"``, ``cpus=4``,
    as they stand in a file. `code` is the directory whose files the runs get: the current one; with `shared`, all is
    done in that directory, which all nodes have to see, and nothing is copied. With `fail_fast` the first failure ends
    all of it, and not only what depends on it. `home` as for a Client.
    """

    def __init__(
        self, name: str | None = None, *, code: str | Path = ".", tags: Mapping[str, str] | None = None,
        notify: str | None = None, fail_fast: bool = False, shared: str | Path | None = None,
        home: str | Path | None = None, **job: object,
    ) -> None:  # fmt: skip
        super().__init__(search_file.JOB_KEYS)
        self._name = None if name is None else check_label(name, "name")
        self._code = (current_directory() / code).resolve()
        self._tags = {check_tag_key(key): str(value) for key, value in (tags or {}).items()}
        self._notify = notify
        self._fail_fast = fail_fast
        self._shared = "" if shared is None else shared_directory(current_directory() / shared)
        self._home = Home.from_env() if home is None else Home(Path(home).absolute())
        self._job = {key.replace("_", "-"): plain(value) for key, value in job.items()}
        self._wish(self._job)

    def plan(self) -> Plan:
        """All runs, and whom each waits for, as far as that is known before. InvalidInput has all that is wrong."""
        return native.plan(self.pipeline(), files_in(Path(self._shared) if self._shared else self._code))

    def dry_run(self) -> None:
        """Prints what would run, and in which order, and raises what `submit` would. Changes nothing."""
        for line in plan_text.lines(self._prepared(remember=False).wish.plan):
            print(line)

    def submit(self, *, resume: str | None = None) -> PipelineJob:
        """Hands it over. Returning means that it is on the hub's disk. InvalidInput, NotFound, SnapshotRefused: nothing
        was done. What completed in the pipeline `resume`, and is asked for in the same way, is taken over."""
        prepared, client = self._prepared(resume=resume), Client(self._home.root)
        return PipelineJob(client, client.submit_pipeline(prepared.deliver(client))["job"])

    def run(self, *, resume: str | None = None) -> PipelineJob:
        """Hands it over and waits for it, see `PipelineJob.wait`: PipelineFailed unless it completes."""
        job = self.submit(resume=resume)
        print(f"{job.name}: `turnout show {job.name}` tells how it is", file=sys.stderr)
        job.wait()
        return job

    def _prepared(self, *, remember: bool = True, resume: str | None = None) -> PreparedPipeline:
        plan = self.plan()
        for note in plan.notes:
            warnings.warn(note, stacklevel=3)
        wish = PipelineWish(
            plan=plan, steps=alike(self.pipeline().steps, self._wish_of), display=_display(),
            name=self._name, tags=self._tags, notify=self._notify, fail_fast=self._fail_fast,
            shared=self._shared, resume=resume,
        )  # fmt: skip
        return prepare_pipeline(wish, self._home, self._code, remember=remember)

    def _check(self, step: Step) -> None:
        self._wish_of(step)

    def _wish_of(self, step: Step) -> Wish:
        try:
            return self._wish({**self._job, **step.job})
        except InvalidInput as error:
            raise InvalidInput(f"steps.{step.name}: {error.message}", hint=error.hint) from error

    def _wish(self, job: Mapping[str, object]) -> Wish:
        wish = search_file.from_mapping({**job, "command": ""}, self._code).wish
        return replace(wish, python=_this_python())

    def _path_of(self, function: Function) -> str:
        if getattr(function, "__module__", None) != "__main__":
            return super()._path_of(function)
        name = getattr(function, "__qualname__", "")
        return f"{_name_of_script(name)}:{name}" if name and "<" not in name else super()._path_of(function)


def _name_of_script(function: str) -> str:
    """The module that the script is which is being executed, for who imports it. InvalidInput if that cannot be."""
    main = sys.modules["__main__"]
    path = Path(getattr(main, "__file__", None) or "").resolve()
    if not path.is_file():
        what = f"{function} is defined in a notebook or at a prompt, where no run finds it"
        raise InvalidInput(what, hint="write it into a file beside, import it from there, and give that")
    if not Module(path.name, path.read_bytes()).is_guarded:
        what = f"{function} is defined in {path.name}, all of which would be executed again to find it"
        hint = 'put it into a module beside, or what is not to be executed again below `if __name__ == "__main__":`'
        raise InvalidInput(what, hint=hint)
    return path.stem if main.__spec__ is None else main.__spec__.name


def _this_python() -> str | None:
    """The one that executes this: what it has installed is what functions count on. None = it is the one on PATH."""
    found = shutil.which(ask.python_here())
    is_on_path = found is not None and Path(found).parent == Path(sys.executable).parent
    return None if is_on_path or not sys.executable else sys.executable


def _display() -> tuple[str, ...]:
    """How it is called where jobs are listed."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    return ("turnout.Pipeline",) if script is None else ("python", Path(script).name)
