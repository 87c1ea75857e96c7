# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package. Each corresponds to one exit code of the program (docs/cli.md). Most also derive
from the built-in exception that has the same meaning."""
import re

__all__ = ["Error", "InternalError", "UsageError", "UnsupportedError",
           "DatabaseError", "InvalidError", "NoCandidateError", "MachineError",
           "NotCompiledError", "TryLaterError"]


class Error(Exception):
    """Base class of the exceptions below. Messages say what was given, what was expected and what to do."""

    code: int = 1


class InternalError(Error, RuntimeError):
    """A fault of the library."""


class UsageError(Error, ValueError):
    """An argument that makes no sense."""

    code = 2


class UnsupportedError(Error, NotImplementedError):
    """The request is valid but not implemented: an operator, a data type or a size."""

    code = 3


class DatabaseError(Error):
    """The database cannot be opened, read or written."""

    code = 4


class InvalidError(Error, ValueError):
    """A model, artifact, schedule or expression whose content is wrong."""

    code = 5


class NoCandidateError(Error, LookupError):
    """Tuning found no valid kernel, or the database knows none."""

    code = 6


class MachineError(Error, RuntimeError):
    """A driver, compiler or library is missing, or there is no memory."""

    code = 7


class NotCompiledError(Error, LookupError):
    """A record exists, but its kernel is not in the cache. The message has the command that
    compiles it."""

    code = 8


class TryLaterError(Error):
    """Another process holds the database or the device."""

    code = 75



# ---- arguments in place of flags in messages of the library --------------------------------------

_ARGUMENT_OF = {"dim": "dimensions"}  # arguments whose name differs from the flag's
_TEXTS = {"effort", "search", "target"}  # options whose values are text

# Commands for a shell keep their flags: `tilewright compile --db ...` in backquotes or on a line of its own.
_COMMAND = re.compile(r"(`[^`]*`|^\s*(?:\./tw|tilewright) .*$)", re.MULTILINE)
_DIMENSION = re.compile(r"--dim (\S+)=(\d+)")
_GIVEN = re.compile(r"--(budget|seed|threads|timeout|trials) (\S+):")
_OPTION = re.compile(r"--(budget|cache|db|dim|effort|output|schedule|search|seed|target|threads|timeout|trials)"
                     r"(?![\w-])(?: (none|quick|normal|full|\d+)\b)?")


def in_arguments(message: str) -> str:
    """Returns the message with flags of the program replaced by arguments of functions. For
    example, `--effort none` becomes effort="none"."""
    parts = _COMMAND.split(message)
    parts[::2] = map(_without_flags, parts[::2])
    return "".join(parts)


def _without_flags(text: str) -> str:
    text = text.replace(", --db names another", ", or name another database").replace(" with --db", "")
    text = _GIVEN.sub(lambda found: f"{found[1]} is {found[2]}:", text)
    text = _DIMENSION.sub(r'dimensions={"\1": \2}', text)
    return _OPTION.sub(_as_argument, text)


def _as_argument(found: re.Match[str]) -> str:
    name, value = _ARGUMENT_OF.get(found[1], found[1]), found[2]
    if value is None:
        return name
    return f'{name}="{value}"' if found[1] in _TEXTS else f"{name}={value}"
