# SPDX-License-Identifier: Apache-2.0
"""A builder of ONNX networks with seeded weights, by which each standing network reads like its paper.

    net = Network("tiny", opset=17)
    x = net.input("image", [1, 3, 32, 32])
    x = net.conv_bn(x, 16, 3, stride=2)
    net.output("logits", net.head(x, classes=10))
    onnx.save(net.model(), "tiny.onnx")

Weights are random, yet all activations are of order one, even in deep networks. For this, each node is
run in double on a random input when it is added. Batch normalisation gets the statistics of its input,
as if it had been trained. A linear layer without normalisation gets weights and a bias with which its
outputs have mean 0 and variance 1. So outputs depend on inputs, and comparing outputs is meaningful.

The same arguments give the same bytes on any processor, because statistics that are computed by sums in
double are rounded to half precision. Each array has a random generator of its own, which is seeded by
the names of the network and of the array.

`arrays` are the weights of a network that differs only in its batch or opset; with them, no node is run.
An *outline* has graph inputs in place of weights: a small model with all shapes, for a checker, shape
inference and counting parameters.
"""
import zlib
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from operators import run_node

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64

# Scale of the last normalisation in a branch whose result is added to its input. Training makes such
# branches small. If a branch were as large as its input, rounding errors would grow from block to block,
# to 3e-4 of the largest output of ResNet-152.
RESIDUAL = 0.3

# Channels with fewer positions than this have the same statistics, those over all channels.
FEWEST_POSITIONS = 32


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple
    value: np.ndarray | None = None  # on the random input, where the network is run

    @property
    def channels(self):
        return self.shape[1]


def pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def rounded(values):
    """The values rounded to half precision. This hides the last bits of sums, in which processors
    differ."""
    return np.asarray(values).astype(np.float16).astype(np.float32)


def statistics(value, axis):
    """Mean and variance of each channel. For a channel that is almost constant on this input, the
    variance is one that the channel may have on other inputs."""
    channels = value.shape[axis]
    samples = np.moveaxis(value, axis, 0).reshape(channels, -1)
    if samples.shape[1] < FEWEST_POSITIONS:
        return np.zeros(channels), np.full(channels, np.mean(samples**2))
    variance = samples.var(axis=1)
    return samples.mean(axis=1), np.maximum(variance, 0.01 * variance.mean())


def along(axis, values, rank):
    """Reshapes one value per channel, so that the values broadcast with tensors of this rank."""
    return np.reshape(values, [-1 if i == axis else 1 for i in range(rank)])


def window_outputs(size, kernel, stride, padding, ceil_mode=False):
    """Number of positions of a window along one axis."""
    room = size + 2 * padding - kernel
    count = (-(-room // stride) if ceil_mode else room // stride) + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1  # a window does not begin in the padding behind the input
    return count


class Network:
    def __init__(self, name, opset=17, arrays=None, outline=False):
        self.name, self.opset, self.outline = name, opset, outline
        self.parameters = 0  # trained numbers; statistics and constants do not count
        self.inputs, self.outputs = [], []  # value infos
        self.arrays = {}  # weights and constants by name
        self._given, self._runs = arrays, arrays is None and not outline
        self._nodes, self._outlined, self._counts, self._constants = [], [], {}, {}

    # ---- the model ---------------------------------------------------------------------------

    def input(self, name, shape, rows=None):
        """Adds an input. Its example values are N(0, 1), or row numbers of a table if `rows` is
        given."""
        value = None
        if self._runs:
            random = self._random(name)
            value = random.integers(0, rows, shape) if rows else random.standard_normal(shape)
        self.inputs.append(helper.make_tensor_value_info(name, INT64 if rows else FLOAT, shape))
        return Tensor(name, tuple(shape), value)

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
        arrays = [numpy_helper.from_array(array, name) for name, array in self.arrays.items()]
        graph = helper.make_graph(self._nodes, self.name, self.inputs + self._outlined, self.outputs,
                                  arrays)
        return helper.make_model(graph, opset_imports=opsets, producer_name="tilewright",
                                 ir_version=helper.find_min_ir_version_for(opsets))

    # ---- nodes and arrays ----------------------------------------------------------------------

    def node(self, op, inputs, shape, value=None, **attributes):
        """Adds a node with one output of this shape. If `value` is given, the node is not run to get the
        output's value."""
        return self.nodes(op, inputs, [shape], None if value is None else [value], **attributes)[0]

    def nodes(self, op, inputs, shapes, values=None, **attributes):
        """Adds a node with an output for each shape, as node()."""
        name = self._new_name(op)
        outputs = [name] if len(shapes) == 1 else [f"{name}.{i}" for i in range(len(shapes))]
        node = helper.make_node(op, [x.name for x in inputs], outputs, name=name, **attributes)
        self._nodes.append(node)
        if not self._runs:
            values = [None] * len(shapes)
        elif values is None:
            values = run_node(node, {x.name: x.value for x in inputs})
        return [Tensor(*output) for output in zip(outputs, map(tuple, shapes), values)]

    def constant(self, values, dtype=np.float32):
        """Adds a constant that is no trained parameter. Equal arrays are added only once."""
        array = np.asarray(values, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = f"constant_{len(self._constants) + 1}"
            self.arrays[self._constants[key]] = array
        return Tensor(self._constants[key], array.shape, array)

    def _new_name(self, op):
        name = self._next_name(op)
        self._counts[op] = self._counts.get(op, 0) + 1
        return name

    def _next_name(self, op):
        """The name that the next node of this operator will have; its weights are named after it."""
        return f"{op.lower()}_{self._counts.get(op, 0) + 1}"

    def _random(self, name):
        return np.random.default_rng([zlib.crc32(self.name.encode()), zlib.crc32(name.encode())])

    def _array(self, name, shape, array, trained=True):
        """Adds weights. Their values are `array` if nodes are run, else those of the given arrays. In an
        outline, an input takes their place."""
        self.parameters += int(np.prod(shape)) if trained else 0
        if self.outline:
            self._outlined.append(helper.make_tensor_value_info(name, FLOAT, shape))
            return Tensor(name, tuple(shape))
        array = array.astype(np.float32, copy=False) if self._runs else self._given[name]
        assert array.shape == tuple(shape), (name, array.shape)
        self.arrays[name] = array
        return Tensor(name, tuple(shape), array)

    def _normal(self, name, shape, deviation):
        """Random weights N(0, deviation^2); None if nodes are not run."""
        if not self._runs:
            return None
        return self._random(name).standard_normal(shape, np.float32) * np.float32(deviation)

    # ---- linear layers -------------------------------------------------------------------------

    def _linear_arrays(self, op, x, shape, fan_in, channels, axis=1, bias=True, pruned=None, mean=0,
                       **attributes):
        """Adds the weights of a linear node, initialised after He, and its bias. Returns these arrays
        and the value of the node's output, whose channels are along `axis`. With a bias, outputs have
        the given mean and variance 1. `pruned` is the shape of blocks, of which four in five are set to
        zero."""
        name = self._next_name(op)
        weights, biases, value = self._normal(name + ".weight", shape, np.sqrt(2 / fan_in)), None, None
        if self._runs:
            if pruned:
                weights *= self._kept_blocks(name, shape, pruned)
            node = helper.make_node(op, ["x", "weights"], ["y"], **attributes)
            value, = run_node(node, {"x": x.value, "weights": weights})
        if self._runs and bias:
            found, variance = statistics(value, axis)
            scale = rounded(1 / np.sqrt(variance.mean()))
            means = mean + 0.1 * self._random(name + ".bias").standard_normal(channels)
            biases = rounded(means - found * scale)
            value = value * scale + along(axis, biases, value.ndim)
            weights *= scale
        arrays = [self._array(name + ".weight", shape, weights)]
        if bias:
            arrays.append(self._array(name + ".bias", (channels,), biases))
        return arrays, value

    def _kept_blocks(self, name, shape, block):
        """A mask of a matrix: 1 in one of five blocks, chosen at random, and 0 elsewhere."""
        counts = [extent // length for extent, length in zip(shape, block)]
        return np.kron(self._random(name + ".kept").random(counts) < 0.2, np.ones(block, np.float32))

    def conv(self, x, channels, kernel, stride=1, padding=None, groups=1, bias=True, mean=0):
        """A convolution. By default, padding keeps the size of the image. With a bias, outputs have this
        mean."""
        kernel, stride = pair(kernel), pair(stride)
        padding = tuple((k - 1) // 2 for k in kernel) if padding is None else pair(padding)
        attributes = {"group": groups, "kernel_shape": kernel, "strides": stride, "pads": padding * 2}
        shape = (channels, x.channels // groups, *kernel)
        arrays, value = self._linear_arrays("Conv", x, shape, np.prod(shape[1:]), channels, bias=bias,
                                            mean=mean, **attributes)
        size = [window_outputs(*axis) for axis in zip(x.shape[2:], kernel, stride, padding)]
        return self.node("Conv", [x, *arrays], (x.shape[0], channels, *size), value, **attributes)

    def conv_transpose(self, x, channels, kernel):
        """A transposed convolution whose windows do not overlap."""
        attributes = {"kernel_shape": pair(kernel), "strides": pair(kernel)}
        shape = (x.channels, channels, kernel, kernel)
        arrays, value = self._linear_arrays("ConvTranspose", x, shape, x.channels, channels,
                                            **attributes)
        size = [kernel * s for s in x.shape[2:]]
        return self.node("ConvTranspose", [x, *arrays], (x.shape[0], channels, *size), value,
                         **attributes)

    def classifier(self, x, classes):
        """A dense layer on [batch, features] as one Gemm."""
        arrays, value = self._linear_arrays("Gemm", x, (classes, x.shape[1]), x.shape[1], classes,
                                            transB=1)
        return self.node("Gemm", [x, *arrays], (x.shape[0], classes), value, transB=1)

    def linear(self, x, features, pruned=None):
        """A dense layer on the last axis as MatMul and Add; `pruned` is the shape of the blocks of its
        weights of which four in five are zero."""
        (weights, biases), value = self._linear_arrays(
            "MatMul", x, (x.shape[-1], features), x.shape[-1], features, axis=len(x.shape) - 1,
            pruned=pruned)
        product = self.node("MatMul", [x, weights], (*x.shape[:-1], features), value)
        return self.node("Add", [product, biases], product.shape, value)

    def embedding(self, ids, rows, features):
        """Looks up rows of a table by number, as for tokens and positions."""
        name, shape = self._next_name("Gather") + ".table", (rows, features)
        table = self._array(name, shape, self._normal(name, shape, 0.02))
        return self.node("Gather", [table, ids], (*ids.shape, features))

    # ---- normalisation -------------------------------------------------------------------------

    def batch_norm(self, x, epsilon=1e-5, size=1, mean=0):
        """Batch normalisation by the statistics of x. Outputs have this mean and the standard deviation
        `size`."""
        name, shape = self._next_name("BatchNormalization"), (x.channels,)
        arrays = self._scale_and_shift(name, x.channels, size, mean)
        values = map(rounded, statistics(x.value, 1)) if self._runs else (None, None)
        for part, value in zip(("mean", "variance"), values):
            arrays.append(self._array(f"{name}.{part}", shape, value, trained=False))
        return self.node("BatchNormalization", [x, *arrays], x.shape, epsilon=epsilon)

    def layer_norm(self, x, epsilon=1e-5):
        """Layer normalisation over the last axis."""
        arrays = self._scale_and_shift(self._next_name("LayerNormalization"), x.shape[-1])
        return self.node("LayerNormalization", [x, *arrays], x.shape, axis=-1, epsilon=epsilon)

    def _scale_and_shift(self, name, channels, size=1, mean=0):
        random = self._random(name)
        scale, shift = random.uniform(0.5, 1.5, channels), 0.2 * random.standard_normal(channels)
        return [self._array(name + ".scale", (channels,), size * scale),
                self._array(name + ".bias", (channels,), mean + size * shift)]

    # ---- elementwise ---------------------------------------------------------------------------

    def relu(self, x):
        return self.node("Relu", [x], x.shape)

    def relu6(self, x):
        return self.node("Clip", [x, self.constant(0), self.constant(6)], x.shape)

    def sigmoid(self, x):
        return self.node("Sigmoid", [x], x.shape)

    def swish(self, x):
        return self.node("Mul", [x, self.sigmoid(x)], x.shape)

    def gelu(self, x, approximate="none"):
        """GELU as an operator if the opset has it, else as the expression that exporters write."""
        if self.opset >= 20:
            return self.node("Gelu", [x], x.shape, approximate=approximate)
        inner = self._tanh_of_gelu(x) if approximate == "tanh" else self._erf_of_gelu(x)
        product = self.node("Mul", [x, self.add(inner, self.constant(1))], x.shape)
        return self.node("Mul", [product, self.constant(0.5)], x.shape)

    def _erf_of_gelu(self, x):
        return self.node("Erf", [self.node("Div", [x, self.constant(np.sqrt(2))], x.shape)], x.shape)

    def _tanh_of_gelu(self, x):
        cube = self.node("Pow", [x, self.constant(3)], x.shape)
        inner = self.add(x, self.node("Mul", [cube, self.constant(0.044715)], x.shape))
        inner = self.node("Mul", [inner, self.constant(np.sqrt(2 / np.pi))], x.shape)
        return self.node("Tanh", [inner], x.shape)

    def add(self, a, b):
        """A sum of the shape of `a`."""
        return self.node("Add", [a, b], a.shape)

    def scale_channels(self, x, factors):
        """The product of an image and one factor for each channel."""
        return self.node("Mul", [x, factors], x.shape)

    # ---- pooling -------------------------------------------------------------------------------

    def max_pool(self, x, kernel, stride, padding=0, ceil_mode=False):
        return self._pool("MaxPool", x, kernel, stride, padding, ceil_mode=int(ceil_mode))

    def average_pool(self, x, kernel, stride, padding=0):
        """Average pooling. Zeros of the padding count as inputs."""
        return self._pool("AveragePool", x, kernel, stride, padding, count_include_pad=1)

    def _pool(self, op, x, kernel, stride, padding, ceil_mode=0, **attributes):
        size = [window_outputs(s, kernel, stride, padding, ceil_mode) for s in x.shape[2:]]
        return self.node(op, [x], (*x.shape[:2], *size), kernel_shape=pair(kernel),
                         strides=pair(stride), pads=[padding] * 4, ceil_mode=ceil_mode, **attributes)

    def global_average(self, x):
        return self.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1))

    # ---- moving data ---------------------------------------------------------------------------

    def flatten(self, x):
        """[batch, features]"""
        return self.node("Flatten", [x], (x.shape[0], int(np.prod(x.shape[1:]))), axis=1)

    def concat(self, inputs, axis=1):
        shape = list(inputs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in inputs)
        return self.node("Concat", inputs, shape, axis=axis)

    def split(self, x, parts, axis=1):
        """Splits x into equal parts."""
        shape = list(x.shape)
        shape[axis] //= parts
        lengths = self.constant([shape[axis]] * parts, np.int64)
        return self.nodes("Split", [x, lengths], [shape] * parts, axis=axis)

    def reshape(self, x, shape):
        return self.node("Reshape", [x, self.constant(shape, np.int64)], shape)

    def transpose(self, x, order):
        return self.node("Transpose", [x], [x.shape[i] for i in order], perm=order)

    def shuffle_channels(self, x, groups):
        """Moves channel g * n + i to i * groups + g, where n is the number of channels of a group."""
        n, c, h, w = x.shape
        y = self.reshape(x, (n, groups, c // groups, h, w))
        return self.reshape(self.transpose(y, (0, 2, 1, 3, 4)), (n, c, h, w))

    # ---- several nodes -------------------------------------------------------------------------

    def conv_bn(self, x, channels, kernel, stride=1, padding=None, groups=1, activation="relu",
                epsilon=1e-5, size=1, mean=0):
        """A convolution, batch normalisation to this size and mean, and the activation of this name
        (None: no activation)."""
        x = self.conv(x, channels, kernel, stride, padding, groups, bias=False)
        x = self.batch_norm(x, epsilon, size, mean)
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
        return self.reshape(self.transpose(mixed, (0, 2, 1, 3)), query.shape)
