# SPDX-License-Identifier: Apache-2.0
"""Makes kernels of Python functions that declare tensors. Each combination of shapes is a separate workload."""
from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import tilewright
from tilewright import _tilewright, errors, options as options_
from tilewright._tilewright import Kernel, Progress, Tensor, Tuned, Workload

if TYPE_CHECKING:
    from typing import Unpack

    from tilewright import Database, TuningOptions

_Signature = tuple[tuple[tuple[int, ...], Any], ...]  # shape and element type of each array
_Declaration = Callable[..., "Tensor | tuple[Tensor, ...]"]

# A process may run only one tune() at a time, even one that only asks the database. So loads wait for each other.
_loading = threading.Lock()


def _renew_lock() -> None:
    global _loading
    _loading = threading.Lock()


# In a child process, the thread that holds the old lock may not exist.
os.register_at_fork(after_in_child=_renew_lock)


_OPTIONS = ("target", "budget", "trials", "effort", "search", "seed", "threads", "timeout", "schedule")


class _Loaded(NamedTuple):
    """A kernel, and for each of its inputs the parameter of the function. Inputs are in the order in which the
    declaration reads them."""
    kernel: Kernel
    order: list[int]


class KernelFunction:
    """A function that declares a tensor and can be called on arrays. kernel() makes it.

    The first call with arrays of a shape loads the best kernel that the database knows for this shape; later calls run
    this kernel. Calls are thread-safe.
    """

    def __init__(self, function: _Declaration, *, weights: Iterable[str] = (), db: Database = None,
                 target: str = "host", threads: int = 1, accuracy: str = "fast") -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._names = list(inspect.signature(function).parameters)
        self._weights = frozenset(weights)
        if unknown := self._weights.difference(self._names):
            raise TypeError(f"{function.__name__}(): weights names {sorted(unknown)}, which are no parameters")
        self._db, self._target, self._threads, self._accuracy = db, target, threads, accuracy
        self._kernels: dict[_Signature, _Loaded] = {}

    def workload(self, *arrays: Any, **named: Any) -> Workload:
        """Returns the workload of the function for arrays of these shapes and types. The elements
        of the arrays are not used."""
        return self._declared(self._signature_of(self._in_order(arrays, named)))

    def tune(self, *arrays: Any, progress: bool | None = None, on_progress: Callable[[Progress], object] | None = None,
             **options: Unpack[TuningOptions]) -> Tuned:
        """Tunes for the shapes and types of these arrays, and returns a Tuned. Named arguments are options of
        tilewright.tune(), or parameters of the function. Later calls run the kernel of the Tuned, unless `target` or
        `threads` is given and differs from that of kernel()."""
        others: dict[str, Any] = dict(options)
        named = {name: others.pop(name) for name in self._names if name in others and name not in _OPTIONS}
        options_.check_names(f"{self._function.__name__}.tune", others,
                             [*self._names, "progress", "on_progress", *_OPTIONS])
        signature = self._signature_of(self._in_order(arrays, named))
        given: Any = {"target": self._target, "threads": self._threads, **others}
        tuned = tilewright.tune(self._declared(signature), db=self._db, progress=progress, on_progress=on_progress,
                                **given)
        if given["target"] == self._target and given["threads"] == self._threads:
            self._kernels[signature] = self._loaded(tuned.kernel())
        return tuned

    def kernel(self, *arrays: Any, **named: Any) -> Kernel:
        """Returns the best known kernel for the shapes and types of these arrays. Raises
        NoCandidateError if the database knows none. The kernel's inputs are in the order in which
        the declaration reads them. This order may differ from that of the parameters; `[a.name for
        a in kernel.arguments]` shows it."""
        return self._kernel_for(self._signature_of(self._in_order(arrays, named))).kernel

    def __call__(self, *arrays: Any, out: Any = None, threads: int | None = None, **named: Any) -> Any:
        """Runs the kernel for these arrays, which are given in the order of the function's parameters or by name.
        Otherwise calls are like those of a Kernel. Arrays of parameters that the function does not read must be given
        too, but their elements are not used."""
        if named:
            arrays = self._in_order(arrays, named)
        loaded = self._kernel_for(self._signature_of(arrays))
        return loaded.kernel(*[arrays[i] for i in loaded.order], out=out, threads=threads)

    def __repr__(self) -> str:
        return f"<kernel {self._function.__name__}({', '.join(self._names)})>"

    def _in_order(self, arrays: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Returns the arrays that were given by position and by name, in the order of the
        parameters."""
        if not named:
            return arrays
        name = self._function.__name__
        options_.check_names(name, named, self._names)
        for given in self._names[:len(arrays)]:
            if given in named:
                raise TypeError(f"{name}(): '{given}' is given by position and by name")
        rest = self._names[len(arrays):]
        for missing in rest:
            if missing not in named:
                raise TypeError(f"{name}(): array '{missing}' is missing: expected {', '.join(self._names)}")
        return arrays + tuple(named[parameter] for parameter in rest)

    def _signature_of(self, arrays: tuple[Any, ...]) -> _Signature:
        if len(arrays) != len(self._names):
            raise TypeError(f"{self._function.__name__}(): expected {len(self._names)} arrays "
                            f"({', '.join(self._names)}), got {len(arrays)}")
        try:
            return tuple([(array.shape, array.dtype) for array in arrays])
        except AttributeError:
            for name, array in zip(self._names, arrays):
                if not hasattr(array, "shape") or not hasattr(array, "dtype"):
                    raise TypeError(f"{self._function.__name__}(): '{name}': expected an array with shape and "
                                    f"dtype, got {type(array).__name__}") from None
            raise

    def _loaded(self, kernel: Kernel) -> _Loaded:
        inputs = [argument.name for argument in kernel.arguments if not argument.is_output]
        return _Loaded(kernel, [self._names.index(name) for name in inputs])

    def _kernel_for(self, signature: _Signature) -> _Loaded:
        loaded = self._kernels.get(signature)
        if loaded is not None:
            return loaded
        with _loading:
            if signature not in self._kernels:
                self._kernels[signature] = self._loaded(self._known(signature).kernel())
            return self._kernels[signature]

    def _known(self, signature: _Signature) -> Tuned:
        """Returns the best kernel that the database knows. If it knows none, raises NoCandidateError with the call
        that tunes."""
        workload = self._declared(signature)
        try:
            return tilewright.tune(workload, db=self._db, target=self._target, threads=self._threads, effort="none",
                                   progress=False)
        except errors.NoCandidateError:
            name = self._function.__name__
            raise errors.NoCandidateError(
                f"[{name}] the database has no kernel of {str(workload)!r} for this target and threads={self._threads}: "
                f"tune it first by {name}.tune({', '.join(self._names)})") from None

    def _declared(self, signature: _Signature) -> Workload:
        tensors = [self._parameter(name, shape, dtype)
                   for name, (shape, dtype) in zip(self._names, signature)]
        outputs = self._function(*tensors)
        several = outputs if isinstance(outputs, tuple) else (outputs,)
        for output in several:
            if not isinstance(output, Tensor):
                raise TypeError(f"{self._function.__name__}(): returned {type(output).__name__}; expected the "
                                "tensor that tilewright.compute() makes, or a tuple of several")
        return _tilewright.workload(list(several), accuracy=self._accuracy)

    def _parameter(self, name: str, shape: tuple[int, ...], dtype: Any) -> Tensor:
        axes = [_tilewright.Axis(f"{name}_{i}", extent) for i, extent in enumerate(shape)]
        declare = _tilewright.weight if name in self._weights else _tilewright.input
        try:
            return declare(name, str(dtype).rpartition(".")[2], axes)  # "float32" of PyTorch's "torch.float32"
        except TypeError as error:
            raise TypeError(f"{self._function.__name__}(): '{name}': {error}") from None


@overload
def kernel(function: _Declaration) -> KernelFunction: ...
@overload
def kernel(*, weights: Iterable[str] = (), db: Database = None, target: str = "host", threads: int = 1,
           accuracy: str = "fast") -> Callable[[_Declaration], KernelFunction]: ...
def kernel(function: _Declaration | None = None, **options: Any) -> Any:
    """Makes a kernel of a function that declares a tensor from its parameters, which are tensors:

        @tw.kernel(weights=["b"])
        def product(a, b):
            (m, k), (_, n) = a.axes, b.axes
            return tw.compute("c", [m, n], tw.sum(k, a[m, k] * b[k, n]))

        product.tune(x, y, budget=10)       # for the shapes and types of these arrays
        z = product(x, y)                   # the best kernel that the database knows for them

    Args:
      weights: names of parameters whose arrays are constant, so that they may be packed once.
      db: a Store, or the path of a database; by default the program's database.
      target, threads: as in tune().
      accuracy: as in workload().
    """
    options_.check_names("kernel", options, ["weights", "db", "target", "threads", "accuracy"])
    if function is None:
        return functools.partial(KernelFunction, **options)
    return KernelFunction(function, **options)
