# SPDX-License-Identifier: Apache-2.0
"""Wraps functions and methods of the extension module, so that errors about their arguments are one sentence.

For arguments that fit no signature, pybind11 raises an error with all signatures and values. The wrapped functions
raise one sentence about the first wrong argument:

    Store.query(op=3)     Store.query(): op is 3: expected text
    Store.query("dense")  Store.query() takes its arguments by name: workload, op, device, session, status, limit
    Kernel.load()         Kernel.load(): argument 'path' is missing: expected a path
"""
from __future__ import annotations

import functools
import numbers
import operator
import os
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright import options

_SIGNATURE = re.compile(r"^    \d+\. [\w.]*\((.*)\)(?: -> .*)?$", re.MULTILINE)
_SELF = re.compile(r"^self: [\w.]+(?:, )?")
_MISFIT = re.compile("incompatible (function|constructor) arguments")


def explained(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """Returns the public functions of the module, by name, wrapped so that errors for wrong
    arguments are one sentence."""
    return {name: _explained(name, value) for name, value in vars(module).items()
            if isinstance(value, types.BuiltinFunctionType) and not name.startswith("_")}


def explain_methods(module: types.ModuleType) -> None:
    """Wraps the constructors and public methods of the module's classes in the same way as explained()."""
    for name, value in vars(module).items():
        if not isinstance(value, type) or issubclass(value, Exception):
            continue
        for method, function in list(vars(value).items()):
            if method == "__init__":
                setattr(value, method, _explained(name, function, is_method=True))
            elif method.startswith("_"):
                continue
            elif isinstance(function, staticmethod):
                setattr(value, method, staticmethod(_explained(f"{name}.{method}", function.__func__)))
            elif type(function).__name__ == "instancemethod":
                setattr(value, method, _explained(f"{name}.{method}", function, is_method=True))


def _explained(name: str, function: Callable[..., Any], is_method: bool = False) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            signatures = _SIGNATURE.findall(str(error))
            if not signatures or not _MISFIT.search(str(error)):
                raise
        # The object of a constructor is not initialised yet, so it has no repr().
        _refuse(name, [_parameters(_SELF.sub("", signature)) for signature in signatures], args[is_method:], kwargs)
        return None
    return call


# ---- signatures as pybind11 prints them ----------------------------------------------------------


class _Parameter(NamedTuple):
    name: str
    type: str
    is_optional: bool
    is_by_name: bool  # keyword-only


def _parameters(signature: str) -> list[_Parameter]:
    """Parses a list of parameters such as "path: os.PathLike | str, *, team: str = ''"."""
    parameters, is_by_name = [], False
    for part in _split(signature):
        name, _, rest = part.partition(": ")
        if part in ("*", "/") or not rest:
            is_by_name = is_by_name or part == "*"
            continue
        kind, equals, _ = rest.partition(" = ")
        parameters.append(_Parameter(name, kind, bool(equals), is_by_name))
    return parameters


def _split(text: str) -> list[str]:
    """Splits a text at the commas that are outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        depth += (character in "[({<") - (character in "])}>") if not quote else 0
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


# For each type in signatures: its name in a sentence, and a function that is true for values of the type.
_WORDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("text", lambda value: isinstance(value, str)),
    "bytes": ("bytes", lambda value: isinstance(value, bytes)),
    "bool": ("True or False", lambda value: isinstance(value, bool)),
    "int": ("a whole number", lambda value: hasattr(value, "__index__")),
    "float": ("a number", lambda value: isinstance(value, numbers.Real) or hasattr(value, "__float__")),
    "None": ("None", lambda value: value is None),
    "os.PathLike": ("a path", lambda value: isinstance(value, (str, bytes, os.PathLike))),
    "dict": ("a dict", lambda value: isinstance(value, Mapping)),
    "list": ("a list", lambda value: isinstance(value, Sequence) and not isinstance(value, (str, bytes))),
    "tuple": ("a tuple", lambda value: isinstance(value, Sequence) and not isinstance(value, (str, bytes))),
    "Callable": ("a function", callable),
}
_ALIASES = {"SupportsInt": "int", "SupportsIndex": "int", "SupportsFloat": "float", "Sequence": "list",
            "Mapping": "dict", "PathLike": "os.PathLike"}


def _kinds(annotation: str) -> list[str]:
    """Returns the names of the types of an annotation such as "os.PathLike | str | None", without
    the parts in brackets. Leaves out str and bytes beside os.PathLike."""
    kinds, depth, bare = [], 0, ""
    for character in annotation:
        depth += character == "["
        bare += character if depth == 0 else ""
        depth -= character == "]"
    for part in bare.split("|"):
        kind = part.strip()
        last = kind.rpartition(".")[2]
        kinds.append(kind if kind in _WORDS else _ALIASES.get(last, last))
    if "os.PathLike" in kinds:
        kinds = [kind for kind in kinds if kind not in ("str", "bytes")]
    return list(dict.fromkeys(kinds))


def _expected(kinds: Sequence[str]) -> str:
    words = []
    for kind in kinds:
        article = "an" if kind[:1] in "AEIOU" else "a"
        words.append(_WORDS[kind][0] if kind in _WORDS else f"{article} {kind}")
    return " or ".join(", ".join(words).rsplit(", ", 1))


def _fits(value: Any, kinds: Sequence[str]) -> bool:
    """True if the value is of one of the types, as far as their names tell."""
    return any(_WORDS[kind][1](value) if kind in _WORDS else
               kind == "object" or any(base.__name__ == kind for base in type(value).__mro__) for kind in kinds)


# ---- sentences -----------------------------------------------------------------------------------


class _Complaint(NamedTuple):
    # Index of the wrong parameter; the user probably means the signature with the largest index.
    position: int
    parameter: str
    begin: str
    expected: tuple[str, ...]  # names of types


def _refuse(name: str, signatures: Sequence[Sequence[_Parameter]], args: tuple[Any, ...],
            kwargs: Mapping[str, Any]) -> None:
    known = list(dict.fromkeys(parameter.name for parameters in signatures for parameter in parameters))
    options.check_names(name, kwargs, known)
    complaints = [_complaint(parameters, args, kwargs) for parameters in signatures]
    furthest = max(complaints)
    kinds = [kind for complaint in complaints if complaint[:3] == furthest[:3] for kind in complaint.expected]
    expected = f": expected {_expected(list(dict.fromkeys(kinds)))}" if kinds else ""
    raise TypeError(f"{name}(){furthest.begin}{expected}")


def _complaint(parameters: Sequence[_Parameter], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Complaint:
    """Returns the complaint about the first argument that does not match this signature."""
    placed = [parameter for parameter in parameters if not parameter.is_by_name]
    for position, parameter in enumerate(parameters):
        is_given = position < len(args) and not parameter.is_by_name
        if not is_given and parameter.name not in kwargs:
            if parameter.is_optional:
                continue
            return _Complaint(position, parameter.name, f": argument '{parameter.name}' is missing",
                              _without_object(parameter))
        if is_given and parameter.name in kwargs:
            return _Complaint(position, parameter.name, f": '{parameter.name}' is given by position and by name", ())
        value = args[position] if is_given else kwargs[parameter.name]
        if not _fits(value, _kinds(parameter.type)):
            return _Complaint(position, parameter.name, f": {parameter.name} is {options.shown(value)}",
                              tuple(_kinds(parameter.type)))
    if len(args) > len(placed):
        names = ", ".join(parameter.name for parameter in parameters)
        if not parameters:
            begin = " takes no arguments"
        elif not placed:
            begin = f" takes its arguments by name: {names}"
        else:
            begin = f" takes {', '.join(parameter.name for parameter in placed)} by position, and {len(args)} were given"
        return _Complaint(len(placed), "", begin, ())
    # All arguments fit as far as _fits() checks, so the fault is the size of a whole number, or an element of a list.
    given = {**dict(zip([parameter.name for parameter in placed], args)), **kwargs}
    for position, parameter in enumerate(parameters):
        value = given.get(parameter.name)
        is_whole = isinstance(value, numbers.Integral) and "float" not in _kinds(parameter.type)
        if is_whole and not 0 <= operator.index(value) < 2**31:
            return _Complaint(position, parameter.name, f": {parameter.name} is {options.shown(value)}, which is out of range", ())
    types = ", ".join(f"{parameter.name}: {parameter.type}" for parameter in parameters)
    return _Complaint(len(parameters), "", f": an argument has elements of another type or out of range: expected ({types})", ())


def _without_object(parameter: _Parameter) -> tuple[str, ...]:
    """Returns the names of the types of a parameter. Empty if it accepts any object."""
    kinds = _kinds(parameter.type)
    return () if "object" in kinds else tuple(kinds)
