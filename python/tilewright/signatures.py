# SPDX-License-Identifier: Apache-2.0
"""Functions and methods of the extension module whose errors are one sentence.

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

_SIGNATURE = re.compile(r"^    \d+\. [\w.]*\((.*)\)(?: -> .*)?$", re.MULTILINE)
_PARAMETER = re.compile(r"(?:^|, )(\w+): ")
_SELF = re.compile(r"^self: [\w.]+(?:, )?")
_MISFIT = re.compile("incompatible (function|constructor) arguments")
_LONGEST_VALUE = 60


def explained(module: types.ModuleType) -> dict[str, Callable[..., Any]]:
    """The public functions of the module by name, whose errors for wrong arguments are one sentence."""
    return {name: _explained(name, value) for name, value in vars(module).items()
            if isinstance(value, types.BuiltinFunctionType) and not name.startswith("_")}


def explain_methods(module: types.ModuleType) -> None:
    """Replaces constructors and public methods of the module's classes by ones with such errors."""
    for name, value in vars(module).items():
        if not isinstance(value, type) or issubclass(value, Exception):
            continue
        for method, function in list(vars(value).items()):
            if method == "__init__":
                setattr(value, method, _explained(name, function, is_method=True))
            elif type(function).__name__ == "instancemethod" and not method.startswith("_"):
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
        # A constructor's object is not there yet, so that it has no repr().
        _refuse(name, [_SELF.sub("", signature) for signature in signatures], args[is_method:], kwargs)
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
