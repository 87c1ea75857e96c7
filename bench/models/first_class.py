# SPDX-License-Identifier: Apache-2.0
"""Counts the random images for which a contender finds the same first class as the network in double.

The first class is the index of the largest output. The evaluator of reference.py takes seconds for an image.
So the reference is the network in double, compiled by Tilewright without tuning. It is first checked against
the evaluator on network.inputs.
"""
import subprocess

import numpy as np
import onnx
from onnx import TensorProto

from network_contenders import Tilewright
from reference import as_double, in_double, widened
from runtime_library import RuntimeFailure

# If the two largest outputs differ by less than this, their order may be due to rounding.
CLEAR_MARGIN = 1e-3
# The largest error of the network in double, relative to the largest output.
DOUBLE_TOLERANCE = 1e-9
WRONG_OUTPUTS = 6  # a tw_status


def double_model(model):
    """Returns the model with constants, inputs and outputs in double."""
    double = as_double(model)
    for array in double.graph.initializer:
        array.CopyFrom(widened(array))
    graph = double.graph
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    return double


def double_contender(network, options, folder):
    """Compiles the network in double without measurements, and returns it as a contender that was run on
    network.inputs. Raises RuntimeFailure if its outputs differ from the expected ones."""
    path, artifact = folder / "double.onnx", folder / "double.twart"
    onnx.save(double_model(network.model), path)
    program = options.build / "tools" / "tilewright"
    done = subprocess.run([program, "tune", "--model", path, "--effort", "none", "--threads",
                           str(options.threads), "--db", folder / "double.db", "--output", artifact],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeFailure(done.returncode, f"[bench] the network in double: {done.stderr.strip()}")
    library = options.build / "runtime" / "libtilewright_runtime.so"
    blank = {name: np.zeros(array.shape) for name, array in network.expected.items()}
    contender = Tilewright(artifact, in_double(network.inputs), blank, options.threads, library)
    contender.run()
    error = network.error_of(contender.outputs())
    if not error <= DOUBLE_TOLERANCE:
        raise RuntimeFailure(WRONG_OUTPUTS, f"[bench] the network in double differs by {error:.1e} "
                                            "from the evaluator")
    return contender


def image(inputs, seed):
    """Returns the inputs of a random image: floats are N(0, 1), other inputs are unchanged."""
    random = np.random.default_rng(seed)
    return {name: random.standard_normal(array.shape, np.float32)
            if array.dtype == np.float32 else array for name, array in inputs.items()}


def first_classes(contender, inputs):
    """Returns for each image the index of the largest element of the only output, and its difference from
    the second largest."""
    for name, array in inputs.items():
        contender.inputs()[name][...] = array
    contender.run()
    output, = contender.outputs().values()
    rows = output.reshape(output.shape[0], -1)
    sorted_rows = np.sort(rows, axis=1)
    return rows.argmax(axis=1), sorted_rows[:, -1] - sorted_rows[:, -2]


def agreement(network, contenders, double, images, seed):
    """For each contender, counts the images for which it has the same first class as `double`. Images whose
    two largest outputs in `double` differ by at most CLEAR_MARGIN are left out. All images of a batch are
    compared."""
    equal, clear, count = dict.fromkeys((c.name for c in contenders), 0), 0, 0
    while count < images:
        inputs = image(network.inputs, [seed, count])
        expected, margin = first_classes(double, inputs)
        count += len(expected)
        is_clear = margin > CLEAR_MARGIN
        clear += int(is_clear.sum())
        for contender in contenders:
            classes, _ = first_classes(contender, inputs)
            equal[contender.name] += int((classes == expected)[is_clear].sum())
    return {"images": count, "clear": clear, "margin": CLEAR_MARGIN, "equal": equal}
