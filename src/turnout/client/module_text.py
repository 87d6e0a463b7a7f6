"""A module of the user's, as its text tells: it is not executed."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator

from turnout.errors import InvalidInput, NotFound
from turnout.model.likeness import instead_of

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Definition = _Function | ast.ClassDef


class Module:
    """`path` is how errors call it. SyntaxError for a text that this Python cannot read, RecursionError for one that it
    can only execute."""

    def __init__(self, path: str, text: bytes | str) -> None:
        self._path = path
        self._tree = _parsed(text)
        self._bound = [(name, each) for each in _binders(self._tree) if (name := _name_of(each)) is not None]

    @property
    def is_guarded(self) -> bool:
        """Whether something of it is for when it is executed as a script: ``if __name__ == "__main__":``."""
        return any(isinstance(each, ast.If) and "__name__" in ast.unparse(each.test) for each in self._tree.body)

    def check_name(self, name: str) -> None:
        """NotFound for what it does not have, as far as that is to be seen; of ``Class.method``, the class."""
        names = {bound for bound, _ in self._bound}
        may_have_more = "*" in names or "__getattr__" in names or any(map(_is_globals, ast.walk(self._tree)))
        if name.partition(".")[0] not in names and not may_have_more:
            functions = [bound for bound, each in self._bound if isinstance(each, _Definition)]
            raise NotFound(f"{self._path} has no function {name!r}", hint=instead_of(name, functions))

    def check_arguments(self, name: str, given: Collection[str], values: Collection[str]) -> None:
        """InvalidInput if a plain function has no names for all that are given, or needs one that is neither given nor
        among the values."""
        found = [each for bound, each in self._bound if bound == name]
        if len(found) != 1 or not isinstance(found[0], _Function) or found[0].decorator_list:
            return
        has = found[0].args
        if has.posonlyargs:
            return
        names = [each.arg for each in (*has.args, *has.kwonlyargs)]
        where = f"{self._path}:{found[0].lineno}: {name}()"
        for each in given:
            if each not in names and has.kwarg is None:
                raise InvalidInput(f"{where} has no argument {each!r}", hint=instead_of(each, names))
        missing = [each for each in _needed(has) if each not in given and each not in values]
        if missing:
            raise InvalidInput(f"{where} needs {', '.join(missing)}", hint=f"write `{missing[0]}: VALUE` below `args:`")


def _parsed(text: bytes | str) -> ast.Module:
    try:
        with warnings.catch_warnings(action="ignore"):  # they are told where it is executed
            return ast.parse(text)
    except ValueError as error:  # as Python 3.11 has it of a NUL
        raise SyntaxError(str(error)) from error
    except MemoryError as error:  # as Python 3.11 has it of a hundred thousand signs before a number
        raise RecursionError(str(error)) from error


def _needed(has: ast.arguments) -> list[str]:
    plain = has.args[: len(has.args) - len(has.defaults)]
    named = [each for each, default in zip(has.kwonlyargs, has.kw_defaults, strict=True) if default is None]
    return [each.arg for each in (*plain, *named)]


def _binders(node: ast.AST) -> Iterator[ast.AST]:
    """All that gives something a name in a module."""
    left = [node]  # a sum of a thousand texts is a thousand nodes deep
    while left:
        each = left.pop()
        if each is not node and isinstance(each, _Definition | ast.alias | ast.Name):
            yield each
        elif not isinstance(each, ast.Lambda):
            left += reversed(list(ast.iter_child_nodes(each)))


def _name_of(node: ast.AST) -> str | None:
    if isinstance(node, _Definition):
        return node.name
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    return node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) else None


def _is_globals(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("globals", "exec", "setattr")
