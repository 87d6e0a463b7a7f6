"""Jobs for systems with ways of their own: before one is stored, its provider may change its files and commands."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from turnout.blobs import Blobs
from turnout.engine.host import in_full
from turnout.engine.options import options_of
from turnout.engine.target import Target
from turnout.errors import InvalidInput, ProviderError
from turnout.hub.redrafting import redrafted
from turnout.model.ids import job_name, run_name
from turnout.model.pipeline import PipelineSpec
from turnout.model.spec import JobSpec, Original
from turnout.plugin.foreign import Draft, DraftRun, Foreign
from turnout.plugin.provider import Failure
from turnout.snapshot import Limits, capture, deliver
from turnout.snapshot.laying import lay_out
from turnout.spec.check import check
from turnout.store.jobs import Numbers, reserve_numbers
from turnout.store.requests import find_answer
from turnout.store.store import Store
from turnout.store.writer import Tx


@dataclass(frozen=True, slots=True)
class Adjusted:
    """The job as it is to be stored, and the numbers that were promised to it, if it was shown to somebody."""

    spec: JobSpec
    numbers: Numbers | None = None


class Adjusting:
    """From any thread. `directory` is for files on their way; what an earlier hub left there is removed."""

    def __init__(self, targets: Mapping[str, Target], store: Store, blobs: Blobs, directory: Path) -> None:
        self._targets = targets
        self._store = store
        self._blobs = blobs
        self._directory = directory
        shutil.rmtree(directory, ignore_errors=True)

    def adjust(self, spec: JobSpec, *, principal: str, key: str) -> Adjusted:
        """What becomes of the job where it is sent to. One that was answered before is left as it is. ProviderError
        when its provider raises, or refuses it."""
        spec = self._launched(spec)
        target = self._targets[spec.where]
        provider = target.provider
        if not isinstance(provider, Foreign):
            return Adjusted(spec)

        def reserve(tx: Tx) -> Numbers | None:
            return None if find_answer(tx, principal, key) else reserve_numbers(tx, spec)

        numbers = self._store.write(reserve)
        if numbers is None:
            return Adjusted(spec)
        with self._laid_out(spec) as files:
            draft = _draft(spec, numbers, files)
            adjusted = target.ask(lambda _: provider.adjust(draft))
            if isinstance(adjusted, Failure):
                raise ProviderError(
                    f"target {spec.target}: {in_full(adjusted)}", hint="nothing was submitted"
                ) from adjusted
            changed = self._captured(_checked(redrafted(spec, draft.runs, adjusted.runs)), files)
        return Adjusted(replace(changed, original=_original(spec)), numbers)

    def adjust_steps(self, spec: PipelineSpec) -> PipelineSpec:
        """The same for a pipeline, whose steps no provider changes: their runs may not be known yet."""
        return replace(spec, terms=tuple(replace(each, job=self._launched(each.job)) for each in spec.terms))

    def _launched(self, spec: JobSpec) -> JobSpec:
        """Each run by itself, where a launch is a run."""
        target = self._targets[spec.where]
        target.serve()  # else nobody knows what kind of place it is
        return replace(spec, direct=True) if target.launches_runs else spec

    @contextmanager
    def _laid_out(self, spec: JobSpec) -> Iterator[Path]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        files = self._directory / secrets.token_hex(8)
        try:
            lay_out(self._blobs, spec.before, files)
            yield files
        finally:
            shutil.rmtree(files, ignore_errors=True)

    def _captured(self, spec: JobSpec, files: Path) -> JobSpec:
        """With the files as they are now."""
        limits = Limits(file_bytes=1 << 50, total_bytes=1 << 50)
        found = capture(
            files, cache=Path(os.devnull), limits=limits, allow_secrets=("*", "**"), honours_ignore_files=False
        )
        if not found.entries:
            return replace(spec, before=None, before_files=0, before_bytes=0)
        kept = deliver(found, self._blobs)
        return replace(spec, before=kept.digest, before_files=kept.files, before_bytes=kept.total_bytes)


def _draft(spec: JobSpec, numbers: Numbers, files: Path) -> Draft:
    job = job_name(numbers.job)
    return Draft(
        job=job, workspace=spec.workspace, experiment=spec.experiment, files=str(files),
        runs=list(_runs(spec, numbers)), options=options_of(spec), search=spec.search is not None,
    )  # fmt: skip


def _runs(spec: JobSpec, numbers: Numbers) -> Iterator[DraftRun]:
    for index in range(spec.outer_runs):
        run = spec.runs[index if spec.nodes is None and spec.search is None else 0]
        script: Sequence[str] = spec.display[:1] if spec.script is not None else ()
        yield DraftRun(
            run=run_name(numbers.run + index), workspace=spec.workspace, experiment=spec.experiment,
            node=f"{spec.target}#{job_name(numbers.job)}.{index}", command=[*script, *run.argv], env=dict(spec.env),
            repeat=max(1, spec.children_of(index)),
        )  # fmt: skip


def _original(spec: JobSpec) -> Original:
    return Original(
        kind=spec.kind, display=spec.display, argv=tuple(run.argv for run in spec.runs), env=tuple(sorted(spec.env)),
        script=spec.script, script_path=spec.script_path,
    )  # fmt: skip


def _checked(spec: JobSpec) -> JobSpec:
    try:
        check(spec)
    except InvalidInput as error:
        what = f"target {spec.target} made something of the job that it cannot be: {error.message}"
        raise ProviderError(what, hint="nothing was submitted") from error
    return spec
