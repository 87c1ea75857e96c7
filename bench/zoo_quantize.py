# SPDX-License-Identifier: Apache-2.0
"""Quantizes a model with ONNX Runtime's quantizer: `zoo_quantize.py SPECIFICATION MODEL FILE`.

SPECIFICATION is JSON: `shapes` of the inputs, and `form`: "qdq", with QuantizeLinear and DequantizeLinear around
each operator; "operators", with QLinearConv, QGemm and the like; "dynamic", whose activations are quantized at
each call. Weights have 8 bits and a scale a channel. The ranges of activations are those of four random inputs.

ONNX Runtime's sums of products of operators saturate in 16 bits on x86 without VNNI. Their weights have 7 bits, as
its documentation says, so that it computes what the model means.
"""
import json
import logging
import sys

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static

SEED = 1
SAMPLES = 4
TOKENS = 1000  # of the vocabularies of exports


class Samples(CalibrationDataReader):
    def __init__(self, model, shapes):
        random = np.random.default_rng(SEED)
        kinds = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
        self.samples = iter([{name: self.drawn(random, kinds[name], shape) for name, shape in shapes.items()}
                             for _ in range(SAMPLES)])

    @staticmethod
    def drawn(random, kind, shape):
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
        if np.issubdtype(dtype, np.integer):
            return random.integers(0, TOKENS, shape).astype(dtype)
        return random.standard_normal(shape).astype(dtype)

    def get_next(self):
        return next(self.samples, None)


def main(specification, path, written):
    logging.disable(logging.WARNING)
    specification = json.loads(specification)
    form = specification["form"]
    if form == "dynamic":
        quantize_dynamic(path, written, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
        return
    quantize_static(path, written, Samples(onnx.load(path), specification["shapes"]), per_channel=True,
                    reduce_range=form == "operators",
                    quant_format=QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main(*sys.argv[1:])
