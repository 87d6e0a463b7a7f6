"""``metapipe.parser.Parser``."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import IO

from turnout.compat.metapipe.commands import CommandTemplate, files_matching, in_words, templates_of
from turnout.errors import InvalidInput
from turnout.pipeline import metapipe
from turnout.pipeline.metapipe import File

_log = logging.getLogger(__name__)
_NAME = "config"


class Parser:
    """Of the text of a file; a path, or a file that is open, will do, too. `consume` fills what it knows: `job_options`
    (the lines that each script begins with) and `global_options` (those that follow them)."""

    def __init__(self, config: str | Path | IO[str]) -> None:
        self.job_options: list[str] = []
        self.global_options: list[str] = []
        self.notes: list[str] = []
        self._name = _NAME
        if isinstance(config, str):
            self._text = config
        elif isinstance(config, Path):
            self._name, self._text = config.name, config.read_text(encoding="utf-8-sig")
        else:
            self._name, self._text = str(getattr(config, "name", _NAME)), config.read()

    def consume(self, cwd: str | Path | None = None) -> list[CommandTemplate]:
        """A template for each command, after those it depends on; files are looked for in `cwd`, or here. ValueError
        names all that is wrong, each with line and column. What may have been meant otherwise is logged."""
        try:
            file = metapipe.parse(self._text, self._name)
            plan = metapipe.plan(file, partial(files_matching, directory=str(cwd or ".")), in_place=True)
        except InvalidInput as error:
            raise ValueError(in_words(error)) from error
        self._keep(file, plan.notes)
        return templates_of(plan)

    def _keep(self, file: File, notes: tuple[str, ...]) -> None:
        self.job_options, self.global_options = list(file.job_options), list(file.options)
        self.notes = list(dict.fromkeys([*file.notes, *notes]))
        for note in self.notes:
            _log.warning("%s: %s", self._name, note)
