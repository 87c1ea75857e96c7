# SPDX-License-Identifier: Apache-2.0
"""Functions of the extension module whose errors are one sentence.

For arguments that fit no signature, pybind11 raises an error with all signatures and the values. The functions
made here raise one sentence with the expected arguments, or with the keyword that the function lacks.
"""
from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright import options

_SIGNATURE = re.compile(r"^    \d+\. \((.*)\) -> .*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?:^|, )(\w+): ")
_LONGEST_VALUE = 60


def explained(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions of the module by name, whose errors for wrong arguments are one sentence."""
    return {name: _explained(name, value) for name, value in vars(module).items()
            if isinstance(value, types.BuiltinFunctionType) and not name.startswith("_")}


def _explained(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            signatures = _SIGNATURE.findall(str(error))
            if not signatures or "incompatible function arguments" not in str(error):
                raise
        _refuse(name, signatures, args, kwargs)
        return None
    return call


def _refuse(name: str, signatures: Sequence[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    known = list(dict.fromkeys(parameter for text in signatures for parameter in _PARAMETER.findall(text)))
    options.check_names(name, kwargs, known)
    given = [_shown(value) for value in args] + [f"{key}={_shown(value)}" for key, value in kwargs.items()]
    expected = " or ".join(f"({text})" for text in dict.fromkeys(signatures))
    raise TypeError(f"{name}({', '.join(given)}): expected {expected}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE - 3] + "..."
