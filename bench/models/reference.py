# SPDX-License-Identifier: Apache-2.0
"""Computes the outputs of an ONNX model in double, as the reference for every runtime.

The reference evaluator of the `onnx` package runs the model with all floats widened, by operators of
our own where they are faster or more exact (models/operators.py).
"""
import hashlib
import os
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import operators
from operators import OPERATORS, in_double


def widened(tensor):
    """A tensor of the model as an array, with floats converted to double."""
    array = numpy_helper.to_array(tensor)
    return numpy_helper.from_array(array.astype(np.float64), tensor.name) if (
        array.dtype == np.float32) else tensor


def as_double(model):
    """The model with constants and casts in double. Its initializers stay as they are."""
    double = onnx.ModelProto()
    double.CopyFrom(model)
    for node in double.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                attribute.t.CopyFrom(widened(attribute.t))
            elif (node.op_type, attribute.name, attribute.i) == ("Cast", "to", TensorProto.FLOAT):
                attribute.i = TensorProto.DOUBLE
    return double


def evaluate(model, inputs, every=False):
    """Runs the model and returns its outputs by name, floats in double; with `every`, all tensors."""
    evaluator = ReferenceEvaluator(as_double(model), new_ops=OPERATORS)
    evaluator.rt_inits_ = in_double(evaluator.rt_inits_)
    if every:
        return evaluator.run(None, in_double(inputs), intermediate=True)
    return dict(zip(evaluator.output_names, evaluator.run(None, in_double(inputs))))


# ---- inputs -----------------------------------------------------------------------------------


def table_rows(model, name):
    """Number of rows of the smallest table of which an input selects rows. 2 if there is no table, as such
    an input is a mask."""
    rows = {array.name: array.dims[0] for array in model.graph.initializer if array.dims}
    return min((rows[node.input[0]] for node in model.graph.node
                if node.op_type == "Gather" and node.input[1] == name and node.input[0] in rows),
               default=2)


def random_inputs(model, seed):
    """An array for each input: floats are N(0, 1), numbers valid rows of the tables."""
    initialized = {array.name for array in model.graph.initializer}
    random = np.random.default_rng(seed)
    arrays = {}
    for value in model.graph.input:
        if value.name in initialized:
            continue
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if np.issubdtype(dtype, np.floating):
            arrays[value.name] = random.standard_normal(shape, np.float32).astype(dtype)
        else:
            rows = table_rows(model, value.name)
            arrays[value.name] = random.integers(0, rows, shape).astype(dtype)
    return arrays


# ---- cache ------------------------------------------------------------------------------------


def cache_directory():
    """Directory that caches expected outputs: references/ below the cache directory of the program."""
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "tilewright" / "references"


def expected_outputs(model, inputs, seed, directory):
    """Outputs in double for `inputs`, which are random_inputs(model, seed). They are cached in `directory`,
    under a hash of the model, the seed and the sources that compute the outputs."""
    key = hashlib.sha256()
    for source in (__file__, operators.__file__):
        key.update(pathlib.Path(source).read_bytes())
    key.update(model.SerializeToString(deterministic=True))
    key.update(str(seed).encode())
    path = pathlib.Path(directory) / f"{key.hexdigest()}.npz"
    if not path.exists():
        outputs = evaluate(model, inputs)
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}.npz")
        np.savez(unfinished, *outputs.values())
        unfinished.replace(path)
    with np.load(path, allow_pickle=False) as arrays:
        names = [output.name for output in model.graph.output]
        return {name: arrays[f"arr_{i}"] for i, name in enumerate(names)}
