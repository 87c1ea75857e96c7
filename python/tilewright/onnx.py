# SPDX-License-Identifier: Apache-2.0
"""Reads networks from ONNX models, tunes them, and makes Models, which can be called.

    network = tw.onnx.load("resnet18.onnx", dimensions={"batch": 1})
    model = network.tune(budget=60)
    scores = model(image)

The package `onnx` is not needed.
"""
from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
import operator
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Union

from tilewright import _tilewright, errors, options, paths, progress as progress_
from tilewright.progress import OnProgress

if TYPE_CHECKING:
    import numpy as np

    from tilewright import Database

# A value of a symbolic dimension, or a sequence of values. Each value becomes a variant of the network.
Dimension = Union[int, Sequence[int]]

# The elements of an input that becomes a constant, in row-major order.
Constant = Union[bool, int, float, Sequence[float], "np.ndarray[Any, Any]", "np.generic"]

# Kinds of NumPy's types: truth values, whole numbers with and without sign, floats.
_KINDS_OF_NUMBERS = frozenset("biuf")


class _Serializable(Protocol):
    """A message of protobuf, such as an onnx.ModelProto."""

    def SerializeToString(self) -> bytes: ...


@dataclasses.dataclass(frozen=True)
class Refreshed:
    """The result of Network.refresh(): the network that was planned again, compared with the one in the file.

    Attributes:
      model: the network that the file has now, loaded.
      is_kept: True if the file was not changed.
      former_ns: time of a call in ns, of the network that the file had; None if there was no file.
      latency_ns: time of a call in ns, of the network as planned now; None if there was no file.
      is_measured: True if both networks were timed, by turns; otherwise both times are
        sums of the planned times of steps.
      reason: the reason why the file was not changed; empty if the times are the reason.
    """

    model: _tilewright.Model
    is_kept: bool = False
    former_ns: float | None = None
    latency_ns: float | None = None
    is_measured: bool = False
    reason: str = ""


class Network:
    """An ONNX model that was read and found to be implemented; load() and loads() make it.

    Attributes:
      graph: the operators of the network, before fusion. If a dimension has several values, the graph is that for the
        first value.
    """

    def __init__(self, name: str, variants: Sequence[tuple[Mapping[str, int], _tilewright.Graph]]) -> None:
        self.graph = variants[0][1]
        self.name = name
        self._variants = [(dict(dimensions), graph) for dimensions, graph in variants]

    @property
    def inputs(self) -> list[_tilewright.Argument]:
        return self.graph.inputs

    @property
    def outputs(self) -> list[_tilewright.Argument]:
        return self.graph.outputs

    def __repr__(self) -> str:
        return f"<Network {self.name}: {len(self.graph.workloads)} operators>"

    def tune(self, *, output: str | os.PathLike[str] | None = None, db: Database = None, target: str = "host",
             budget: float | str = 60, trials: int = 0, effort: str = "normal", threads: int = 1, seed: int = 1,
             accuracy: str = "fast", precision: str = "f32", progress: bool | None = None,
             on_progress: OnProgress = None) -> _tilewright.Model:
        """Chooses layouts and kernels of all operators together, and returns the network, loaded.

        `tilewright tune --model` does the same (docs/networks.md).

        Args:
          output: file to write, which Model.open() and the C interface open; None writes no file.
          db: a Store, or the path or address of a database, which is created if absent; by default the program's
            database.
          target: as in tune(); the network must run on this machine.
          budget: seconds, or text such as "5m"; effort "none" uses only records and predictions,
            and ends within seconds.
          trials: the largest number of new trials of each kernel; 0: as many as the budget allows.
          threads: threads that the network will run on.
          accuracy: the class of each kernel, "fast" or "strict" (docs/tuning.md, "Accuracy classes").
          precision: "bf16" rounds the factors of f32 products to bf16 where this makes the machine
            faster (docs/networks.md).
          progress, on_progress: as in tune(). A Progress is about the kernel that is being tuned, but its times are
            those of the whole run.

        An interrupt from the keyboard ends a run that measures, and the best network so far is
        returned. The database keeps the measurements, and the next run continues from them. A
        second interrupt, or the first one with effort "none", raises KeyboardInterrupt as soon as
        the call or the compilation under way has ended. Whole networks are timed in this process,
        so a network that crashes ends this process. The file `output` is written before that.
        Raises the exceptions of tilewright.errors. Other threads continue meanwhile, and may use
        `db`. """
        given = options.checked("tune", {"target": target, "budget": budget, "trials": trials, "effort": effort,
                                         "threads": threads, "seed": seed, "accuracy": accuracy,
                                         "precision": precision, "progress": progress, "on_progress": on_progress})
        written = "" if output is None else options.path("tune", "output", output)
        return self._run("tune", written, db, given)[0]

    def refresh(self, output: str | os.PathLike[str], *, db: Database = None, target: str = "host",
                budget: float | str = 60, threads: int = 1, accuracy: str = "fast", precision: str = "f32",
                progress: bool | None = None, on_progress: OnProgress = None) -> Refreshed:
        """Plans the network again with the kernels that the database has now, and replaces the file if the new network
        is faster.

        No kernel is tuned. `tilewright tune --model --refresh` does the same (docs/cli.md, "Demand").

        Args:
          output: the file that tune() wrote; if it does not exist, it is created.
          budget: seconds, or text such as "5m", for timing whole networks.
          db, target, threads, accuracy, precision, progress, on_progress: as in tune().

        Raises the exceptions of tilewright.errors, for example InvalidError if the file has another network. The file
        is then not changed.
        """
        given = options.checked("refresh", {"target": target, "budget": budget, "threads": threads,
                                            "accuracy": accuracy, "precision": precision, "progress": progress,
                                            "on_progress": on_progress})
        model, compared = self._run("refresh", options.path("refresh", "output", output), db,
                                    {**given, "refresh": True})
        if compared is None:
            return Refreshed(model)
        former_ns, latency_ns, is_measured, is_kept, reason = compared
        return Refreshed(model, is_kept, former_ns, latency_ns, is_measured, reason)

    def _run(self, verb: str, output: str, db: Database,
             given: dict[str, Any]) -> tuple[_tilewright.Model, tuple[float, float, bool, bool, str] | None]:
        store = options.store(verb, db, measures=given.get("effort", "none") != "none")
        hear, finish = progress_.listener(given.pop("progress"), given.pop("on_progress"), self.name)
        try:
            return _tilewright._tune_network(self.name, self._variants, store, output=output, on_progress=hear,
                                             **given)
        finally:
            finish()


def load(path: str | os.PathLike[str], dimensions: Mapping[str, Dimension] | None = None,
         constants: Mapping[str, Constant] | None = None) -> Network:
    """Reads an ONNX file.

    Args:
      dimensions: values of the symbolic dimensions by name, or as "x.0" for dimension 0 of the input x. If a dimension
        has several values, as in {"batch": [1, 8]}, the network has a variant for each value.
      constants: inputs that become constants, with their values, as in {"sr": 16000}. A value is a number, a sequence
        of the elements in row-major order, or an array of NumPy.

    Raises MachineError if the file cannot be read, InvalidError if it is no valid model, and UsageError if a dimension
    has no value or a name is not in the model. If operators are not implemented, raises UnsupportedError, which lists
    these operators.
    Warns about faults of the model that can be ignored.
    """
    file, pinned = options.path("network", "path", path), _pinned(constants)
    return Network(pathlib.Path(file).stem, [(values, _tilewright.read_onnx(file, values, pinned))
                                             for values in _combinations(dimensions)])


def loads(model: bytes | _Serializable, dimensions: Mapping[str, Dimension] | None = None,
          constants: Mapping[str, Constant] | None = None, *, name: str = "network") -> Network:
    """Does the same as load(), for the bytes of a model or for an onnx.ModelProto. The model must
    not have external data.

    Args:
      name: the name of the network in displays, in the database and in the file that tune() writes.
    """
    content, pinned = _bytes_of(model), _pinned(constants)
    return Network(options.text("network", "name", name), [(values, _tilewright.parse_onnx(content, values, pinned))
                                                           for values in _combinations(dimensions)])


def standing(name: str) -> Network:
    """Makes a standing network, such as standing("squeezenet"), by the scripts of a checkout (bench/models), with
    seeded weights and without downloads.

    Needs the package `onnx`. Raises MachineError if the scripts are missing, as in an installed package, and UsageError
    if they have no network of this name.
    """
    script = pathlib.Path(paths.program()).resolve().parents[3] / "bench" / "models" / "make_models.py"
    if not script.is_file():
        raise errors.MachineError(f"[network] {name!r}: {script} makes standing networks and is not there; "
                                  "work in a checkout, or load() an ONNX file")
    with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
        made = pathlib.Path(folder, "network.onnx")
        done = subprocess.run([sys.executable, str(script), name, "-o", str(made)], capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip().rpartition("\n")[2]
            raise errors.UsageError(f"[network] the standing network {name!r} cannot be made: {said}")
        return loads(made.read_bytes(), name=name)


def _bytes_of(model: bytes | _Serializable) -> bytes:
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    if not hasattr(model, "SerializeToString"):
        options.refuse_type("network", "model", model, "the bytes of a model, or an onnx.ModelProto")
    return model.SerializeToString()


def _by_name(argument: str, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Returns the values of an argument by their names. Raises TypeError if it is no mapping of
    names."""
    given = {} if values is None else values
    if not isinstance(given, Mapping):
        options.refuse_type("network", argument, given, "a dict")
    for name in given:
        options.text("network", f"a name in {argument}", name)
    return given


def _elements(value: Any) -> list[Any]:
    """Returns the elements of a sequence, or of a NumPy array of numbers in row-major order. For
    another value, returns a list with the value alone."""
    if hasattr(value, "reshape") and getattr(getattr(value, "dtype", None), "kind", None) in _KINDS_OF_NUMBERS:
        return list(value.reshape(-1).tolist())
    return list(value) if isinstance(value, Sequence) and not isinstance(value, (str, bytes)) else [value]


def _numbers(name: str, value: Any, kind: type, expected: str) -> list[Any]:
    """Returns the elements of the value. Raises UsageError if an element is not of the kind."""
    elements = _elements(value)
    for element in elements:
        if not isinstance(element, kind):
            given = f"an array of {element.dtype}" if hasattr(element, "dtype") else options.shown(element)
            raise errors.UsageError(f"[network] {name}: expected {expected}, or several, not {given}")
    return elements


def _several(name: str, values: Dimension) -> list[int]:
    several = _numbers(f"dimension {name!r}", values, numbers.Integral, "a whole number")
    if not several:
        raise errors.UsageError(f"[network] dimension {name!r}: expected a whole number, or several, not none")
    return [options.whole("network", f"dimension {name!r}", value, 0, 2**63 - 1) for value in several]


def _pinned(constants: Mapping[str, Constant] | None) -> dict[str, list[float]]:
    return {name: [_exact(name, element)
                   for element in _numbers(f"constant {name!r}", value, numbers.Real, "a number")]
            for name, value in _by_name("constants", constants).items()}


def _exact(name: str, element: float) -> float:
    """Returns the element as a float. Raises UsageError for a whole number that no float equals."""
    try:
        number = float(element)
    except OverflowError:
        number = math.inf
    if isinstance(element, numbers.Integral) and number != operator.index(element):
        raise errors.UsageError(f"[network] constant {name!r}: {element} would be rounded: expected whole numbers below "
                                "2**53")
    return number


def _combinations(dimensions: Mapping[str, Dimension] | None) -> list[dict[str, int]]:
    given = _by_name("dimensions", dimensions)
    return [dict(zip(given, values)) for values in itertools.product(*itertools.starmap(_several, given.items()))]
