# SPDX-License-Identifier: Apache-2.0
"""A builder of ONNX networks with seeded weights, by which each standing network reads like its paper.

    net = Network("tiny", opset=17)
    x = net.input("image", [1, 3, 32, 32])
    x = net.conv_bn(x, 16, 3, stride=2)
    net.output("logits", net.head(x, classes=10))
    onnx.save(net.model(), "tiny.onnx")

Weights are random, yet every activation is of order one, however deep the network: linear maps are
initialised after He, and batch normalisation has the statistics that its inputs are expected to have
(distribution.py), as if it had been trained. A layer without normalisation has weights and a bias that
bring its outputs to mean 0 and variance 1. So outputs depend on inputs, and comparing them means
something.

The same arguments give the same bytes. Each array has a random generator of its own, seeded by the
network's name and the array's.

An *outline* has graph inputs in place of weights: a small model with all shapes, which a checker and
shape inference accept, and whose parameters are counted.
"""
import zlib
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import distribution

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple
    spread: np.ndarray | None = None  # a distribution of each channel; None in an outline

    @property
    def channels(self):
        return self.shape[1]


def pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def rounded(values):
    """To half precision, so that the last bits of sums, in which processors differ, do not show."""
    return np.asarray(values).astype(np.float16).astype(np.float32)


def window_outputs(size, kernel, stride, padding, ceil_mode=False):
    """Number of positions of a window along one axis."""
    room = size + 2 * padding - kernel
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # a window does not begin in the padding behind the input
    return count


def tap_coverage(size, kernel, stride, padding):
    """For each tap of a filter, the share of outputs for which it lies on the input, not on padding."""
    starts = np.arange(window_outputs(size, kernel, stride, padding)) * stride - padding
    at = starts[None, :] + np.arange(kernel)[:, None]
    return ((at >= 0) & (at < size)).mean(axis=1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    """Its approximation by tanh, close enough for distributions."""
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


class Network:
    def __init__(self, name, opset=17, outline=False):
        self.name, self.opset, self.outline = name, opset, outline
        self.parameters = 0  # trained numbers; statistics and constants do not count
        self.inputs, self.outputs = [], []  # value infos
        self._counts, self._constants = {}, {}
        self._nodes, self._arrays = [], []
        self._outlined = []  # value infos of weights

    # ---- the model ---------------------------------------------------------------------------

    def input(self, name, shape, dtype=FLOAT):
        """Floats are expected to be N(0, 1)."""
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        if self.outline or dtype != FLOAT:
            return Tensor(name, tuple(shape))
        channels = shape[1] if len(shape) == 4 else shape[-1]
        return Tensor(name, tuple(shape),
                      distribution.gaussian(np.zeros(channels), np.ones(channels)))

    def output(self, name, x):
        """Makes a tensor an output of the network under this name; no node may read it afterwards."""
        for node in self._nodes:
            for names in (node.input, node.output):
                for i, other in enumerate(names):
                    if other == x.name:
                        names[i] = name
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, x.shape))

    def model(self):
        opsets = [helper.make_opsetid("", self.opset)]
        graph = helper.make_graph(self._nodes, self.name, self.inputs + self._outlined, self.outputs,
                                  self._arrays)
        return helper.make_model(graph, opset_imports=opsets, producer_name="tilewright",
                                 ir_version=helper.find_min_ir_version_for(opsets))

    # ---- nodes and arrays ----------------------------------------------------------------------

    def node(self, op, inputs, shape, spread=None, **attributes):
        """One node with one output. Inputs are tensors, or names of weights."""
        return self.nodes(op, inputs, [shape], [spread], **attributes)[0]

    def nodes(self, op, inputs, shapes, spreads, **attributes):
        """One node with an output for each shape."""
        name = self._new_name(op)
        outputs = [name] if len(shapes) == 1 else [f"{name}.{i}" for i in range(len(shapes))]
        names = [x.name if isinstance(x, Tensor) else x for x in inputs]
        self._nodes.append(helper.make_node(op, names, outputs, name=name, **attributes))
        return [Tensor(*output) for output in zip(outputs, map(tuple, shapes), spreads)]

    def constant(self, values, dtype=np.float32):
        """An array that no training changes, the same one for equal values."""
        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants) + 1}"
            self._arrays.append(numpy_helper.from_array(array, self._constants[key]))
        return Tensor(self._constants[key], array.shape)

    def _new_name(self, op):
        self._counts[op] = self._counts.get(op, 0) + 1
        return f"{op.lower()}_{self._counts[op]}"

    def _next_name(self, op):
        """The name that the next node of this operator will have; its weights are named after it."""
        return f"{op.lower()}_{self._counts.get(op, 0) + 1}"

    def _random(self, name):
        return np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(name.encode())])

    def _normal(self, name, shape, deviation):
        """Random weights; None in an outline."""
        if self.outline:
            return None
        weights = self._random(name).standard_normal(shape, dtype=np.float32)
        weights *= np.float32(deviation)
        return weights

    def _add(self, name, shape, array, trained=True):
        """Adds an array of weights, which has to have this shape; an input in an outline."""
        self.parameters += int(np.prod(shape)) if trained else 0
        if self.outline:
            self._outlined.append(helper.make_tensor_value_info(name, FLOAT, shape))
        else:
            assert array.shape == tuple(shape) and array.dtype == np.float32, (name, array.shape)
            self._arrays.append(numpy_helper.from_array(array, name))
        return name

    # ---- linear layers -------------------------------------------------------------------------

    def conv(self, x, channels, kernel, stride=1, padding=None, groups=1, bias=True):
        """A convolution; padding keeps the size where none is given. Without a bias it is expected to
        be normalised next, and its weights are He's."""
        kernel, stride = pair(kernel), pair(stride)
        padding = tuple((k - 1) // 2 for k in kernel) if padding is None else pair(padding)
        name = self._next_name("Conv")
        shape = (channels, x.channels // groups, *kernel)
        weights = self._normal(name, shape, np.sqrt(2 / np.prod(shape[1:])))
        expected = self._expected_conv(x, weights, stride, padding, groups)
        inputs, spread = self._linear_arrays(name, shape, weights, expected, bias, channels)
        size = [window_outputs(*axis) for axis in zip(x.shape[2:], kernel, stride, padding)]
        return self.node("Conv", [x, *inputs], (x.shape[0], channels, *size), spread, group=groups,
                         kernel_shape=kernel, strides=stride, pads=padding * 2)

    def conv_transpose(self, x, channels, kernel):
        """A transposed convolution whose windows do not overlap."""
        name = self._next_name("ConvTranspose")
        shape = (x.channels, channels, kernel, kernel)
        weights = self._normal(name, shape, np.sqrt(1 / x.channels))
        expected = None
        if not self.outline:
            taps = weights.transpose(2, 3, 1, 0).reshape(1, -1, x.channels)
            mean, variance = distribution.moments(x.spread)
            sums = distribution.weighted_sum(taps, mean[None], variance[None])
            expected = [values.reshape(kernel**2, channels).mean(axis=0) for values in sums]
        inputs, spread = self._linear_arrays(name, shape, weights, expected, True, channels)
        size = [kernel * s for s in x.shape[2:]]
        return self.node("ConvTranspose", [x, *inputs], (x.shape[0], channels, *size), spread,
                         kernel_shape=pair(kernel), strides=pair(kernel))

    def classifier(self, x, classes):
        """A dense layer on [batch, features] as one Gemm."""
        name, shape = self._next_name("Gemm"), (classes, x.shape[1])
        weights = self._normal(name, shape, np.sqrt(1 / x.shape[1]))
        expected = self._expected_dense(x, weights)
        inputs, spread = self._linear_arrays(name, shape, weights, expected, True, classes)
        return self.node("Gemm", [x, *inputs], (x.shape[0], classes), spread, transB=1)

    def linear(self, x, features):
        """A dense layer on the last axis as MatMul and Add."""
        name, shape = self._next_name("MatMul"), (x.shape[-1], features)
        weights = self._normal(name, shape, np.sqrt(1 / x.shape[-1]))
        expected = self._expected_dense(x, None if self.outline else weights.T)
        (weight, bias), spread = self._linear_arrays(name, shape, weights, expected, True, features)
        product = self.node("MatMul", [x, weight], (*x.shape[:-1], features))
        return self.node("Add", [product, bias], product.shape, spread)

    def _expected_conv(self, x, weights, stride, padding, groups):
        """Mean and variance of each output channel, where zeros of the padding count."""
        if self.outline:
            return None
        kernel = weights.shape[2:]
        seen = np.multiply.outer(
            *(tap_coverage(*axis) for axis in zip(x.shape[2:], kernel, stride, padding)))
        mean, variance = (m[:, None, None] for m in distribution.moments(x.spread))
        tap_variance = (variance + mean**2) * seen - (mean * seen) ** 2
        return distribution.weighted_sum(
            weights.reshape(groups, weights.shape[0] // groups, -1),
            (mean * seen).reshape(groups, -1), tap_variance.reshape(groups, -1))

    def _expected_dense(self, x, weights):
        """The same of a dense layer with weights [outputs, inputs]."""
        if self.outline:
            return None
        mean, variance = distribution.moments(x.spread)
        return distribution.weighted_sum(weights[None], mean[None], variance[None])

    def _linear_arrays(self, name, shape, weights, expected, with_bias, outputs):
        """Adds weights and bias; their names, and the distribution of the outputs. With a bias, the
        weights are scaled and the bias chosen so that outputs have mean 0 and variance 1."""
        spread = bias = None
        if not self.outline:
            mean, variance = expected
            if with_bias:
                scale = rounded(1 / np.sqrt(variance.mean()))
                weights *= scale
                noise = self._random(name + ".bias").standard_normal(outputs)
                bias = rounded(0.1 * noise - mean * scale)
                mean, variance = mean * scale + bias, variance * scale**2
            spread = distribution.gaussian(mean, variance)
        names = [self._add(name + ".weight", shape, weights)]
        if with_bias:
            names.append(self._add(name + ".bias", (outputs,), bias))
        return names, spread

    def embedding(self, ids, rows, features):
        """Rows of a table by number: of tokens, positions."""
        name = self._next_name("Gather")
        table = self._add(name + ".table", (rows, features),
                          self._normal(name, (rows, features), 0.02))
        spread = None
        if not self.outline:
            spread = distribution.gaussian(np.zeros(features), np.full(features, 0.02**2))
        return self.node("Gather", [table, ids], (*ids.shape, features), spread)

    # ---- normalisation -------------------------------------------------------------------------

    def batch_norm(self, x, epsilon=1e-5):
        """Normalises by the statistics that x is expected to have."""
        name, shape = self._next_name("BatchNormalization"), (x.channels,)
        scale, shift = self._scale_and_shift(name, x.channels)
        mean = variance = spread = None
        if not self.outline:
            mean, variance = map(rounded, distribution.moments(x.spread))
            spread = distribution.gaussian(shift, scale**2)
        inputs = [self._add(name + ".scale", shape, scale), self._add(name + ".bias", shape, shift),
                  self._add(name + ".mean", shape, mean, trained=False),
                  self._add(name + ".variance", shape, variance, trained=False)]
        return self.node("BatchNormalization", [x, *inputs], x.shape, spread, epsilon=epsilon)

    def layer_norm(self, x, epsilon=1e-5):
        """Over the last axis."""
        name, shape = self._next_name("LayerNormalization"), (x.shape[-1],)
        scale, shift = self._scale_and_shift(name, x.shape[-1])
        inputs = [self._add(name + ".scale", shape, scale), self._add(name + ".bias", shape, shift)]
        spread = None if self.outline else distribution.gaussian(shift, scale**2)
        return self.node("LayerNormalization", [x, *inputs], x.shape, spread, axis=-1,
                         epsilon=epsilon)

    def _scale_and_shift(self, name, channels):
        if self.outline:
            return None, None
        random = self._random(name)
        return (random.uniform(0.5, 1.5, channels).astype(np.float32),
                (0.2 * random.standard_normal(channels)).astype(np.float32))

    # ---- elementwise ---------------------------------------------------------------------------

    def relu(self, x):
        return self._elementwise("Relu", [x], lambda v: np.maximum(v, 0))

    def relu6(self, x):
        limits = [self.constant(0), self.constant(6)]
        return self._elementwise("Clip", [x, *limits], lambda v: np.clip(v, 0, 6))

    def sigmoid(self, x):
        return self._elementwise("Sigmoid", [x], sigmoid)

    def swish(self, x):
        gate = self.node("Sigmoid", [x], x.shape)
        return self._elementwise("Mul", [x, gate], lambda v: v * sigmoid(v))

    def gelu(self, x, approximate="none"):
        """As an operator where the opset has it, else as the expression by which it is exported."""
        if self.opset >= 20:
            return self._elementwise("Gelu", [x], gelu, approximate=approximate)
        inner = self._tanh_of_gelu(x) if approximate == "tanh" else self._erf_of_gelu(x)
        sum_ = self.node("Add", [inner, self.constant(1)], x.shape)
        product = self.node("Mul", [x, sum_], x.shape)
        result = self.node("Mul", [product, self.constant(0.5)], x.shape)
        return self._with_spread(result, x, gelu)

    def _erf_of_gelu(self, x):
        return self.node("Erf", [self.node("Div", [x, self.constant(np.sqrt(2))], x.shape)], x.shape)

    def _tanh_of_gelu(self, x):
        cube = self.node("Pow", [x, self.constant(3)], x.shape)
        cube = self.node("Mul", [cube, self.constant(0.044715)], x.shape)
        inner = self.node("Add", [x, cube], x.shape)
        inner = self.node("Mul", [inner, self.constant(np.sqrt(2 / np.pi))], x.shape)
        return self.node("Tanh", [inner], x.shape)

    def _elementwise(self, op, inputs, function, **attributes):
        x = inputs[0]
        return self._with_spread(self.node(op, inputs, x.shape, **attributes), x, function)

    def _with_spread(self, result, x, function):
        spread = None if x.spread is None else distribution.applied(function, x.spread)
        return Tensor(result.name, result.shape, spread)

    def add(self, a, b):
        spread = None if a.spread is None else distribution.sum_of(a.spread, b.spread)
        return self.node("Add", [a, b], a.shape, spread)

    def scale_channels(self, x, factors):
        """The product of an image and one factor for each channel."""
        spread = None if x.spread is None else distribution.product_of(x.spread, factors.spread)
        return self.node("Mul", [x, factors], x.shape, spread)

    # ---- pooling -------------------------------------------------------------------------------

    def max_pool(self, x, kernel, stride, padding=0, ceil_mode=False):
        spread = None if x.spread is None else distribution.largest_of(x.spread, kernel**2)
        return self._pool("MaxPool", x, kernel, stride, padding, spread, ceil_mode=int(ceil_mode))

    def average_pool(self, x, kernel, stride, padding=0):
        """Zeros of the padding count as inputs."""
        spread = None if x.spread is None else distribution.mean_of(x.spread, kernel**2)
        return self._pool("AveragePool", x, kernel, stride, padding, spread, count_include_pad=1)

    def _pool(self, op, x, kernel, stride, padding, spread, ceil_mode=0, **attributes):
        size = [window_outputs(s, kernel, stride, padding, ceil_mode) for s in x.shape[2:]]
        return self.node(op, [x], (*x.shape[:2], *size), spread, kernel_shape=pair(kernel),
                         strides=pair(stride), pads=[padding] * 4, ceil_mode=ceil_mode, **attributes)

    def global_average(self, x):
        """Pixels resemble their neighbours, so an image counts as at most 16 independent samples."""
        samples = min(np.prod(x.shape[2:]), 16)
        spread = None if x.spread is None else distribution.mean_of(x.spread, samples)
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1), spread)

    # ---- moving data ---------------------------------------------------------------------------

    def flatten(self, x):
        """[batch, features]"""
        pixels = int(np.prod(x.shape[2:]))
        spread = None if x.spread is None else np.repeat(x.spread, pixels, axis=0)
        return self.node("Flatten", [x], (x.shape[0], x.channels * pixels), spread, axis=1)

    def concat(self, inputs, axis=1):
        """Distributions follow where the axis is that of channels."""
        shape = list(inputs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in inputs)
        spread = None
        if axis == 1 and all(x.spread is not None for x in inputs):
            spread = np.concatenate([x.spread for x in inputs])
        return self.node("Concat", inputs, shape, spread, axis=axis)

    def split_channels(self, x, parts, axis=1):
        """Equal parts."""
        shape = list(x.shape)
        shape[axis] //= parts
        spreads = [None] * parts if x.spread is None else np.split(x.spread, parts)
        lengths = self.constant([shape[axis]] * parts, np.int64)
        return self.nodes("Split", [x, lengths], [shape] * parts, spreads, axis=axis)

    def reshape(self, x, shape, spread=None):
        return self.node("Reshape", [x, self.constant(shape, np.int64)], shape, spread)

    def transpose(self, x, order, spread=None):
        return self.node("Transpose", [x], [x.shape[i] for i in order], spread, perm=order)

    def shuffle_channels(self, x, groups):
        """Channels g * n + i move to i * groups + g."""
        n, c, h, w = x.shape
        y = self.reshape(x, (n, groups, c // groups, h, w))
        y = self.transpose(y, (0, 2, 1, 3, 4))
        spread = x.spread
        if spread is not None:
            spread = spread.reshape(groups, c // groups, -1).swapaxes(0, 1).reshape(c, -1)
        return self.reshape(y, (n, c, h, w), spread)

    # ---- several nodes -------------------------------------------------------------------------

    def conv_bn(self, x, channels, kernel, stride=1, padding=None, groups=1, activation="relu",
                epsilon=1e-5):
        """Convolution, batch normalisation, and the activation of this name, None: none."""
        x = self.conv(x, channels, kernel, stride, padding, groups, bias=False)
        x = self.batch_norm(x, epsilon)
        return getattr(self, activation)(x) if activation else x

    def head(self, x, classes=1000):
        """The end of most image classifiers."""
        return self.classifier(self.flatten(self.global_average(x)), classes)

    def heads(self, x, count):
        """[batch, length, features] to [batch, count, length, features / count]"""
        n, length, features = x.shape
        return self.transpose(self.reshape(x, (n, length, count, features // count)), (0, 2, 1, 3))

    def attention(self, query, key, value, count, mask=None):
        """Attention with `count` heads on [batch, length, features]; `mask` changes the scores."""
        n, length, features = query.shape
        keys = self.transpose(self.heads(key, count), (0, 1, 3, 2))
        scores = self.node("MatMul", [self.heads(query, count), keys], (n, count, length, length))
        size = self.constant(np.sqrt(features // count))
        scores = self.node("Div", [scores, size], scores.shape)
        if mask:
            scores = mask(scores)
        weights = self.node("Softmax", [scores], scores.shape, axis=-1)
        mixed = self.node("MatMul", [weights, self.heads(value, count)],
                          (n, count, length, features // count))
        # Scores of variance 1 weight tokens as unevenly as if 1 in e counted, and the others did not.
        spread = None if value.spread is None else distribution.mean_of(value.spread, length / np.e)
        return self.reshape(self.transpose(mixed, (0, 2, 1, 3)), query.shape, spread)
