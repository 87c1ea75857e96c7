# SPDX-License-Identifier: Apache-2.0
"""The programs of the package as commands."""
import os
import pathlib
import sys

from tilewright import paths


def tilewright():
    """Becomes the program `tilewright`; its verb `report` is of this package."""
    if sys.argv[1:2] == ["report"]:
        from tilewright import report
        sys.exit(report.main(sys.argv[2:]))
    _become(pathlib.Path(paths.program()))


def tune():
    """Becomes the program `tune`, which is short for `tilewright tune`."""
    _become(pathlib.Path(paths.program()).with_name("tune"))


def _become(program):
    os.execv(program, [str(program), *sys.argv[1:]])
