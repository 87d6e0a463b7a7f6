"""Whether the columns that ``run-reports`` and ``job-reports`` name are columns."""

from __future__ import annotations

from collections.abc import Iterator

from turnout import query
from turnout.config.problem import Problem
from turnout.config.setting import Setting, Tree
from turnout.errors import InvalidInput

_LISTS = {"run-reports": query.RUNS, "job-reports": query.JOBS}


def report_problems(tree: Tree, *sections: str) -> Iterator[Problem]:
    """A problem for each key of these sections (of all, if none is named) whose value a list could not use."""
    for section in sections or _LISTS:
        settings = tree[section]
        assert isinstance(settings, dict)
        for key in ("columns", "sort", "group"):
            setting = settings.get(key)
            if isinstance(setting, Setting) and setting.value:
                yield from _problems(f"{section}.{key}", setting, _LISTS[section])


def _problems(path: str, setting: Setting, table: query.Table) -> Iterator[Problem]:
    value = setting.value
    try:
        if isinstance(value, tuple):
            query.parse_columns(",".join(map(str, value)), table)
        else:
            query.parse_sort(str(value), table)
    except InvalidInput as error:
        what = error.message.partition("\n")[0].partition(": ")[2]
        yield Problem(str(setting.origin), f"{path}: {what}", error.hint or "see `turnout list runs --available`")
