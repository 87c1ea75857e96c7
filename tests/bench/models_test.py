# SPDX-License-Identifier: Apache-2.0
"""Tests that the standing networks are as their papers say, valid, repeatable and well
conditioned."""

import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import onnx

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "models")]

import large_networks  # noqa: E402
import make_models  # noqa: E402
import reference  # noqa: E402
from counts import multiply_adds, shapes_of  # noqa: E402
from network import FEWEST_POSITIONS, Network, statistics  # noqa: E402

NIGHTLY = "TW_NIGHTLY" in os.environ

# Numbers of parameters, from torchvision where it has the network. Those of the two BERT networks
# are of the encoder and of the published model with embeddings and pooler; that of GPT-2 is a
# twelfth of its blocks; those of the SSD and the U-Net were counted by hand.
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
    "planted_branches": 3_562,
    "planted_mixed_blocks": 2_430,
    "planted_shared_transforms": 3_954,
    "planted_three_layouts": 36_862,
    "pruned_1x16": 4_722_432,
    "pruned_4x4": 4_722_432,
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
# Millions of multiply-adds, from torchvision.
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
                    # In strict mode, an output whose inferred shape differs from the declared one
                    # is an error.
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

    def test_the_same_bytes_on_any_number_of_threads(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in PARAMETERS if NIGHTLY else ["squeezenet"]:
                with self.subTest(name):
                    contents = []
                    for threads in ("1", "2"):
                        path = pathlib.Path(folder) / "net.onnx"
                        subprocess.run([sys.executable, BENCH / "models" / "make_models.py", name, "-o", path],
                                       env={**os.environ, "OPENBLAS_NUM_THREADS": threads}, check=True)
                        contents.append(path.read_bytes())
                    self.assertEqual(contents[0], contents[1])

    def test_weights_depend_neither_on_the_batch_nor_on_the_opset(self):
        plain = make_models.network("shufflenet_v2").arrays
        for options in ({"batch": 2}, {"opset": onnx.defs.onnx_opset_version()}):
            arrays = make_models.network("shufflenet_v2", **options).arrays
            for name, array in plain.items():
                if not name.startswith("constant"):  # constants are shapes, which may differ
                    np.testing.assert_array_equal(arrays[name], array, name)

    def test_activations_neither_fade_nor_explode(self):
        for name in self.networks():
            with self.subTest(name):
                model = made(name)
                values = reference.evaluate(model, reference.random_inputs(model, 1), every=True)
                for node in model.graph.node:
                    if node.op_type in ("Conv", "BatchNormalization", "MatMul", "Gemm", "LayerNormalization"):
                        size = np.sqrt(np.mean(values[node.output[0]] ** 2))
                        self.assertTrue(0.1 < size < 15, f"{node.name}: {size}")

    def test_outputs_depend_on_inputs(self):
        for name in self.networks():
            with self.subTest(name):
                model = made(name)
                a, b = (reference.evaluate(model, reference.random_inputs(model, seed))
                        for seed in (1, 2))
                for output in a:
                    apart = np.sqrt(np.mean((a[output] - b[output]) ** 2))
                    self.assertGreater(apart, 0.02 * np.abs(a[output]).max(), output)

    def test_small_changes_of_inputs_stay_small(self):
        for name in self.networks():
            with self.subTest(name):
                model = made(name)
                inputs = reference.random_inputs(model, 1)
                exact = reference.evaluate(model, inputs)
                nudged = {key: array * np.float32(1 + 1e-6) if array.dtype == np.float32 else array
                          for key, array in inputs.items()}
                for output, value in reference.evaluate(model, nudged).items():
                    error = np.abs(value - exact[output]).max() / np.abs(exact[output]).max()
                    self.assertLess(error, 5e-5, output)


class Builder(unittest.TestCase):
    """Tests that the values and statistics which Network tracks while it is built are those of the
    finished model."""

    def values_of(self, net):
        model = net.model()
        onnx.checker.check_model(model, full_check=True)
        inputs = {value.name: tensor.value for value, tensor in zip(net.inputs, self.given)}
        return reference.evaluate(model, inputs, every=True)

    def tensors(self, *layers, shape=(1, 8, 9, 9)):
        """Returns a network of these layers, one after the other, and its tensors."""
        net = Network("test")
        x = net.input("x", list(shape))
        self.given, tensors = [x], []
        for layer in layers:
            x = layer(net, x)
            tensors.append(x)
        net.output("out", net.relu(x))
        return net, tensors

    def test_linear_layers_with_a_bias_are_standardized(self):
        for layer, shape in ((lambda net, x: net.conv(x, 16, 3, stride=2), (1, 8, 64, 64)),
                             (lambda net, x: net.conv(x, 16, 3, groups=8), (1, 8, 64, 64)),
                             (lambda net, x: net.conv_transpose(x, 16, 2), (1, 8, 32, 32)),
                             (lambda net, x: net.linear(x, 16), (1, 512, 8)),
                             (lambda net, x: net.classifier(x, 1000), (1, 50))):
            net, (y,) = self.tensors(layer, shape=shape)
            value = self.values_of(net)[y.name]
            np.testing.assert_allclose(value, y.value, rtol=1e-5, atol=1e-6)
            self.assertAlmostEqual(value.var(), 1, delta=0.05)
            self.assertAlmostEqual(value.mean(), 0, delta=0.1)

    def test_batch_norm_normalises_what_it_is_given(self):
        net, (raw, y) = self.tensors(lambda net, x: net.conv(net.relu(x), 16, 3, bias=False),
                                     lambda net, x: net.batch_norm(x, size=0.5), shape=(1, 8, 40, 40))
        value = self.values_of(net)[y.name]
        np.testing.assert_allclose(value, y.value, rtol=1e-6)
        scale, shift = (net.arrays["batchnormalization_1." + part] for part in ("scale", "bias"))
        np.testing.assert_allclose(value.mean(axis=(0, 2, 3)), shift, atol=2e-3)
        np.testing.assert_allclose(value.std(axis=(0, 2, 3)), scale, rtol=2e-3)
        self.assertTrue(0.25 <= scale.min() and scale.max() <= 0.75)

    def test_few_positions_tell_nothing_of_a_channel(self):
        value = np.random.default_rng(1).standard_normal((1, 400, 2, 2)) + 3
        mean, variance = statistics(value, 1)
        self.assertEqual(set(mean), {0})
        np.testing.assert_allclose(variance, np.mean(value**2))
        many = np.random.default_rng(1).standard_normal((1, 2, FEWEST_POSITIONS, 1)) + 3
        np.testing.assert_allclose(statistics(many, 1)[0], many.mean(axis=(0, 2, 3)))

    def test_constant_channels_keep_a_variance(self):
        value = np.random.default_rng(1).standard_normal((1, 2, 10, 10))
        value[0, 1] = 7
        _, variance = statistics(value, 1)
        np.testing.assert_allclose(variance, [value[0, 0].var(), 0.005 * value[0, 0].var()])


class LargeNetworks(unittest.TestCase):
    def test_they_are_valid_and_grow_with_the_nodes_asked_for(self):
        for nodes in (180, 600):
            with self.subTest(nodes):
                model = large_networks.model_of(nodes)
                onnx.checker.check_model(model)
                onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
                self.assertTrue(nodes <= len(model.graph.node) < nodes + 100)

    def test_outputs_are_of_order_one_and_depend_on_inputs(self):
        model = large_networks.model_of(600)
        a, b = (reference.evaluate(model, reference.random_inputs(model, seed)) for seed in (1, 2))
        for output in a:
            self.assertTrue(0.01 < np.abs(a[output]).max() < 100, output)
            self.assertGreater(np.abs(a[output] - b[output]).max(), 1e-3, output)


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
