# SPDX-License-Identifier: Apache-2.0
"""Checks the options of runs. The error for a wrong value is one sentence that names the argument. The program refuses
the same values."""
from __future__ import annotations

import difflib
import math
import operator
import os
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, Union

from tilewright import _tilewright, errors

# A duration: a number of seconds, or text such as "500ms", "60s", "5m" and "2h".
Seconds = Union[float, str]

_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
_TIME = re.compile(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?(ms|s|m|h|)", re.ASCII | re.IGNORECASE)
_LONGEST_S = 1e7

# The smallest and the largest value, both allowed, of options that are whole numbers.
_RANGES = {"trials": (0, 10**9), "threads": (1, 1024), "seed": (0, 2**63 - 1)}

_LONGEST_VALUE = 60  # longest repr() that a message quotes, in characters


def check_names(function: str, given: Collection[str], known: Collection[str]) -> None:
    """Raises TypeError for a keyword that the function does not have."""
    for name in given:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, 1, 0.6)
        hint = (f"did you mean {near[0]}?" if near else
                f"it has {', '.join(known)}" if known else "it takes none")
        raise TypeError(f"{function}() has no argument {name!r}: {hint}")


def seconds(verb: str, argument: str, value: Seconds) -> float:
    """Returns the duration `value` in seconds. Raises UsageError if it is not above 0 and at most
    1e7 s, or if a text is no duration, and TypeError for another type."""
    if isinstance(value, str):
        parts = _TIME.fullmatch(value)
        number = float(parts[1] + (parts[2] or "")) * _UNITS[parts[3].lower()] if parts else math.nan
    elif isinstance(value, bool) or not hasattr(value, "__float__"):
        refuse_type(verb, argument, value, "seconds, or text such as '60s'")
    else:
        number = float(value)
    if not 0 < number <= _LONGEST_S:
        raise errors.UsageError(f"[{verb}] {argument} is {value!r}: expected a positive number of seconds of at most "
                                "1e7, or text such as '500ms', '60s', '5m' or '2h'")
    return number


def whole(verb: str, argument: str, value: Any, least: int, most: int) -> int:
    """Returns the value as a whole number. Raises UsageError if it is not from `least` to `most`,
    and TypeError for another type."""
    try:
        number = operator.index(value)
    except TypeError:
        refuse_type(verb, argument, value, "a whole number")
    if not least <= number <= most:
        raise errors.UsageError(f"[{verb}] {argument} is {number}; a whole number from {least} to {most} was expected")
    return number


def text(verb: str, argument: str, value: Any) -> str:
    """Returns the value. Raises TypeError if it is no text."""
    if not isinstance(value, str):
        refuse_type(verb, argument, value, "text")
    return value


def path(verb: str, argument: str, value: Any) -> str:
    """Returns the path as text. Raises TypeError if the value is no path."""
    if not isinstance(value, (str, os.PathLike)):
        refuse_type(verb, argument, value, "a path")
    return os.fspath(value)


def checked(verb: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Checks the options of a run. Returns them with durations in seconds and whole numbers as
    int."""
    result = dict(options)
    for argument in ("budget", "timeout"):
        if argument in result:
            result[argument] = seconds(verb, argument, result[argument])
    for argument, (least, most) in _RANGES.items():
        if argument in result:
            result[argument] = whole(verb, argument, result[argument], least, most)
    for argument, kind in (("on_progress", "a function of a Progress"), ("progress", "True, False or None")):
        value = result.get(argument)
        is_right = callable(value) if argument == "on_progress" else isinstance(value, bool)
        if value is not None and not is_right:
            refuse_type(verb, argument, value, kind)
    for argument in ("target", "effort", "search", "accuracy", "precision"):
        if argument in result:
            text(verb, argument, result[argument])
    return result


def store(verb: str, db: Any, measures: bool = True) -> _tilewright.Store:
    """Returns the given Store, or opens the Store at a path or address, which is created if absent;
    None: the program's database. For a run that measures nothing (`measures` is False), a database
    that cannot be written is opened for reading. Raises TypeError for another type."""
    if isinstance(db, _tilewright.Store):
        return db
    if db is not None and not isinstance(db, (str, os.PathLike)):
        refuse_type(verb, "db", db, "a Store, or the path of one")
    place = _tilewright.default_database() if db is None else db
    try:
        return _tilewright.Store(place)
    except (errors.DatabaseError, errors.MachineError):
        if measures:
            raise
        return _tilewright.Store(place, "r")


def refuse_type(verb: str, argument: str, value: Any, expected: str) -> NoReturn:
    """Raises the TypeError for a value of a wrong type. `expected` describes the values that the
    argument accepts."""
    raise TypeError(f"[{verb}] {argument} is {shown(value)}: expected {expected}")


def shown(value: Any) -> str:
    """Returns the text of a value for a sentence: its repr(), or its type if the value is a
    collection or an array, or if the repr() is long or has several lines."""
    is_collection = hasattr(value, "shape") or isinstance(value, (Mapping, list, tuple, set))
    text = "" if is_collection else repr(value)
    if text and len(text) <= _LONGEST_VALUE and "\n" not in text:
        return text
    kind = type(value).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"
