# SPDX-License-Identifier: Apache-2.0
"""The commands that the package installs."""
import os
import sys

from tilewright import paths


def tilewright() -> None:
    """Replaces the process by the program `tilewright`, except for the verb `report`, which this
    package implements."""
    if sys.argv[1:2] == ["report"]:
        from tilewright import report
        sys.exit(report.main(sys.argv[2:]))
    _become("tilewright")


def tune() -> None:
    """Replaces the process by the program with the name `tune`. With this name it does what
    `tilewright tune` does."""
    _become("tune")


def _become(name: str) -> None:
    # This interpreter makes the page of `tune --report`, and joins farms.
    os.environ.setdefault("TILEWRIGHT_PYTHON", sys.executable)
    os.execv(paths.program(), [name, *sys.argv[1:]])
