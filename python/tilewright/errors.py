# SPDX-License-Identifier: Apache-2.0
"""Exceptions of the package. Each stands for one exit code of the program (docs/cli.md), and is also
an exception of Python's own where one means the same."""

__all__ = ["Error", "InternalError", "UsageError", "UnsupportedError",
           "DatabaseError", "InvalidError", "NoCandidateError", "MachineError",
           "NotCompiledError", "TryLaterError"]


class Error(Exception):
    """What could not be done: the message says what was given, what was expected and what to do."""

    code: int = 1


class InternalError(Error, RuntimeError):
    """A fault of the library."""


class UsageError(Error, ValueError):
    """An argument that makes no sense."""

    code = 2


class UnsupportedError(Error, NotImplementedError):
    """What is asked for exists, but not here: an operator, a data type, a size."""

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
    """A record exists, but its kernel is not in the cache: the message has the line that compiles."""

    code = 8


class TryLaterError(Error):
    """Something else has the database or the device."""

    code = 75

