# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX in double, for the reference evaluator of the `onnx` package.

Convolutions and poolings, in which networks spend their time, are sums over the taps of a filter
here; they take seconds, and the evaluator's own take minutes. Erf and Gelu are here because the
evaluator computes them in single precision.
"""
import math

import numpy as np
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_average_pool import AveragePool_19
from onnx.reference.ops.op_conv import Conv as SlowConv
from onnx.reference.ops.op_conv_transpose import ConvTranspose as SlowConvTranspose
from onnx.reference.ops.op_max_pool import MaxPool as SlowMaxPool


def is_plain(x, auto_pad):
    """True for two-dimensional windows with explicit padding."""
    return x.ndim == 4 and auto_pad in (None, "NOTSET")


def window(kernel, strides, pads, dilations):
    """The attributes of a window, with defaults for those that are missing."""
    return kernel, strides or [1, 1], pads or [0, 0, 0, 0], dilations or [1, 1]


def outputs_along(size, kernel, stride, before, after, dilation, ceil_mode=False):
    room = size + before + after - (kernel - 1) * dilation - 1
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + before:
        count -= 1  # a window does not begin in the padding behind the input
    return count


def taps(x, kernel, strides, pads, dilations, fill, ceil_mode=False):
    """For each tap (r, s) of a filter, an array with the shape of the outputs that has the input
    element which the tap multiplies for each output."""
    size = [outputs_along(x.shape[2 + i], kernel[i], strides[i], pads[i], pads[2 + i], dilations[i],
                          ceil_mode) for i in range(2)]
    span = [(size[i] - 1) * strides[i] + 1 for i in range(2)]
    after = [max(0, (kernel[i] - 1) * dilations[i] + span[i] - x.shape[2 + i] - pads[i])
             for i in range(2)]
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], after[0]), (pads[1], after[1])), constant_values=fill)
    for r in range(kernel[0]):
        for s in range(kernel[1]):
            y, z = r * dilations[0], s * dilations[1]
            yield (r, s), x[:, :, y:y + span[0]:strides[0], z:z + span[1]:strides[1]]


class Conv(SlowConv):
    op_domain = ""

    def _run(self, X, W, B=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
             pads=None, strides=None):
        if not is_plain(X, auto_pad):
            return super()._run(X, W, B, auto_pad, dilations, group, kernel_shape, pads, strides)
        n, k = X.shape[0], W.shape[0]
        # [r, s, group, outputs of the group, inputs], contiguous, as fast products need it
        weights = np.ascontiguousarray(
            W.reshape(group, k // group, *W.shape[1:]).transpose(3, 4, 0, 1, 2))
        result = 0
        for tap, seen in taps(X, *window(W.shape[2:], strides, pads, dilations), fill=0):
            pixels = seen.reshape(n, group, -1, seen.shape[2] * seen.shape[3])
            result = result + weights[tap] @ pixels
        result = result.reshape(n, k, *seen.shape[2:])
        return (result if B is None else result + B[:, None, None],)


class ConvTranspose(SlowConvTranspose):
    op_domain = ""

    def _run(self, X, W, B=None, auto_pad=None, dilations=None, group=None, kernel_shape=None,
             output_padding=None, output_shape=None, pads=None, strides=None):
        if not is_plain(X, auto_pad) or group != 1 or any(output_padding or []) or output_shape:
            return super()._run(X, W, B, auto_pad, dilations, group, kernel_shape, output_padding,
                                output_shape, pads, strides)
        kernel, strides, pads, dilations = window(W.shape[2:], strides, pads, dilations)
        n, _, h, w = X.shape
        full = [(size - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1
                for i, size in enumerate((h, w))]
        result = np.zeros((n, W.shape[1], *full), X.dtype)
        for r in range(kernel[0]):
            for s in range(kernel[1]):
                y, z = r * dilations[0], s * dilations[1]
                result[:, :, y:y + (h - 1) * strides[0] + 1:strides[0],
                       z:z + (w - 1) * strides[1] + 1:strides[1]] += (
                    W[:, :, r, s].T @ X.reshape(n, -1, h * w)).reshape(n, -1, h, w)
        result = result[:, :, pads[0]:full[0] - pads[2], pads[1]:full[1] - pads[3]]
        return (result if B is None else result + B[:, None, None],)


class MaxPool(SlowMaxPool):
    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None,
             storage_order=None, strides=None):
        if not is_plain(x, auto_pad) or len(self.output) > 1:
            return super()._run(x, auto_pad, ceil_mode, dilations, kernel_shape, pads,
                                storage_order, strides)
        arguments = window(kernel_shape, strides, pads, dilations)
        result = -np.inf
        for _, seen in taps(x, *arguments, fill=-np.inf, ceil_mode=ceil_mode):
            result = np.maximum(result, seen)
        return (result,)


class AveragePool(AveragePool_19):
    op_domain = ""

    def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None,
             strides=None, count_include_pad=None):
        if not is_plain(x, auto_pad) or ceil_mode:
            return super()._run(x, auto_pad, ceil_mode, dilations, kernel_shape, pads, strides,
                                count_include_pad)
        arguments = window(kernel_shape, strides, pads, dilations)
        ones = np.ones((1, 1, *x.shape[2:]))
        total = sum(seen for _, seen in taps(x, *arguments, fill=0))
        count = sum(seen for _, seen in taps(ones, *arguments, fill=count_include_pad))
        return (total / count,)


class Erf(OpRun):
    op_domain = ""
    _function = staticmethod(np.vectorize(math.erf, otypes=[np.float64]))

    def _run(self, x):
        return (self._function(x),)


class Gelu(OpRun):
    op_domain = ""

    def _run(self, x, approximate=None):
        if approximate == "tanh":
            return (0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),)
        return (0.5 * x * (1 + Erf._function(x / np.sqrt(2))),)


OPERATORS = [AveragePool, Conv, ConvTranspose, Erf, Gelu, MaxPool]


def in_double(arrays):
    """Arrays by name, with f32 converted to double."""
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array
            for name, array in arrays.items()}


def run_node(node, arrays):
    """Computes the outputs of one node. `arrays` has its inputs by name."""
    inputs = {name: array for name, array in arrays.items() if name in node.input}
    return ReferenceEvaluator(node, new_ops=OPERATORS).run(None, in_double(inputs))
