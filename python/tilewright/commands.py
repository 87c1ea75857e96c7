# SPDX-License-Identifier: Apache-2.0
"""The programs of the package as commands."""
import os
import pathlib
import sys

from tilewright import paths


def tilewright():
    """Becomes the program `tilewright`."""
    _become(pathlib.Path(paths.program()))


def tune():
    """Becomes the program `tune`, which is short for `tilewright tune`."""
    _become(pathlib.Path(paths.program()).with_name("tune"))


def _become(program):
    os.execv(program, [str(program), *sys.argv[1:]])
