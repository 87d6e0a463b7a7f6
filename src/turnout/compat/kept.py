"""Modules from a copy of their files, as they were when something was submitted: to them and to who reads their errors
they lie where they always did."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType


class Kept(MetaPathFinder):
    """Below the directory `copy` are Python files of `own`; what is not there is none of its business."""

    def __init__(self, copy: str, own: str) -> None:
        self._copy = Path(copy)
        self._own = Path(own)

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = fullname.replace(".", "/")
        for inside in (f"{place}/__init__.py", f"{place}.py"):
            if (self._copy / inside).is_file():
                file = str(self._own / inside)
                below = [str(self._own / place)] if inside.endswith("/__init__.py") else None
                loader = _Loader(fullname, file, str(self._copy / inside))
                return spec_from_file_location(fullname, file, loader=loader, submodule_search_locations=below)
        if (self._copy / place).is_dir():
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(self._own / place)]
            return spec
        return None


class _Loader(SourceFileLoader):
    """No bytecode: that which lies beside the file may be of other code."""

    def __init__(self, fullname: str, path: str, copy: str) -> None:
        super().__init__(fullname, path)
        self._kept = copy

    def get_data(self, path: str) -> bytes:
        return super().get_data(self._kept if path == self.path else path)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)
