# SPDX-License-Identifier: Apache-2.0
"""The programs of the package as commands."""
import os
import sys

from tilewright import paths


def tilewright() -> None:
    """Becomes the program `tilewright`."""
    _become("tilewright")


def tune() -> None:
    """Becomes the program under its name `tune`, which is short for `tilewright tune`."""
    _become("tune")


def _become(name: str) -> None:
    os.execv(paths.program(), [name, *sys.argv[1:]])
