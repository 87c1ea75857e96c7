# SPDX-License-Identifier: Apache-2.0
"""The commands that the package installs."""
import os
import sys

from tilewright import paths


def tilewright() -> None:
    """Replaces the process by the program `tilewright`. The verb `report` is implemented in this package."""
    if sys.argv[1:2] == ["report"]:
        from tilewright import report
        sys.exit(report.main(sys.argv[2:]))
    _become("tilewright")


def tune() -> None:
    """Replaces the process by the program under its name `tune`, which is short for `tilewright tune`."""
    _become("tune")


def _become(name: str) -> None:
    os.environ.setdefault("TILEWRIGHT_PYTHON", sys.executable)  # which makes the page of `tune --report`, and joins farms
    os.execv(paths.program(), [name, *sys.argv[1:]])
