"""``turnout provider new``: a package with a provider that works, and tests that pass, to begin with."""

from __future__ import annotations

import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

from turnout.config import Config
from turnout.config.providing import known_providers
from turnout.errors import Conflict, InvalidInput

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
#: file of the package -> the text it is made of
_SHARED = {"pyproject.toml": "pyproject.toml", "README.md": "README.md"}
_KINDS = {
    "plain": {**_SHARED, "src/@package@/__init__.py": "plain.py", "tests/test_contract.py": "plain_test.py"},
    "batch": {
        **_SHARED, "src/@package@/__init__.py": "batch.py", "tests/test_contract.py": "batch_test.py",
        "tests/toy.py": "toy.py",
    },
    "training-service": {
        "pyproject.toml": "training_service.toml", "README.md": "training_service.md",
        "src/@package@/__init__.py": "training_service.py", "tests/test_contract.py": "training_service_test.py",
    },
    "job-type": {
        "pyproject.toml": "job_type.toml", "README.md": "job_type.md",
        "src/@package@/__init__.py": "job_type.py", "tests/test_contract.py": "job_type_test.py",
    },
}  # fmt: skip
#: What the class is called after the provider, and how it is named.
_CLASSES = {
    "plain": ":@Class@Provider", "batch": ":@Class@Provider", "training-service": ".@Class@Service",
    "job-type": ".@Class@Job",
}  # fmt: skip


def write(name: str, below: Path, *, kind: str) -> dict[str, Any]:
    """All of it, or nothing; `kind`: plain, batch, training-service or job-type. InvalidInput when the name is none,
    Conflict when there is such a provider, or directory, already."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name!r} is no name of a provider", hint="use small letters, digits and dashes: my-cluster"
        )
    if name in known_providers(Config()):  # those that are installed
        raise Conflict(f"there is a provider {name!r} already", hint="give another name: targets choose by it")
    directory = below / f"turnout-provider-{name}"
    words = {
        "@name@": name, "@package@": f"turnout_provider_{name.replace('-', '_')}",
        "@Class@": "".join(part.capitalize() for part in name.split("-")),
    }  # fmt: skip
    texts = {_filled(path, words): _filled(_text(source), words) for path, source in _KINDS[kind].items()}
    if directory.exists():
        raise Conflict(f"{directory} is there already", hint="give another name, or remove it")
    fresh = below / f".{directory.name}.new"
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        for path, text in texts.items():
            (fresh / path).parent.mkdir(parents=True, exist_ok=True)
            (fresh / path).write_text(text, encoding="utf-8")
        fresh.rename(directory)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        hint = "choose a directory that you can write"
        raise InvalidInput(f"{directory} cannot be written: {error.strerror}", hint=hint) from error
    return {
        "directory": str(directory), "files": [str(directory / path) for path in texts],
        "package": words["@package@"], "class": _filled(f"@package@{_CLASSES[kind]}", words),
    }  # fmt: skip


def _text(name: str) -> str:
    return (files("turnout") / "client" / "skeletons" / f"{name}.txt").read_text("utf-8")


def _filled(text: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text
