# SPDX-License-Identifier: Apache-2.0
"""Inference of PyTorch models: torch.compile(model, backend="tilewright").

    model.eval()
    compiled = torch.compile(model, backend="tilewright", dynamic=False)
    with torch.no_grad():
        scores = compiled(image)

A graph of ATen operators is split. Pieces that Tilewright implements become networks, whose layouts
and kernels are chosen together; PyTorch runs the rest. Parameters and buffers become constants. If
they change, the piece is built again. Arrays are passed without copies (DLPack). If the inputs of a
piece have a NaN, PyTorch runs the call, because kernels may ignore a NaN that ATen passes on.
Graphs that need gradients or have symbolic shapes are left to PyTorch; the logger
`tilewright.torch` gets each reason once. Imports torch. """
from __future__ import annotations

import collections
import logging
import math
import operator
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from tilewright import aten, errors, onnx

_log = logging.getLogger("tilewright.torch")
_told: set[str] = set()

# A process can tune only one network at a time, so threads that compile pieces wait for each other.
_tuning_turn = threading.Lock()


def _renew_turn() -> None:
    global _tuning_turn
    _tuning_turn = threading.Lock()


# In a child process, the thread that holds the old lock may not exist.
os.register_at_fork(after_in_child=_renew_turn)

# A piece becomes a network only if it has at least one of these operators. PyTorch runs other pieces.
_HEAVY = {aten.aten.convolution.default, aten.aten.mm.default, aten.aten.addmm.default, aten.aten.bmm.default}
_MOST_BYTES = 2**31 - 1  # limit of a protobuf message


def backend(module: GraphModule, example_inputs: Sequence[Any], *,
            options: Mapping[str, Any] | None = None) -> Callable[..., Any]:
    """The back end: torch.compile(model, backend="tilewright", options={"effort": "quick", "budget": 120}).

    Options are those of tilewright.onnx.Network.tune(). The default of effort is "none", which plans within seconds
    from the database and the cost model, and that of threads is torch.get_num_threads().
    """
    tuning = {"effort": "none", "progress": False, "threads": torch.get_num_threads(), **(options or {})}
    reason = _why_eager(example_inputs)
    if reason:
        _tell_once(f"{reason}: left to PyTorch")
        return module.forward
    constants = {number: value for number, value in enumerate(example_inputs) if _is_constant(module, number, value)}

    def compile_graph(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        numbers = constants if len(inputs) == len(example_inputs) else {}
        with unset_fake_temporarily():  # constants are real tensors
            return make_boxed_func(_compiled(graph, numbers, tuning).forward)

    return aot_autograd(fw_compiler=compile_graph, decompositions=aten.DECOMPOSITIONS)(module, example_inputs)


def _why_eager(example_inputs: Sequence[Any]) -> str:
    """Returns the reason why PyTorch must run the whole graph, or "" if there is none."""
    if any(isinstance(value, torch.SymInt) for value in example_inputs):
        return "the graph has symbolic shapes (torch.compile(..., dynamic=False) makes one for each shape)"
    if torch.is_grad_enabled() and any(getattr(value, "requires_grad", False) for value in example_inputs):
        return "the graph needs gradients (call it under torch.no_grad())"
    return ""


def _is_constant(module: GraphModule, number: int, value: Any) -> bool:
    """True if input `number` of the graph, with this value, is a parameter or a buffer of the model."""
    placeholder = module.graph.find_nodes(op="placeholder")[number]
    marks = placeholder.meta.get("tensor_dict") or {}
    return isinstance(value, torch.nn.Parameter) or "_dynamo_static_input_type" in marks


def _tell_once(message: str) -> None:
    if message not in _told:
        _told.add(message)
        _log.warning("tilewright: %s", message)


class _Support(OperatorSupportBase):
    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return aten.why_unsupported(node) == ""


def _compiled(graph: GraphModule, constants: Mapping[int, torch.Tensor], tuning: Mapping[str, Any]) -> GraphModule:
    """Returns the graph with its supported pieces replaced by networks."""
    _tell_unsupported(graph)
    partitioner = CapabilityBasedPartitioner(graph, _Support(), allows_single_node_partition=True)
    pieces = [piece for piece in partitioner.propose_partitions()
              if any(node.target in _HEAVY for node in piece.nodes)]
    split = partitioner.fuse_partitions(pieces, prefix="tilewright_")
    number_of = {node: number for number, node in enumerate(split.graph.find_nodes(op="placeholder"))}
    for call in split.graph.find_nodes(op="call_module"):
        fixed = {place for place, node in enumerate(call.args) if number_of.get(node) in constants}
        values = {place: constants[number_of[call.args[place]]] for place in fixed}
        setattr(split, call.target, _Piece(getattr(split, call.target), values, tuning))
    split.recompile()
    return split


def _tell_unsupported(graph: GraphModule) -> None:
    calls = [node for node in graph.graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    reasons = collections.Counter(f"{node.target} ({reason})" for node in calls
                                  if (reason := aten.why_unsupported(node)))
    if reasons:
        _tell_once("left to PyTorch: " + ", ".join(f"{count} x {name}" for name, count in sorted(reasons.items())))


class _Stamp:
    """Address and version of a constant at the time when a network was built with it. Keeps the memory of the
    constant alive, so that no other tensor can get its address."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._memory = tensor.untyped_storage()
        self._place = tensor.data_ptr()
        self._version = 0 if tensor.is_inference() else tensor._version

    def is_of(self, tensor: torch.Tensor) -> bool:
        """True if the tensor is still the constant and was not written to. False for any tensor of inference
        mode, because writes to it are not counted."""
        return not tensor.is_inference() and (tensor.data_ptr(), tensor._version) == (self._place, self._version)


class _Piece(torch.nn.Module):
    """A piece of a graph that runs as a network. The network is rebuilt when its constants have changed. A
    constant that changes a second time becomes an input."""

    def __init__(self, module: GraphModule, constants: Mapping[int, torch.Tensor], tuning: Mapping[str, Any]) -> None:
        super().__init__()
        # The module is in a list, because a module in an attribute would become a submodule.
        self._source = [module]
        self._tuning = tuning
        self._results = [node.meta["val"] for node in aten.results_of(module)]
        self._is_single = isinstance(module.graph.output_node().args[0], Node)
        self._changes = dict.fromkeys(constants, 0)
        self._build(constants)

    def _build(self, constants: Mapping[int, torch.Tensor]) -> None:
        """Builds the network. The keys of `constants` are their indices among the arguments of the
        piece."""
        self._made_of = {place: _Stamp(tensor) for place, tensor in constants.items()}
        self._network = None
        if any(map(_has_nan, constants.values())):
            _tell_once("left to PyTorch: a piece whose constants have a NaN")
            return
        model = aten.to_onnx(self._source[0], constants)
        if len(model) > _MOST_BYTES:
            _tell_once("left to PyTorch: a piece whose weights are larger than 2 GiB")
            return
        try:
            network = onnx.loads(model, name="torch")
        except errors.UnsupportedError as error:
            _tell_once(f"left to PyTorch: {error}")
            return
        with _tuning_turn:
            self._network = network.tune(**self._tuning)
        self._places = [int(argument.name.removeprefix("x")) for argument in network.inputs]

    def forward(self, *arrays: torch.Tensor) -> Any:
        changed = [place for place, stamp in self._made_of.items() if not stamp.is_of(arrays[place])]
        if changed:
            for place in changed:
                self._changes[place] += 1
            self._build({place: arrays[place] for place in self._made_of if self._changes[place] < 2})
        if self._network is None or any(_has_nan(arrays[place]) for place in self._places):
            return self._source[0](*arrays)
        outputs = tuple(map(_new_like, self._results))
        self._network(*(arrays[place].detach().resolve_neg() for place in self._places), out=outputs)
        return outputs[0] if self._is_single else outputs


def _has_nan(tensor: torch.Tensor) -> bool:
    """True if an element is NaN. The sum is computed first, because it needs one pass and no
    memory, and is NaN if an element is."""
    return tensor.is_floating_point() and math.isnan(tensor.sum().item()) and bool(tensor.isnan().any())


def _new_like(traced: torch.Tensor) -> torch.Tensor:
    """Returns a new tensor with the strides that PyTorch would give it, because later views may
    depend on them."""
    if 0 in traced.stride():
        return torch.empty(traced.shape, dtype=traced.dtype)
    return torch.empty_strided(traced.shape, traced.stride(), dtype=traced.dtype)
