# SPDX-License-Identifier: Apache-2.0
"""Converts graphs of PyTorch's ATen operators to ONNX models. A table has the ONNX nodes for each operator.
Shapes are those that tracing found. Imports torch."""
from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch.fx import GraphModule, Node

from tilewright import onnx_writer

aten = torch.ops.aten
OPSET = 23

# Tensors of f16 and bf16 are left to PyTorch.
ELEMENT_TYPES = {torch.float32: onnx_writer.FLOAT, torch.float64: onnx_writer.DOUBLE,
                 torch.int8: onnx_writer.INT8, torch.uint8: onnx_writer.UINT8,
                 torch.int16: onnx_writer.INT16, torch.uint16: onnx_writer.UINT16,
                 torch.int32: onnx_writer.INT32, torch.uint32: onnx_writer.UINT32,
                 torch.int64: onnx_writer.INT64, torch.bool: onnx_writer.BOOL}


class Unsupported(Exception):
    """A node cannot be expressed by ONNX operators that Tilewright implements."""


class Writer:
    """The ONNX nodes and constants of a graph while it is converted."""

    def __init__(self) -> None:
        self.nodes: list[bytes] = []
        self.initializers: list[bytes] = []
        self._names: dict[Node, str | list[str]] = {}
        self._count = 0

    def emit(self, op: str, inputs: Sequence[str], outputs: int | None = None, **attributes):
        """Adds a node. Returns the name of its output, or a list of names if `outputs` is given."""
        names = [self._new_name() for _ in range(outputs or 1)]
        self.nodes.append(onnx_writer.node(op, inputs, names, **attributes))
        return names[0] if outputs is None else names

    def constant(self, values, dtype: torch.dtype = torch.int64) -> str:
        return self.initializer(torch.tensor(values, dtype=dtype))

    def initializer(self, tensor: torch.Tensor) -> str:
        name = self._new_name()
        data = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        self.initializers.append(onnx_writer.tensor(name, ELEMENT_TYPES[tensor.dtype], tensor.shape, data))
        return name

    def bind(self, node: Node, names: str | list[str]) -> None:
        self._names[node] = names

    def names_of(self, node: Node) -> str | list[str]:
        """Returns the name of a node's tensor, or a list of names if the node returns several
        tensors. A node that was not converted gets a name here, because why_unsupported() converts
        a node without the nodes that it reads."""
        return self._names.setdefault(node, f"arg_{node.name}")

    def tensor(self, argument, dtype: torch.dtype | None = None) -> str:
        """Returns the name of an argument's tensor: the tensor of a node, converted to `dtype`, or
        a constant for a number."""
        if not isinstance(argument, Node):
            if not isinstance(argument, (bool, int, float)) or dtype is None:
                raise Unsupported(f"argument {argument!r}")
            return self.constant(argument, dtype)
        name = self.names_of(argument)
        if not isinstance(name, str):
            raise Unsupported("a tuple as an argument")
        if dtype is None or argument.meta["val"].dtype == dtype:
            return name
        return self.emit("Cast", [name], to=ELEMENT_TYPES[dtype])

    def _new_name(self) -> str:
        self._count += 1
        return f"t{self._count}"


# ---- what nodes and their arguments are ----------------------------------------------------------


def shape_of(node: Node) -> list[int]:
    return list(node.meta["val"].shape)


def _argument(node: Node, position: int, name: str, otherwise=None):
    if len(node.args) > position:
        return node.args[position]
    return node.kwargs.get(name, otherwise)


def _pair(values) -> list[int]:
    several = [values] if isinstance(values, int) else list(values)
    return several * 2 if len(several) == 1 else several


def _axes(node: Node, dims) -> list[int]:
    rank = len(shape_of(node))
    dims = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    if rank == 0 and dims:
        # ATen accepts the axes 0 and -1, ONNX accepts none
        raise Unsupported("an axis of a tensor that has none")
    return [dim % rank for dim in dims]


def _only_first_result(node: Node) -> None:
    if any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
        raise Unsupported("results other than the first")


# ---- the table -----------------------------------------------------------------------------------

Converter = Callable[[Writer, Node], "str | list[str]"]
_CONVERTERS: dict[object, Converter] = {}


def _converts(*targets) -> Callable[[Converter], Converter]:
    def enter(converter):
        _CONVERTERS.update((target, converter) for target in targets)
        return converter
    return enter


def _operand(writer: Writer, node: Node) -> str:
    """Returns the name of the first argument, converted to the type of the result. For example,
    sqrt() of integers gives floats."""
    return writer.tensor(node.args[0], node.meta["val"].dtype)


def _function(op: str, **attributes) -> Converter:
    return lambda writer, node: writer.emit(op, [_operand(writer, node)], **attributes)


def _operation(op: str) -> Converter:
    def convert(writer, node):
        dtype = node.meta["val"].dtype
        if dtype == torch.bool:
            raise Unsupported("arithmetic of truth values")
        a, b = (writer.tensor(argument, dtype) for argument in node.args[:2])
        alpha = _argument(node, 2, "alpha", 1)
        return writer.emit(op, [a, b if alpha == 1 else writer.emit("Mul", [b, writer.constant(alpha, dtype)])])
    return convert


def _comparison(op: str) -> Converter:
    def convert(writer, node):
        a, b = node.args
        dtype = torch.result_type(*(arg.meta["val"] if isinstance(arg, Node) else arg for arg in (a, b)))
        if dtype not in ELEMENT_TYPES:
            raise Unsupported(f"operands of {dtype}")
        if dtype == torch.bool and op != "Equal":
            raise Unsupported("the order of truth values")
        return writer.emit(op, [writer.tensor(a, dtype), writer.tensor(b, dtype)])
    return convert


for _targets, _converter in (
        ((aten.relu.default,), _function("Relu")), ((aten.sigmoid.default,), _function("Sigmoid")),
        ((aten.tanh.default,), _function("Tanh")), ((aten.exp.default,), _function("Exp")),
        ((aten.log.default,), _function("Log")), ((aten.sqrt.default,), _function("Sqrt")),
        ((aten.neg.default,), _function("Neg")), ((aten.abs.default,), _function("Abs")),
        ((aten.erf.default,), _function("Erf")), ((aten.sin.default,), _function("Sin")),
        ((aten.cos.default,), _function("Cos")), ((aten.reciprocal.default,), _function("Reciprocal")),
        ((aten.hardswish.default,), _function("HardSwish")),
        ((aten.hardsigmoid.default,), _function("HardSigmoid", alpha=1 / 6, beta=0.5)),
        ((aten.clone.default, aten.alias.default, aten.detach.default), _function("Identity")),
        ((aten.add.Tensor, aten.add.Scalar), _operation("Add")),
        ((aten.sub.Tensor, aten.sub.Scalar), _operation("Sub")),
        ((aten.mul.Tensor, aten.mul.Scalar), _operation("Mul")),
        ((aten.gt.Tensor, aten.gt.Scalar), _comparison("Greater")),
        ((aten.ge.Tensor, aten.ge.Scalar), _comparison("GreaterOrEqual")),
        ((aten.lt.Tensor, aten.lt.Scalar), _comparison("Less")),
        ((aten.le.Tensor, aten.le.Scalar), _comparison("LessOrEqual")),
        ((aten.eq.Tensor, aten.eq.Scalar), _comparison("Equal")),
        ((aten.maximum.default,), _operation("Max")), ((aten.minimum.default,), _operation("Min"))):
    _CONVERTERS.update((_target, _converter) for _target in _targets)


@_converts(aten.rsub.Scalar)
def _reversed_difference(writer, node):
    if _argument(node, 2, "alpha", 1) != 1:
        raise Unsupported("alpha")
    dtype = node.meta["val"].dtype
    return writer.emit("Sub", [writer.tensor(node.args[1], dtype), writer.tensor(node.args[0], dtype)])


@_converts(aten.div.Tensor, aten.div.Scalar)
def _division(writer, node):
    if not node.meta["val"].dtype.is_floating_point:
        raise Unsupported("division of integers")
    return _operation("Div")(writer, node)


@_converts(aten.pow.Tensor_Scalar)
def _power(writer, node):
    dtype = node.meta["val"].dtype
    if not dtype.is_floating_point:
        raise Unsupported("powers of integers")
    return writer.emit("Pow", [_operand(writer, node), writer.tensor(node.args[1], dtype)])


@_converts(aten.rsqrt.default)
def _reciprocal_root(writer, node):
    return writer.emit("Reciprocal", [writer.emit("Sqrt", [_operand(writer, node)])])


@_converts(aten.silu.default)
def _silu(writer, node):
    x = writer.tensor(node.args[0])
    return writer.emit("Mul", [x, writer.emit("Sigmoid", [x])])


@_converts(aten.gelu.default)
def _gelu(writer, node):
    return writer.emit("Gelu", [writer.tensor(node.args[0])], approximate=node.kwargs.get("approximate", "none"))


@_converts(aten.leaky_relu.default)
def _leaky_relu(writer, node):
    return writer.emit("LeakyRelu", [writer.tensor(node.args[0])], alpha=float(_argument(node, 1, "alpha", 0.01)))


@_converts(aten.hardtanh.default, aten.clamp.default)
def _clip(writer, node):
    dtype = node.meta["val"].dtype
    open_ended = node.target is aten.clamp.default
    low = _argument(node, 1, "min", None if open_ended else -1.0)
    high = _argument(node, 2, "max", None if open_ended else 1.0)
    bounds = ["" if bound is None else writer.constant(bound, dtype) for bound in (low, high)]
    return writer.emit("Clip", [_operand(writer, node), *bounds])


@_converts(aten.where.self)
def _where(writer, node):
    dtype = node.meta["val"].dtype
    condition, a, b = node.args
    return writer.emit("Where", [writer.tensor(condition), writer.tensor(a, dtype), writer.tensor(b, dtype)])


@_converts(aten._to_copy.default)
def _cast(writer, node):
    return writer.emit("Cast", [writer.tensor(node.args[0])], to=ELEMENT_TYPES[node.meta["val"].dtype])


# These operators only change the shape. Tracing knows all shapes, so each becomes an ONNX Reshape.
@_converts(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default,
           aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default)
def _reshape(writer, node):
    return writer.emit("Reshape", [writer.tensor(node.args[0]), writer.constant(shape_of(node))])


@_converts(aten.expand.default)
def _expand(writer, node):
    return writer.emit("Expand", [writer.tensor(node.args[0]), writer.constant(shape_of(node))])


@_converts(aten.permute.default)
def _permute(writer, node):
    return writer.emit("Transpose", [writer.tensor(node.args[0])], perm=_axes(node, node.args[1]))


@_converts(aten.t.default, aten.transpose.int)
def _transpose(writer, node):
    perm = list(range(len(shape_of(node))))
    if len(perm) > 1:
        a, b = node.args[1:3] if node.target is aten.transpose.int else (0, 1)
        perm[a], perm[b] = perm[b], perm[a]
    return writer.emit("Transpose", [writer.tensor(node.args[0])], perm=perm)


@_converts(aten.cat.default)
def _concatenate(writer, node):
    dtype = node.meta["val"].dtype
    return writer.emit("Concat", [writer.tensor(part, dtype) for part in node.args[0]],
                       axis=_axes(node, _argument(node, 1, "dim", 0))[0])


def _sliced(writer, node, axis: int, start: int, end: int, step: int) -> str:
    bounds = [writer.constant([value]) for value in (start, end, axis, step)]
    return writer.emit("Slice", [writer.tensor(node.args[0]), *bounds])


@_converts(aten.slice.Tensor)
def _slice(writer, node):
    axis = _axes(node, _argument(node, 1, "dim", 0))[0]
    start, end = _argument(node, 2, "start", None), _argument(node, 3, "end", None)
    return _sliced(writer, node, axis, start or 0, 2**62 if end is None else end, _argument(node, 4, "step", 1))


@_converts(aten.select.int)
def _select(writer, node):
    source = shape_of(node.args[0])
    axis = node.args[1] % len(source)
    index = node.args[2] % source[axis]
    return writer.emit("Reshape", [_sliced(writer, node, axis, index, index + 1, 1), writer.constant(shape_of(node))])


@_converts(aten.split.Tensor, aten.split_with_sizes.default)
def _split(writer, node):
    axis = _argument(node, 2, "dim", 0) % len(shape_of(node.args[0]))
    sizes = [part.shape[axis] for part in node.meta["val"]]
    return writer.emit("Split", [writer.tensor(node.args[0]), writer.constant(sizes)], len(sizes), axis=axis)


@_converts(aten.constant_pad_nd.default)
def _pad(writer, node):
    rank, pads = len(shape_of(node)), node.args[1]
    if min(pads) < 0:
        raise Unsupported("negative padding")
    before, after = [0] * rank, [0] * rank
    for i in range(len(pads) // 2):  # ATen lists the last dimension first
        before[rank - 1 - i], after[rank - 1 - i] = pads[2 * i], pads[2 * i + 1]
    value = writer.constant(_argument(node, 2, "value", 0), node.meta["val"].dtype)
    return writer.emit("Pad", [writer.tensor(node.args[0]), writer.constant(before + after), value])


@_converts(aten.embedding.default)
def _embedding(writer, node):
    return writer.emit("Gather", [writer.tensor(node.args[0]), writer.tensor(node.args[1])], axis=0)


@_converts(aten.mean.dim, aten.sum.dim_IntList, aten.amax.default, aten.amin.default)
def _reduction(writer, node):
    names = {aten.mean.dim: "ReduceMean", aten.sum.dim_IntList: "ReduceSum", aten.amax.default: "ReduceMax",
             aten.amin.default: "ReduceMin"}
    axes = _axes(node.args[0], _argument(node, 1, "dim", None))
    keeps = bool(_argument(node, 2, "keepdim", False))
    x = _operand(writer, node)
    if node.target is aten.mean.dim and keeps and len(shape_of(node)) == 4 and sorted(axes) == [2, 3]:
        return writer.emit("GlobalAveragePool", [x])
    return writer.emit(names[node.target], [x, writer.constant(axes)], keepdims=int(keeps))


@_converts(aten._softmax.default)
def _softmax(writer, node):
    return writer.emit("Softmax", [_operand(writer, node)], axis=_axes(node, node.args[1])[0])


@_converts(aten.mm.default, aten.bmm.default)
def _product(writer, node):
    return writer.emit("MatMul", [writer.tensor(argument) for argument in node.args])


@_converts(aten.addmm.default)
def _product_and_bias(writer, node):
    bias, a, b = (writer.tensor(argument) for argument in node.args)
    return writer.emit("Gemm", [a, b, bias], alpha=float(node.kwargs.get("alpha", 1)),
                       beta=float(node.kwargs.get("beta", 1)))


@_converts(aten.convolution.default)
def _convolution(writer, node):
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    inputs = [writer.tensor(x), writer.tensor(weight)] + ([] if bias is None else [writer.tensor(bias)])
    attributes = {"strides": list(stride), "pads": list(padding) * 2, "dilations": list(dilation), "group": groups}
    if len(stride) != len(shape_of(x)) - 2:
        raise Unsupported("strides")
    if transposed:
        return writer.emit("ConvTranspose", inputs, output_padding=list(output_padding), **attributes)
    return writer.emit("Conv", inputs, **attributes)


@_converts(aten._native_batch_norm_legit_no_training.default)
def _batch_norm(writer, node):
    _only_first_result(node)
    x, scale, shift, mean, variance, _, epsilon = node.args
    arrays = [writer.tensor(argument) for argument in (x, scale, shift, mean, variance)]
    return [writer.emit("BatchNormalization", arrays, epsilon=epsilon)]


@_converts(aten.native_layer_norm.default)
def _layer_norm(writer, node):
    _only_first_result(node)
    x, normalized, scale, shift, epsilon = node.args
    arrays = [writer.tensor(argument) for argument in (x, scale, shift)]
    return [writer.emit("LayerNormalization", arrays, axis=-len(normalized), epsilon=epsilon)]


def _images(writer, node) -> str:
    """Returns the name of a pooling operator's input. Windows move along its last two axes."""
    if len(shape_of(node.args[0])) != 4:
        raise Unsupported("an image without a batch")
    return writer.tensor(node.args[0])


def _windows(node) -> dict[str, list[int]]:
    kernel = _pair(node.args[1])
    stride = _argument(node, 2, "stride", [])
    padding = _pair(_argument(node, 3, "padding", 0))
    return {"kernel_shape": kernel, "strides": _pair(stride) if stride else kernel, "pads": padding * 2}


@_converts(aten.max_pool2d_with_indices.default)
def _max_pool(writer, node):
    _only_first_result(node)
    return [writer.emit("MaxPool", [_images(writer, node)], dilations=_pair(_argument(node, 4, "dilation", 1)),
                        ceil_mode=int(_argument(node, 5, "ceil_mode", False)), **_windows(node))]


@_converts(aten.avg_pool2d.default)
def _average_pool(writer, node):
    if _argument(node, 4, "ceil_mode", False) or _argument(node, 6, "divisor_override", None) is not None:
        raise Unsupported("ceil_mode or divisor_override")
    return writer.emit("AveragePool", [_images(writer, node)],
                       count_include_pad=int(_argument(node, 5, "count_include_pad", True)), **_windows(node))


@_converts(aten._adaptive_avg_pool2d.default)
def _adaptive_pool(writer, node):
    size, output = shape_of(node.args[0])[-2:], shape_of(node)[-2:]
    if any(extent % count for extent, count in zip(size, output)):
        raise Unsupported("windows of several sizes")
    kernel = [extent // count for extent, count in zip(size, output)]
    return writer.emit("AveragePool", [_images(writer, node)], kernel_shape=kernel, strides=kernel)


@_converts(aten._scaled_dot_product_flash_attention_for_cpu.default)
def _attention(writer, node):
    _only_first_result(node)
    query, mask, scale = node.args[0], node.kwargs.get("attn_mask"), node.kwargs.get("scale")
    if _argument(node, 3, "dropout_p", 0.0):
        raise Unsupported("dropout")
    inputs = [writer.tensor(argument) for argument in node.args[:3]]
    if mask is not None:
        inputs.append(writer.tensor(mask))
    options = {"is_causal": int(_argument(node, 4, "is_causal", False))}
    if scale is not None and scale != shape_of(query)[-1]**-0.5:
        options["scale"] = float(scale)
    return [writer.emit("Attention", inputs, **options)]


# Operators that make tensors of known elements, such as those from which masks are computed.
@_converts(aten.full.default, aten.ones.default, aten.zeros.default, aten.scalar_tensor.default,
           aten.full_like.default, aten.ones_like.default, aten.zeros_like.default)
def _filled(writer, node):
    names = {aten.ones.default: 1, aten.ones_like.default: 1, aten.zeros.default: 0, aten.zeros_like.default: 0}
    position = 0 if node.target is aten.scalar_tensor.default else 1
    value = names.get(node.target, None)
    made = node.meta["val"]
    element = node.args[position] if value is None else value
    if isinstance(element, Node):
        raise Unsupported("elements that are known when it runs")
    return writer.initializer(torch.full(tuple(made.shape), element, dtype=made.dtype))


@_converts(aten.tril.default, aten.triu.default)
def _triangle(writer, node):
    rows, columns = shape_of(node)[-2:]
    ones, diagonal = torch.ones(rows, columns, dtype=torch.bool), _argument(node, 1, "diagonal", 0)
    kept = ones.tril(diagonal) if node.target is aten.tril.default else ones.triu(diagonal)
    dtype = node.meta["val"].dtype
    if dtype == torch.bool:
        return writer.emit("And", [writer.tensor(node.args[0]), writer.initializer(kept)])
    return writer.emit("Where", [writer.initializer(kept), writer.tensor(node.args[0]), writer.constant(0, dtype)])


@_converts(aten.masked_fill.Scalar)
def _masked_fill(writer, node):
    x, mask, value = node.args
    return writer.emit("Where", [writer.tensor(mask), writer.constant(value, node.meta["val"].dtype), writer.tensor(x)])


@_converts(aten.logical_not.default, aten.bitwise_not.default)
def _not(writer, node):
    if node.args[0].meta["val"].dtype != torch.bool:
        raise Unsupported("operands that are no truth values")
    return writer.emit("Not", [writer.tensor(node.args[0])])


@_converts(aten.logical_and.default, aten.bitwise_and.Tensor, aten.logical_or.default, aten.bitwise_or.Tensor)
def _logical(writer, node):
    if any(argument.meta["val"].dtype != torch.bool for argument in node.args):
        raise Unsupported("operands that are no truth values")
    is_and = node.target in (aten.logical_and.default, aten.bitwise_and.Tensor)
    return writer.emit("And" if is_and else "Or", [writer.tensor(argument) for argument in node.args])


@_converts(operator.getitem)
def _item(writer, node):
    source, index = node.args
    if source.target not in _CONVERTERS or source.target is operator.getitem:
        raise Unsupported("an item of what is not converted")
    names = writer.names_of(source)
    return names[index] if isinstance(names, list) else names


# ---- operators that are decomposed --------------------------------------------------------------


def _hidden_keys(mask, mask_type, batch, heads, queries, keys):
    """Returns the mask of nn.MultiheadAttention's fast path as truth values that broadcast over
    [batch, head, query, key]. True hides the key from the query. In a mask of floats, all elements
    other than 0 hide keys."""
    hidden = mask.to(torch.bool)
    if mask_type == 1:
        return hidden.view(batch, 1, 1, keys)
    if mask_type == 0:
        return hidden.view(1, 1, queries, keys)
    return hidden.expand(batch, heads, queries, keys)


def _multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias,
                          mask=None, need_weights=True, average_attn_weights=True, mask_type=None):
    batch, queries, _ = query.shape
    keys, size = key.shape[1], embed_dim // num_head
    if query is key and key is value:
        parts = torch.nn.functional.linear(query, qkv_weight, qkv_bias).view(batch, queries, 3, num_head, size)
        q, k, v = (parts.permute(2, 0, 3, 1, 4)[i] for i in range(3))
    else:
        weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
        q, k, v = (torch.nn.functional.linear(x, weight, bias).view(batch, x.shape[1], num_head, size).transpose(1, 2)
                   for x, weight, bias in zip((query, key, value), weights, biases))
    scores = None if mask is None else torch.zeros((), dtype=q.dtype).masked_fill(
        _hidden_keys(mask, mask_type, batch, num_head, queries, keys), float("-inf"))
    if need_weights:
        products = q @ k.transpose(-1, -2) * size**-0.5
        weights = torch.softmax(products if scores is None else products + scores, -1)
        mixed = weights @ v
        shown = weights.mean(1) if average_attn_weights else weights
    else:
        mixed, shown = torch.nn.functional.scaled_dot_product_attention(q, k, v, scores), query.new_empty(0)
    joined = mixed.transpose(1, 2).reshape(batch, queries, embed_dim)
    return torch.nn.functional.linear(joined, proj_weight, proj_bias), shown


def _encoder_layer(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps,
                   norm_weight_1, norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2,
                   ffn_bias_2, mask=None, mask_type=None):
    functions = torch.nn.functional

    def attended(x):
        return _multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
                                     False, True, mask_type)[0]

    def fed_forward(x):
        inner = functions.linear(x, ffn_weight_1, ffn_bias_1)
        return functions.linear(functions.gelu(inner) if use_gelu else functions.relu(inner), ffn_weight_2, ffn_bias_2)

    def first_norm(x):
        return functions.layer_norm(x, (embed_dim,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x):
        return functions.layer_norm(x, (embed_dim,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = src + attended(first_norm(src))
        return x + fed_forward(second_norm(x))
    x = first_norm(src + attended(src))
    return second_norm(x + fed_forward(x))


# nn.TransformerEncoderLayer and nn.MultiheadAttention have fast paths, each of which is a single
# operator of ATen. These functions decompose them into operators of the table above.
DECOMPOSITIONS = {aten._transformer_encoder_layer_fwd.default: _encoder_layer,
                  aten._native_multi_head_attention.default: _multi_head_attention}


# ---- whole graphs --------------------------------------------------------------------------------


def _is_usable(value) -> bool:
    """True for a dense CPU tensor that has an implemented element type, a static shape and elements."""
    return (isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.layout == torch.strided
            and value.dtype in ELEMENT_TYPES and all(isinstance(extent, int) and extent > 0 for extent in value.shape))


def _tensors_of(node: Node) -> Iterable[object]:
    """Returns the traced values of the node and of the nodes that it reads. Of a node that returns
    a tuple, only the items that are used are returned."""
    def used(source):
        value = source.meta.get("val")
        if not isinstance(value, (tuple, list)):
            return [value]
        return [user.meta.get("val") for user in source.users]
    return [value for each in (node, *node.all_input_nodes) for value in used(each)]


def why_unsupported(node: Node) -> str:
    """Returns the reason why the node cannot be part of an ONNX model, or "" if it can."""
    converter = _CONVERTERS.get(node.target)
    if node.op != "call_function" or converter is None:
        return "it is not implemented"
    if not all(_is_usable(value) for value in _tensors_of(node)):
        return "its tensors have a type, a device or a shape that is not implemented"
    try:
        converter(Writer(), node)
    except Unsupported as reason:
        return str(reason)
    return ""


def to_onnx(module: GraphModule, constants: Mapping[int, torch.Tensor]) -> bytes:
    """Returns the ONNX model of a graph whose nodes are all supported. Input x<i> is placeholder number i. A
    placeholder whose number is in `constants` becomes a constant instead. Outputs are named y<i>."""
    writer, inputs, outputs = Writer(), [], []
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        if number in constants:
            writer.bind(node, writer.initializer(constants[number]))
        else:
            value = node.meta["val"]
            inputs.append(onnx_writer.port(f"x{number}", ELEMENT_TYPES[value.dtype], value.shape))
            writer.bind(node, f"x{number}")
    for node in module.graph.nodes:
        if node.op == "call_function":
            writer.bind(node, _CONVERTERS[node.target](writer, node))
    for number, node in enumerate(results_of(module)):
        value = node.meta["val"]
        writer.nodes.append(onnx_writer.node("Identity", [writer.tensor(node)], [f"y{number}"]))
        outputs.append(onnx_writer.port(f"y{number}", ELEMENT_TYPES[value.dtype], value.shape))
    return onnx_writer.model(writer.nodes, writer.initializers, inputs, outputs, OPSET)


def results_of(module: GraphModule) -> list[Node]:
    """Returns the nodes whose values the graph returns."""
    (result,) = module.graph.output_node().args
    return [result] if isinstance(result, Node) else list(result)
