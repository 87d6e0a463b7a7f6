"""``turnout config`` and ``turnout secret``."""

from __future__ import annotations

import getpass
import os
import sys
from pathlib import Path
from typing import Any

from turnout.cli import render
from turnout.config import PROJECT_FILE, find_project_file, gather, secrets
from turnout.config.checking import check as check_all
from turnout.config.layers import Gathered
from turnout.config.setting import DEFAULT, Setting, Tree, plain, walk
from turnout.errors import Conflict, InvalidInput, NotFound
from turnout.home import Home, current_directory
from turnout.model.likeness import instead_of


def _gather() -> Gathered:
    return gather(Home.from_env().config_file, find_project_file(current_directory()))


def show(key: str | None, origin: bool, json: bool) -> None:
    gathered = _gather()
    gathered.config()  # raises what is wrong
    path = tuple(key.split(".")) if key else ()
    found = _find(gathered.tree, path)
    if origin:
        _show_origins(dict(walk(found, path)) if isinstance(found, dict) else {path: found}, json)
    elif json:
        render.print_json(plain(found))
    elif isinstance(found, dict):
        print(_as_yaml(plain(found)), end="")
    else:
        print(render.harmless(_shown(found.value)))


def _find(tree: Tree, path: tuple[str, ...]) -> Tree | Setting:
    found: Tree | Setting = tree
    for at, name in enumerate(path):
        inside = found if isinstance(found, dict) else {}
        if name not in inside:
            where = f" in {'.'.join(path[:at])}" if at else ""
            raise NotFound(f"no setting {name!r}{where}", hint=instead_of(name, inside))
        found = inside[name]
    return found


def _show_origins(settings: dict[tuple[str, ...], Setting], json: bool) -> None:
    if json:
        render.print_json([_described(path, setting) for path, setting in settings.items()])
        return
    rows = [(".".join(path), _shown(each.value), str(each.origin)) for path, each in settings.items()]
    render.table(("SETTING", "VALUE", "FROM"), rows)


def _described(path: tuple[str, ...], setting: Setting) -> dict[str, object]:
    origin = setting.origin
    return {
        "key": ".".join(path), "value": setting.value,
        "origin": {"source": str(origin.source), "name": origin.name or None, "line": origin.line},
    }  # fmt: skip


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else render.shown(value)


def _as_yaml(value: Any) -> str:
    import yaml

    return str(yaml.safe_dump(_listed(value), sort_keys=False, allow_unicode=True, default_flow_style=False))


def _listed(value: Any) -> Any:
    """Plain lists and texts for what YAML would write with a tag."""
    if isinstance(value, dict):
        return {name: _listed(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [_listed(each) for each in value]
    return str(value) if isinstance(value, str) else value


def check(file: Path | None, json: bool) -> int:
    """Exit code 2 when something is wrong."""
    gathered = _gather() if file is None else _gather_for(file)
    problems = check_all(gathered)
    files = [str(each) for each in gathered.files]
    if json:
        told = [{"where": each.where, "what": each.what, "instead": each.instead} for each in problems]
        render.print_json({"files": files, "problems": told})
    elif problems:
        for each in problems:
            print(render.harmless(str(each)))
    else:
        count = sum(setting.origin != DEFAULT for _, setting in walk(gathered.tree))
        print(f"{', '.join(files) or 'no files'}: all well, {count} settings")
    return InvalidInput.exit_code if problems else 0


def _gather_for(file: Path) -> Gathered:
    """That file, over the user's own (it may name targets and setups that are there)."""
    if not file.is_file():
        raise NotFound(f"no file {file}", hint="give the file to check, or none for those that hold here")
    own = Home.from_env().config_file
    return gather(file) if own.exists() and file.samefile(own) else gather(own, file)


def init(force: bool, json: bool) -> None:
    from turnout.config.template import TEMPLATE

    target = current_directory() / PROJECT_FILE
    old = target.with_name(f"{PROJECT_FILE}.old")
    if target.exists() and not force:
        raise Conflict(f"{target} is there already", hint="edit it, or give --force to keep it as turnout.yaml.old")
    temp = target.with_name(f".{PROJECT_FILE}.{os.getpid()}")
    try:
        temp.write_text(TEMPLATE, encoding="utf-8")
        if target.exists():
            os.replace(target, old)
        os.replace(temp, target)
    except OSError as error:
        temp.unlink(missing_ok=True)
        hint = "choose a directory that you can write"
        raise InvalidInput(f"{target} cannot be written: {error.strerror}", hint=hint) from error
    if json:
        render.print_json({"file": str(target)})
    else:
        print(f"wrote {target}; `turnout config check` says whether all is well after you changed it")


def schema() -> None:
    from turnout.config.schema import json_schema

    render.print_json(json_schema())


def path(json: bool) -> None:
    home, project = Home.from_env(), find_project_file(current_directory())
    if json:
        found = {"user": str(home.config_file), "project": str(project) if project else None}
        render.print_json({**found, "secrets": secrets.secrets_file(home)})
        return
    there = "" if home.config_file.exists() else "  (not there yet)"
    print(f"user     {home.config_file}{there}")
    print(f"project  {project or f'no {PROJECT_FILE} here or above; `turnout config init` makes one'}")
    print(f"secrets  {secrets.secrets_file(home)}")


def secret_set(name: str, from_stdin: bool, keyring: bool, json: bool) -> None:
    value = _asked_for(name, from_stdin)
    kept = secrets.store(name, value, in_keyring=keyring)
    if json:
        render.print_json({"name": kept.name, "where": kept.place})
    else:
        print(f"kept in the {kept.place}; name it as secret:{name}")


def _asked_for(name: str, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.read().removesuffix("\n")
    if not sys.stdin.isatty():
        raise InvalidInput("nobody can be asked for the value here", hint="give it on standard input with --from-stdin")
    return getpass.getpass(f"{name}: ")


def secret_list(json: bool) -> None:
    found = secrets.known()
    if json:
        render.print_json([{"name": each.name, "where": each.place} for each in found])
    elif found:
        render.table(("NAME", "WHERE"), [(each.name, each.place) for each in found])
    else:
        print("no secrets; `turnout secret set NAME` keeps one")


def secret_remove(name: str, json: bool) -> None:
    gone = secrets.remove(name)
    if json:
        render.print_json({"name": gone.name, "where": gone.place})
    else:
        print(f"removed from the {gone.place}")
