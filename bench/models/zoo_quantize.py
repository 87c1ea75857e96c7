# SPDX-License-Identifier: Apache-2.0
"""Quantizes a model with ONNX Runtime's quantizer: `zoo_quantize.py SPECIFICATION MODEL FILE`.

SPECIFICATION is JSON: `shapes` of the inputs, and `form`: "qdq", with QuantizeLinear and DequantizeLinear around
each operator; "operators", with QLinearConv, QGemm and the like; "dynamic", whose activations are quantized at
each call; "4-bit", whose constant factors of MatMul have 4 bits (MatMulNBits with accuracy_level=4). Weights of the
other forms have 8 bits and a scale a channel. The ranges of activations are those of four random inputs.

ONNX Runtime's sums of products in quantized operators saturate at 16 bits on x86 without VNNI. So the weights of
"operators" have 7 bits, as its documentation recommends, and its results are right.
"""
import json
import logging
import sys

import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from networks import random_inputs
from zoo_table import static_model

SEED = 1
SAMPLES = 4


class Samples(CalibrationDataReader):
    def __init__(self, model, shapes):
        static_model(model, shapes)
        self.samples = iter([random_inputs(model, SEED + i) for i in range(SAMPLES)])

    def get_next(self):
        return next(self.samples, None)


def main(specification, path, written):
    logging.disable(logging.WARNING)
    specification = json.loads(specification)
    form = specification["form"]
    if form == "4-bit":
        quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True, accuracy_level=4)
        quantizer.process()
        onnx.save(quantizer.model.model, written)
        return
    if form == "dynamic":
        quantize_dynamic(path, written, per_channel=True, reduce_range=True, weight_type=QuantType.QInt8)
        return
    quantize_static(path, written, Samples(onnx.load(path), specification["shapes"]), per_channel=True,
                    reduce_range=form == "operators",
                    quant_format=QuantFormat.QDQ if form == "qdq" else QuantFormat.QOperator,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


if __name__ == "__main__":
    main(*sys.argv[1:])
