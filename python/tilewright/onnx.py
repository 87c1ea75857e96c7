# SPDX-License-Identifier: Apache-2.0
"""Networks from ONNX models: read here, tuned by the program, called as a Model.

    network = tw.onnx.load("resnet18.onnx", dimensions={"batch": 1})
    model = network.tune(budget=60)
    scores = model(image)

The package `onnx` is not needed.
"""
from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Union

from tilewright import _tilewright, errors, options, paths

# A value of a symbolic dimension, or several, each of which becomes a variant of the network.
Dimension = Union[int, Sequence[int]]

# The elements of an input that becomes a constant, in row-major order.
Constant = Union[bool, int, float, Sequence[float]]

_CLASSES = {cls.code: cls for cls in (errors.UsageError, errors.UnsupportedError, errors.DatabaseError,
                                      errors.InvalidError, errors.NoCandidateError, errors.MachineError,
                                      errors.NotCompiledError, errors.TryLaterError)}
_INTERRUPTED = 130


@dataclasses.dataclass(frozen=True)
class Refreshed:
    """A network that was planned again, compared with the one that its file held.

    Attributes:
      model: the network that the file holds now, loaded.
      is_kept: whether the file stayed as it was.
      former_ns: ns of a call of the network that the file held; None: there was no file.
      latency_ns: ns of a call of the network as it was planned now; None: there was no file.
      is_measured: whether both were timed, by turns; otherwise they are the times of their plans.
      reason: why the file stayed as it was; empty where the times say it.
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
      graph: the operators of the network, before they are fused; with several values of a dimension,
        for the first of them.
    """

    def __init__(self, graph: _tilewright.Graph, name: str, path: str | None, content: bytes | None,
                 dimensions: Mapping[str, Dimension], constants: Mapping[str, Sequence[float]] | None = None) -> None:
        self.graph = graph
        self.name = name
        self._path, self._content = path, content
        self._dimensions, self._constants = dict(dimensions), dict(constants or {})

    @property
    def inputs(self) -> list[_tilewright.Argument]:
        return self.graph.inputs

    @property
    def outputs(self) -> list[_tilewright.Argument]:
        return self.graph.outputs

    def __repr__(self) -> str:
        return f"<Network {self.name}: {len(self.graph.workloads)} operators>"

    def tune(self, *, output: str | os.PathLike[str] | None = None, db: str | os.PathLike[str] | None = None,
             budget: float | str = 60, trials: int = 0, effort: str = "normal",
             threads: int = 1, seed: int = 1, accuracy: str = "fast",
             precision: str = "f32", progress: bool = True) -> _tilewright.Model:
        """Chooses layouts and kernels of all operators together, for this processor, and returns the
        network, loaded.

        It is what `tilewright tune --model` does (docs/networks.md), by that program.

        Args:
          output: file of the network, which Model.open() and the C interface open; None: none is kept.
          db: path or address of the database; by default that of the program.
          budget: seconds, or text such as "5m"; effort "none" uses records and predictions only, and takes seconds.
          trials: most new trials of each kernel; 0: as many as the budget allows.
          threads: threads that the network will run on.
          accuracy: of each kernel, "fast" or "strict" (docs/design.md, "Accuracy classes").
          precision: "bf16" rounds what products of f32 read, where the machine gains by that (docs/networks.md).
          progress: whether the program shows on standard error what it does.

        An interrupt from the keyboard ends the run with the network that is the best by then; what was
        measured is kept in the database, and the next run goes on from there. A second interrupt ends
        it at once, with a KeyboardInterrupt. Raises the exceptions of tilewright.errors.
        """
        given = options.checked("tune", {"budget": budget, "trials": trials, "effort": effort, "threads": threads,
                                         "seed": seed})
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            made = str(output) if output else os.path.join(folder, f"{self.name}.twart")
            arguments = ["--budget", f"{given['budget']!r}s", "--effort", effort, "--seed", str(given["seed"])]
            if given["trials"]:
                arguments += ["--trials", str(given["trials"])]
            _run_program(["tune", *self._arguments(folder, made, db, given["threads"], accuracy, precision), *arguments],
                         progress)
            return _tilewright.Model.open(made)

    def refresh(self, output: str | os.PathLike[str], *, db: str | os.PathLike[str] | None = None,
                budget: float | str = 60, threads: int = 1, accuracy: str = "fast",
                precision: str = "f32", progress: bool = True) -> Refreshed:
        """Plans the network again with the kernels that the database knows by now, and replaces the file
        where the network is faster so.

        It is what `tilewright tune --model --refresh` does (docs/cli.md, "Demand"): it tunes no kernel.

        Args:
          output: the file that tune() wrote; where there is none, it is written.
          db: path or address of the database; by default that of the program.
          budget: seconds, or text such as "5m", for timing whole networks.
          threads: threads that the network will run on.
          accuracy, precision, progress: as of tune().

        Raises the exceptions of tilewright.errors: InvalidError where the file holds another network,
        which then stays as it is.
        """
        given = options.checked("refresh", {"budget": budget, "threads": threads})
        with tempfile.TemporaryDirectory(prefix="tilewright-") as folder:
            arguments = self._arguments(folder, str(output), db, given["threads"], accuracy, precision)
            said = _run_program(["tune", *arguments, "--refresh", "--budget", f"{given['budget']!r}s",
                                 "--format", "json"], progress)
            return Refreshed(_tilewright.Model.open(str(output)), **json.loads(said).get("refresh", {}))

    def _arguments(self, folder: str, made: str, db: str | os.PathLike[str] | None, threads: object, accuracy: str,
                   precision: str) -> list[str]:
        """The flags of the program that name the network and what is made of it."""
        arguments = ["--model", self._file(folder), "--output", made, "--threads", str(threads),
                     "--accuracy", accuracy, "--precision", precision]
        for name, values in self._dimensions.items():
            arguments += ["--dim", f"{name}={','.join(map(str, _several(name, values)))}"]
        for name, elements in self._constants.items():
            arguments += ["--constant", f"{name}={','.join(map(repr, elements))}"]
        return arguments if db is None else [*arguments, "--db", str(db)]

    def _file(self, folder: str) -> str:
        if self._path is not None:
            return self._path
        assert self._content is not None
        path = pathlib.Path(folder, f"{self.name}.onnx")
        path.write_bytes(self._content)
        return str(path)


def load(path: str | os.PathLike[str], dimensions: Mapping[str, Dimension] | None = None,
         constants: Mapping[str, Constant] | None = None) -> Network:
    """Reads an ONNX file.

    Args:
      dimensions: values of the symbolic dimensions by name, or as "x.0" for dimension 0 of the input x;
        of several values, as in {"batch": [1, 8]}, each becomes a variant of the network.
      constants: inputs that become constants, as in {"sr": 16000}: the number, or the elements in
        row-major order.

    Raises MachineError where the file cannot be read, InvalidError where it is no valid model, UsageError
    where a dimension has no value or a name is not in the model, UnsupportedError, which lists all of
    them, where operators are not implemented. Warns of faults of the model that it passes over.
    """
    given, pinned = dict(dimensions or {}), _pinned(constants)
    graphs = [_tilewright.read_onnx(str(path), values, pinned) for values in _combinations(given)]
    return Network(graphs[0], pathlib.Path(path).stem, os.path.abspath(path), None, given, pinned)


def loads(model: bytes, name: str = "network", dimensions: Mapping[str, Dimension] | None = None,
          constants: Mapping[str, Constant] | None = None) -> Network:
    """The same for the bytes of a model, which has no external data."""
    given, pinned = dict(dimensions or {}), _pinned(constants)
    graphs = [_tilewright.parse_onnx(model, values, pinned) for values in _combinations(given)]
    return Network(graphs[0], name, None, model, given, pinned)


def standing(name: str) -> Network:
    """One of the networks that the scripts of a checkout make (bench/models), with seeded weights and without
    downloads: standing("squeezenet").

    Needs the package `onnx`. Raises MachineError where the scripts are missing, as in an installed package, and
    UsageError where they know no network of this name.
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
        return loads(made.read_bytes(), name)


def _several(name: str, values: Dimension) -> Sequence[int]:
    several = [values] if not isinstance(values, Sequence) else list(values)
    if not several or not all(isinstance(value, int) for value in several):
        raise errors.UsageError(f"[network] dimension {name!r}: expected a whole number, or several, not {values!r}")
    return several


def _pinned(constants: Mapping[str, Constant] | None) -> dict[str, list[float]]:
    pinned = {}
    for name, value in (constants or {}).items():
        elements = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        if not all(isinstance(element, (int, float)) for element in elements):
            raise errors.UsageError(f"[network] constant {name!r}: expected a number, or several, not {value!r}")
        pinned[name] = [float(element) for element in elements]
    return pinned


def _combinations(dimensions: Mapping[str, Dimension]) -> list[dict[str, int]]:
    return [dict(zip(dimensions, values)) for values in itertools.product(*itertools.starmap(_several, dimensions.items()))]


def _run_program(arguments: list[str], progress: bool) -> str:
    """Runs a verb of the program, and shows what it says on standard error. Returns what it printed; raises the
    exception of its exit code with its message. An interrupted run that prints its result all the same has one."""
    environment = {**os.environ, "TILEWRIGHT_CODE_GENERATOR": paths.code_generator()}
    with tempfile.TemporaryFile() as result:
        with subprocess.Popen([paths.program(), *arguments], env=environment, stdin=subprocess.DEVNULL,
                              stdout=result, stderr=subprocess.PIPE, text=True, errors="replace",
                              process_group=0) as process:
            said = _watch(process, progress)
        result.seek(0)
        printed = result.read().decode(errors="replace")
    if process.returncode == _INTERRUPTED and printed:
        return printed
    if process.returncode in (_INTERRUPTED, -signal.SIGINT):  # the latter before it watches for interrupts
        raise KeyboardInterrupt
    if process.returncode != 0:
        message = said.rpartition("tilewright: [")[2]
        cls = _CLASSES.get(process.returncode, errors.InternalError)
        raise cls(errors.in_arguments("[" + message.strip()) if message else f"the program ended with exit code {process.returncode}")
    return printed


def _watch(process: subprocess.Popen[str], shown: bool) -> str:
    """Waits until the program ends, and returns its standard error. If `shown`, prints its lines meanwhile,
    except the first line of an error. Passes each interrupt (KeyboardInterrupt) on to the program: after the
    first one it writes what it has and ends, and after the second one it ends at once."""
    assert process.stderr is not None
    said = []
    while True:
        try:
            for line in process.stderr:
                said.append(line)
                if shown and not line.startswith("tilewright: ["):
                    print(line, end="", file=sys.stderr, flush=True)
            process.wait()
            return "".join(said)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
