# SPDX-License-Identifier: Apache-2.0
"""The programs of the package as commands."""
import os
import sys

from tilewright import paths


def tilewright() -> None:
    """Becomes the program `tilewright`; its verb `report` is of this package."""
    if sys.argv[1:2] == ["report"]:
        from tilewright import report
        sys.exit(report.main(sys.argv[2:]))
    _become("tilewright")


def tune() -> None:
    """Becomes the program under its name `tune`, which is short for `tilewright tune`."""
    _become("tune")


def _become(name: str) -> None:
    os.environ.setdefault("TILEWRIGHT_PYTHON", sys.executable)  # which makes the page of `tune --report`, and joins farms
    os.execv(paths.program(), [name, *sys.argv[1:]])
