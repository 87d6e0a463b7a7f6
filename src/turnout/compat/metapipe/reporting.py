"""Queues that tell how a pipeline gets on: ``TextReportingJobQueue`` and ``HtmlReportingJobQueue``."""

from __future__ import annotations

import html
import os
from datetime import datetime
from typing import Any, ClassVar

from turnout.compat.metapipe.queue import Queue

_PAGE = """<!DOCTYPE html>
<meta charset="utf-8">
<title>{name}</title>
<h1>{name}</h1>
<progress max="100" value="{progress}"></progress> {progress} %
<table>
{jobs}
</table>
<pre>
{messages}
</pre>
"""


class ReportingJobQueue(Queue):
    """Subclasses say what becomes of a message."""

    def render(self, message: str, progress: int) -> None:
        """`progress` is how much is over, in percent."""

    def on_locked(self) -> bool:
        self.render("No job can proceed.", self.progress)
        return False

    def on_submit(self, job: Any) -> None:
        self.render(f"Submitted: {job.alias}", self.progress)

    def on_complete(self, job: Any) -> None:
        self.render(f"Complete: {job.alias}", self.progress)

    def on_error(self, job: Any) -> None:
        self.render(f"Error: {job.alias}, attempt {job.attempts} of {job.MAX_RETRY}", self.progress)

    def on_fail(self, job: Any) -> None:
        self.render(f"Failed: {job.alias}, after {job.attempts} attempts", self.progress)

    def on_end(self) -> None:
        not_well = len(self.failed) + len(self.active_jobs)
        self.render(f"{not_well} jobs are not complete." if not_well else "All jobs are complete.", self.progress)


class TextReportingJobQueue(ReportingJobQueue):
    """Prints."""

    def render(self, message: str, progress: int) -> None:
        print(f"[{progress}%] {datetime.now():%Y-%m-%d %H:%M:%S} {message}", flush=True)


class HtmlReportingJobQueue(ReportingJobQueue):
    """Writes a page, anew with each message."""

    output: ClassVar[str] = "metapipe.report.html"

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.messages: list[str] = []

    def render(self, message: str, progress: int) -> None:
        self.messages.insert(0, f"{datetime.now():%Y-%m-%d %H:%M:%S} {message}")
        states = {"complete": self.complete, "failed": self.failed, "submitted": self.running, "waiting": self.queue}
        jobs = sorted((job.alias, state) for state, each in states.items() for job in each)
        page = _PAGE.format(
            name=html.escape(self.name or "Pipeline"), progress=progress,
            jobs="\n".join(f"<tr><td>{html.escape(alias)}<td>{state}" for alias, state in jobs),
            messages=html.escape("\n".join(self.messages)),
        )  # fmt: skip
        with open(f"{self.output}.new", "w", encoding="utf-8") as file:
            file.write(page)
        os.replace(f"{self.output}.new", self.output)
