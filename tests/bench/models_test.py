# SPDX-License-Identifier: Apache-2.0
"""Standing networks are what their papers say, valid, repeatable and well conditioned."""

import io
import os
import pathlib
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import onnx

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "models")]

import distribution  # noqa: E402
import make_models  # noqa: E402
import reference  # noqa: E402
from counts import multiply_adds, shapes_of  # noqa: E402
from network import Network  # noqa: E402

NIGHTLY = "TW_NIGHTLY" in os.environ

# As torchvision has them; of BERT the encoder, and with embeddings and pooler as published; of GPT-2 a
# twelfth of its blocks; of the SSD and the U-Net by hand.
PARAMETERS = {
    "bert_base": 12 * 7_087_872,
    "bert_base_tokens": 109_482_240,
    "densenet121": 7_978_856,
    "densenet161": 28_681_000,
    "densenet169": 14_149_480,
    "densenet201": 20_013_928,
    "efficientnet_b0": 5_288_548,
    "gpt2_small_block": 7_087_872,
    "inception_v3": 23_834_568,
    "mobilenet_v2": 3_504_872,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet50": 25_557_032,
    "resnet101": 44_549_160,
    "resnet152": 60_192_808,
    "shufflenet_v2": 2_278_604,
    "squeezenet": 1_235_496,
    "ssd_resnet50": 36_450_094,
    "unet": 31_037_698,
    "vgg11": 132_863_336,
    "vgg13": 133_047_848,
    "vgg16": 138_357_544,
    "vgg19": 143_667_240,
}
# Millions of multiply-adds, as torchvision has them.
MULTIPLY_ADDS = {"resnet18": 1814, "resnet50": 4089, "vgg16": 15470, "mobilenet_v2": 301,
                 "densenet121": 2834, "inception_v3": 5713, "shufflenet_v2": 145}
SMALL = ["gpt2_small_block", "shufflenet_v2", "squeezenet"]


def made(name, **options):
    return make_models.network(name, **options).model()


def bytes_of(model):
    return model.SerializeToString(deterministic=True)


class Outlines(unittest.TestCase):
    def test_every_network_has_its_parameters(self):
        self.assertEqual(PARAMETERS.keys(), make_models.NETWORKS.keys())
        for name, parameters in PARAMETERS.items():
            with self.subTest(name):
                self.assertEqual(make_models.network(name, outline=True).parameters, parameters)

    def test_every_network_is_valid_and_has_the_shapes_that_it_declares(self):
        for name in PARAMETERS:
            for opset in (make_models.FIRST_OPSET, onnx.defs.onnx_opset_version()):
                with self.subTest(name, opset=opset):
                    model = made(name, opset=opset, outline=True)
                    onnx.checker.check_model(model)
                    # Strict: outputs that are inferred otherwise than declared are an error.
                    onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)

    def test_networks_compute_as_much_as_is_published(self):
        for name, millions in MULTIPLY_ADDS.items():
            with self.subTest(name):
                self.assertAlmostEqual(multiply_adds(made(name, outline=True)) / 1e6 / millions, 1,
                                       delta=0.01)

    def test_batches_multiply_the_work(self):
        one, four = (multiply_adds(made("resnet18", batch=n, outline=True)) for n in (1, 4))
        self.assertEqual(four, 4 * one)

    def test_a_network_has_the_arrays_of_its_outline(self):
        outline, model = (made("shufflenet_v2", outline=o).graph for o in (True, False))
        weights = {array.name: list(array.dims) for array in model.initializer}
        shapes = shapes_of(onnx.helper.make_model(outline))
        outlined = {value.name for value in outline.input} - {value.name for value in model.input}
        self.assertEqual([node.op_type for node in outline.node], [n.op_type for n in model.node])
        self.assertTrue(outlined)
        for name in outlined:
            self.assertEqual(weights[name], shapes[name], name)


class Weights(unittest.TestCase):
    def networks(self):
        return list(PARAMETERS) if NIGHTLY else SMALL

    def test_the_same_bytes_twice(self):
        for name in self.networks():
            with self.subTest(name):
                self.assertEqual(bytes_of(made(name)), bytes_of(made(name)))

    def test_weights_do_not_depend_on_the_batch(self):
        one, two = (made("squeezenet", batch=n).graph.initializer for n in (1, 2))
        self.assertEqual([array.raw_data for array in one], [array.raw_data for array in two])

    def test_activations_neither_fade_nor_explode(self):
        for name in self.networks():
            with self.subTest(name):
                model = made(name)
                values = reference.evaluate(model, reference.random_inputs(model, 1), every=True)
                for node in model.graph.node:
                    if node.op_type in ("Conv", "BatchNormalization", "MatMul", "Gemm", "Add"):
                        size = np.sqrt(np.mean(values[node.output[0]] ** 2))
                        self.assertTrue(0.02 < size < 20, f"{node.name}: {size}")

    def test_outputs_depend_on_inputs(self):
        for name in self.networks():
            with self.subTest(name):
                model = made(name)
                a, b = (reference.evaluate(model, reference.random_inputs(model, seed))
                        for seed in (1, 2))
                for output in a:
                    apart = np.sqrt(np.mean((a[output] - b[output]) ** 2))
                    self.assertGreater(apart, 0.02 * np.abs(a[output]).max(), output)


class Statistics(unittest.TestCase):
    """Expected distributions are those of samples."""

    def assert_like(self, quantiles, samples, places):
        mean, variance = distribution.moments(quantiles)
        self.assertAlmostEqual(float(mean[0]), samples.mean(), delta=places)
        self.assertAlmostEqual(float(variance[0]), samples.var(), delta=places)

    def setUp(self):
        self.samples = 1.5 * np.random.default_rng(1).standard_normal((100_000, 9)) + 0.5
        self.quantiles = distribution.gaussian(np.array([0.5]), np.array([2.25]))

    def test_of_functions(self):
        self.assert_like(distribution.applied(np.tanh, self.quantiles), np.tanh(self.samples), 0.02)

    def test_of_maxima(self):
        rectified = distribution.applied(lambda x: np.maximum(x, 0), self.quantiles)
        self.assert_like(distribution.largest_of(rectified, 4),
                         np.maximum(self.samples[:, :4], 0).max(axis=1), 0.1)

    def test_of_means_sums_and_products(self):
        q, s = self.quantiles, self.samples
        self.assert_like(distribution.mean_of(q, 9), s.mean(axis=1), 0.02)
        self.assert_like(distribution.sum_of(q, q), s[:, 0] + s[:, 1], 0.1)
        self.assert_like(distribution.product_of(q, q), s[:, 0] * s[:, 1], 0.2)

    def test_padding_lowers_what_convolutions_are_expected_to_give(self):
        net = Network("padded")
        x = net.conv(net.input("x", [1, 64, 4, 4]), 64, 3)
        y = net.conv(net.relu(x), 64, 3)
        net.output("y", y)
        model = net.model()
        values = [reference.evaluate(model, reference.random_inputs(model, seed))["y"]
                  for seed in range(50)]
        self.assertAlmostEqual(np.var(values), 1, delta=0.15)
        self.assertAlmostEqual(distribution.moments(y.spread)[1].mean(), 1, delta=0.05)


class CommandLine(unittest.TestCase):
    def test_writes_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.onnx"
            make_models.main(["gpt2_small_block", "-o", str(path), "--batch", "2", "--opset", "20"])
            model = onnx.load(path)
        self.assertEqual(model.opset_import[0].version, 20)
        self.assertEqual([d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim],
                         [2, 128, 768])
        self.assertIn("Gelu", [node.op_type for node in model.graph.node])

    def test_lists_every_network(self):
        text = io.StringIO()
        with redirect_stdout(text):
            make_models.main(["--list"])
        self.assertEqual([line.split()[0] for line in text.getvalue().splitlines()[1:]],
                         list(make_models.NETWORKS))
        self.assertIn("25.56", text.getvalue())

    def test_refuses_what_it_does_not_know(self):
        for arguments, words in ((["alexnet"], "alexnet"), ([], "--list"),
                                 (["unet", "--batch", "0"], "--batch 0"),
                                 (["unet", "--opset", "9"], "17 to")):
            text = io.StringIO()
            with redirect_stderr(text), self.assertRaises(SystemExit) as ended:
                make_models.main(arguments)
            self.assertEqual(ended.exception.code, 2)
            self.assertIn(words, text.getvalue())


if __name__ == "__main__":
    unittest.main()
