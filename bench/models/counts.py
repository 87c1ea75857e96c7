# SPDX-License-Identifier: Apache-2.0
"""Counts the multiply-adds of an ONNX model."""
import math

import onnx


def shapes_of(model):
    """Returns the shape of each tensor with static dimensions, by name."""
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {array.name: list(array.dims) for array in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            shapes[value.name] = [dim.dim_value for dim in dims]
    return shapes


def _terms(node, shapes):
    """Returns the multiply-adds of one node: the number of elements of one operand, times the number of
    products in which each of these elements is a factor."""
    first, second = (shapes[name] for name in node.input[:2])
    result = math.prod(shapes[node.output[0]])
    if node.op_type == "Conv":
        return result * math.prod(second[1:])
    if node.op_type == "ConvTranspose":
        return math.prod(first) * math.prod(second[1:])
    if node.op_type == "Gemm":
        transposed = any(a.name == "transA" and a.i for a in node.attribute)
        return result * first[0 if transposed else 1]
    return result * first[-1]  # MatMul


def multiply_adds(model):
    """Returns the number of multiply-adds of all convolutions and matrix products, including products with
    the zeros of padding. Raises KeyError if an operand or result of these nodes has no static shape."""
    shapes = shapes_of(model)
    return sum(_terms(node, shapes) for node in model.graph.node
               if node.op_type in ("Conv", "ConvTranspose", "Gemm", "MatMul"))
