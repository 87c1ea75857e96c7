# SPDX-License-Identifier: Apache-2.0
"""Tilewright: declare tensor expressions, tune them on this machine, and call the kernels.

    import tilewright as tw

    m, n, k = tw.Axis("m", 64), tw.Axis("n", 32), tw.Axis("k", 128)
    a, b = tw.input("a", "f32", [m, k]), tw.weight("b", "f32", [k, n])
    c = tw.compute("c", [m, n], tw.sum(k, a[m, k] * b[k, n]))
    kernel = tw.tune(tw.workload(c), budget=10).kernel()
    product = kernel(x, y)          # arrays of NumPy, or of any library with DLPack

Types and functions have the names of the C++ interfaces (docs/api.md). Errors are exceptions of tilewright.errors.
"""
from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypedDict, Union

from tilewright import _tilewright, errors, onnx as onnx, options as _options, plots as plots, signatures as _signatures
from tilewright._tilewright import *  # noqa: F401,F403
from tilewright._tilewright import __version__ as __version__
from tilewright.comparison import Comparison as Comparison
from tilewright.comparison import compare as compare
from tilewright.errors import *  # noqa: F401,F403
from tilewright.functions import KernelFunction as KernelFunction
from tilewright.functions import kernel as kernel
from tilewright.progress import listener as _listener

if TYPE_CHECKING:
    from typing import Unpack

    from tilewright import report as report

# A Store, the path of a database, or None for the database of the program.
Database = Union[_tilewright.Store, str, "os.PathLike[str]", None]


class TuningOptions(TypedDict, total=False):
    """The options of tune(), for type checkers. The documentation of tune() explains them."""

    target: str
    budget: float | str
    trials: int
    effort: str
    search: str
    seed: int
    threads: int
    timeout: float | str
    schedule: _tilewright.Schedule | str


_TUNE_ARGUMENTS = ("db", "progress", "on_progress", *TuningOptions.__annotations__)


def tune(workload: _tilewright.Workload | _tilewright.Tensor | _tilewright.Compute, *, db: Database = None,
         progress: bool | None = None, on_progress: Callable[[_tilewright.Progress], object] | None = None,
         **options: Unpack[TuningOptions]) -> _tilewright.Tuned:
    """Finds a fast schedule for the workload and returns a Tuned.

    Args:
      workload: a Workload, or a Tensor or Compute from which a Workload is made.
      db: a Store, or the path of a database, which is created if absent; by default the program's database.
      target: "host", or another target's text.
      budget: time of searching, in seconds or as text: 90, "500ms", "5m".
      trials: the largest number of new trials; 0: as many as the budget allows.
      effort: "none" returns the best kernel of the database without a search; "quick" searches until the next minute
        is expected to gain less than 1 %, and "normal" until it is less than 0.1 %; "full" uses the whole budget.
      threads: threads that the kernel will run on; at most the cores of the machine that measures.
      timeout: time for one candidate to be verified and measured, in the form of `budget`.
      schedule: a Schedule, or its text, that is measured first and with which the search begins.
      search, seed: as the flags --search and --seed of `tilewright tune` (docs/cli.md).
      progress: True to display the run, in a notebook as an output that is updated, else as text on
        standard error. None displays it in a notebook or on a terminal, unless there is an
        on_progress.
      on_progress: called with a Progress now and then.

    An interrupt from the keyboard ends the search, and the best kernel so far is returned; a second
    interrupt raises KeyboardInterrupt. Raises NoCandidateError if no candidate is valid, and
    MachineError if workers or the code generator cannot be started. A process can have one run at a
    time; other threads of the process continue meanwhile. The run has a connection of its own to
    the database, so `on_progress` and other threads may use `db` at any time. """
    _options.check_names("tune", options, _TUNE_ARGUMENTS)
    if not isinstance(workload, _tilewright.Workload):
        workload = _tilewright.workload(workload)
    _options.checked("tune", {"progress": progress, "on_progress": on_progress})
    store = _options.store("tune", db)
    given = _options.checked("tune", options)
    if "schedule" in given:
        given["schedule"] = str(given["schedule"])
    hear, finish = _listener(progress, on_progress, workload.op)
    try:
        return _tilewright._tune(workload, store, on_progress=hear, **given)
    finally:
        finish()


if not TYPE_CHECKING:
    globals().update(_signatures.explained(_tilewright))
    _signatures.explain_methods(_tilewright)

    def __getattr__(name: str) -> Any:
        # tilewright.report is imported only when it is used. Otherwise `python -m tilewright.report` would import it
        # twice.
        if name == "report":
            return importlib.import_module("tilewright.report")
        raise AttributeError(f"module 'tilewright' has no attribute '{name}'")


__all__ = ([name for name in dir(_tilewright) if not name.startswith("_")] + errors.__all__
           + ["Comparison", "Database", "KernelFunction", "TuningOptions", "compare", "kernel", "plots", "tune"])
