# SPDX-License-Identifier: Apache-2.0
"""Tests the comparison of networks: the reference in double precision, the rounds, and the program
on a fake runtime."""

import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "models")]

import network_rounds  # noqa: E402
import networks  # noqa: E402, which adds the folder of models to the path
import first_class  # noqa: E402
import reference  # noqa: E402
from network_rounds import (Watch, contention, interleave, median_call, median_of,  # noqa: E402
                            ratios, read_counters)
from onnx.reference import ReferenceEvaluator  # noqa: E402


def model_of(nodes, inputs, outputs, arrays=()):
    """Makes a model. Its tensors are given as (name, shape, type); without a type they are f32."""
    def values(described):
        return [helper.make_tensor_value_info(name, kind[0] if kind else TensorProto.FLOAT, shape)
                for name, shape, *kind in described]
    graph = helper.make_graph(nodes, "test", values(inputs), values(outputs), [
        numpy_helper.from_array(array, name) for name, array in dict(arrays).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def random(*shape):
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)


class Reference(unittest.TestCase):
    def agrees(self, node, x, arrays=None):
        """Compares with the evaluator of the onnx package, which computes in single precision
        here."""
        model = model_of([node], [("x", x.shape)], [("y", None)], arrays or {})
        ours = reference.evaluate(model, {"x": x})["y"]
        theirs = ReferenceEvaluator(model).run(None, {"x": x})[0]
        self.assertEqual(ours.dtype, np.float64)
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)

    def test_convolutions(self):
        x = random(2, 6, 9, 8)
        for attributes in ({}, {"strides": [2, 1], "pads": [1, 2, 0, 1]}, {"dilations": [2, 3]},
                           {"auto_pad": "SAME_UPPER", "strides": [2, 2]}):
            for group in (1, 3, 6):
                with self.subTest(attributes, group=group):
                    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], group=group, **attributes)
                    self.agrees(node, x, {"w": random(12, 6 // group, 3, 2), "b": random(12)})

    def test_transposed_convolutions(self):
        for attributes in ({"strides": [2, 2]}, {"strides": [2, 3], "pads": [1, 0, 1, 2]},
                           {"dilations": [2, 1]}, {"strides": [2, 2], "output_padding": [1, 1]}):
            with self.subTest(attributes):
                node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **attributes)
                self.agrees(node, random(1, 3, 5, 4), {"w": random(3, 2, 3, 3), "b": random(2)})

    def test_pooling(self):
        for attributes in ({}, {"strides": [2, 2]}, {"strides": [2, 2], "ceil_mode": 1},
                           {"pads": [1, 1, 1, 1], "strides": [2, 1]}):
            for op, extra in (("MaxPool", {}), ("AveragePool", {}),
                              ("AveragePool", {"count_include_pad": 1})):
                with self.subTest(op, **attributes, **extra):
                    node = helper.make_node(op, ["x"], ["y"], kernel_shape=[3, 2], **attributes, **extra)
                    self.agrees(node, random(1, 2, 8, 8))

    def test_no_window_begins_in_the_padding_behind_the_input(self):
        node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2],
                                pads=[0, 0, 1, 1], ceil_mode=1)
        self.agrees(node, random(1, 2, 6, 6))
        model = model_of([node], [("x", (1, 2, 6, 6))], [("y", None)])
        self.assertEqual(reference.evaluate(model, {"x": random(1, 2, 6, 6)})["y"].shape, (1, 2, 2, 3))

    def test_floats_are_doubles_throughout(self):
        nodes = [helper.make_node("Constant", [], ["third"],
                                  value=numpy_helper.from_array(np.float32(1 / 3), "third")),
                 helper.make_node("Cast", ["ids"], ["floats"], to=TensorProto.FLOAT),
                 helper.make_node("Add", ["x", "floats"], ["sum"]),
                 helper.make_node("Mul", ["sum", "third"], ["product"]),
                 helper.make_node("Erf", ["product"], ["y"])]
        model = model_of(nodes, [("x", [2]), ("ids", [2], TensorProto.INT64)], [("y", [2])])
        x, ids = np.array([0.1, 0.7], np.float32), np.array([1, 2])
        outputs = reference.evaluate(model, {"x": x, "ids": ids})["y"]
        expected = [math.erf((float(a) + int(b)) * float(np.float32(1 / 3))) for a, b in zip(x, ids)]
        np.testing.assert_allclose(outputs, expected, rtol=1e-15)

    def test_numbers_are_rows_of_the_tables_that_they_select_from(self):
        nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]),
                 helper.make_node("Gather", ["small", "ids"], ["others"]),
                 helper.make_node("Add", ["rows", "others"], ["y"])]
        ids = TensorProto.INT64
        model = model_of(nodes, [("ids", [1000], ids), ("mask", [1000], ids)], [("y", [1000, 2])],
                         {"table": random(50, 2), "small": random(7, 2)})
        inputs = reference.random_inputs(model, 3)
        self.assertEqual(set(inputs["ids"]), set(range(7)))
        self.assertEqual(set(inputs["mask"]), {0, 1})
        np.testing.assert_array_equal(inputs["ids"], reference.random_inputs(model, 3)["ids"])

    def test_outputs_are_kept(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y"])], [("x", [4])], [("y", [4])])
        inputs = reference.random_inputs(model, 1)
        with tempfile.TemporaryDirectory() as folder:
            def expected(given, seed=1):
                return reference.expected_outputs(model, given, seed, folder)["y"]
            np.testing.assert_array_equal(expected(inputs), np.maximum(inputs["x"], 0))
            # The outputs are not computed again, even with other inputs.
            others = {"x": np.float32([1, 2, 3, 4])}
            np.testing.assert_array_equal(expected(others), np.maximum(inputs["x"], 0))
            np.testing.assert_array_equal(expected(others, seed=2), others["x"])
            model.graph.node[0].op_type = "Neg"
            np.testing.assert_array_equal(expected(others), -others["x"])


class FakeContender:
    """A contender that takes `seconds` of a clock that only calls advance."""
    now = 0.0

    def __init__(self, seconds, log, name):
        self.seconds, self.log, self.name = seconds, log, name

    def run(self):
        FakeContender.now += self.seconds
        self.log.append(self.name)


class Rounds(unittest.TestCase):
    def test_contenders_take_turns_forth_and_back(self):
        log, pauses = [], []
        contenders = [FakeContender(s, log, n) for n, s in (("a", 1.0), ("b", 2.0), ("c", 4.0))]

        def pause(seconds):
            pauses.append(seconds)
            log.append("|")

        times = interleave(contenders, 2, min_batch_s=4.0, pause_s=0.5,
                           clock=lambda: FakeContender.now, sleep=pause)
        self.assertEqual(times, [[(1.0, 1.0)] * 2, [(2.0, 2.0)] * 2, [(4.0, 4.0)] * 2])
        turns = [turn[0] for turn in "".join(log).split("|")[1:]]
        self.assertEqual("".join(turns), "abccba" * 2)
        self.assertEqual(pauses, [0.5] * 12)
        # One call warms up, then follows a batch.
        self.assertEqual("".join(log).split("|")[1], "a" * 5)

    def counted(self, disturbed):
        """Returns results of interleave() under a watch. `disturbed` says for each round whether
        the hypervisor took time."""
        contender, steal, verdicts = FakeContender(1.0, [], "a"), [0.0], iter(disturbed)

        def read():
            return {"switches": 0, "steal": steal[0], "pressure": 0}

        class Round(Watch):
            def accepts(self, now):
                steal[0] += 1.0 if next(verdicts) else 0.0
                return super().accepts(now)

        watch = Round(read)
        times = interleave([contender], 2, min_batch_s=1.0, pause_s=0, clock=lambda: FakeContender.now,
                           sleep=lambda _: None, watch=watch)
        return len(times[0]), watch.count, watch.disturbed

    def test_disturbed_rounds_are_taken_again_at_most_as_often_as_wanted(self):
        self.assertEqual(self.counted([False, False]), (2, 2, ""))
        self.assertEqual(self.counted([True, False, False]),
                         (2, 2, "25 % of a processor taken by the hypervisor"))
        self.assertEqual(self.counted([True, False, True, True])[:2], (1, 1))
        self.assertEqual(self.counted([True] * 4)[:2], (4, 0))

    def test_a_watch_judges_as_the_tuner_does(self):
        header = (BENCH.parent / "tuner" / "measure" / "contention.h").read_text()
        for name, ours in (("switches_per_second", network_rounds.SWITCHES_PER_SECOND),
                           ("least_switches", network_rounds.LEAST_SWITCHES),
                           ("steal_share", network_rounds.STEAL_SHARE),
                           ("pressure_share", network_rounds.PRESSURE_SHARE)):
            self.assertEqual(float(re.search(rf" {name} = ([0-9.]+);", header)[1]), ours)
        still = {"switches": 0, "steal": 0, "pressure": 0}
        for changed, reason in (({}, ""), ({"switches": 49}, ""), ({"steal": 0.01, "pressure": 0.09}, ""),
                                ({"switches": 51}, "51 involuntary context switches in 1000 ms"),
                                ({"pressure": 0.2}, "tasks waited for a processor 20 % of the time")):
            self.assertEqual(contention(still, {**still, **changed}, 1.0), reason)

    def test_counters_are_those_of_the_system(self):
        with tempfile.TemporaryDirectory() as folder:
            stat, pressure = pathlib.Path(folder) / "stat", pathlib.Path(folder) / "cpu"
            stat.write_text("cpu0 9 9 9 9 9 9 9 9 9 9\ncpu  1 2 3 4 5 6 7 800 9 10\n")
            pressure.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull total=7\n")
            counters = read_counters(stat, pressure)
            self.assertEqual((counters["steal"], counters["pressure"]),
                             (800 / os.sysconf("SC_CLK_TCK"), 2.5))
            self.assertGreaterEqual(counters["switches"], 0)
            missing = read_counters(stat.with_name("no"), pressure.with_name("no"))
            self.assertEqual((missing["steal"], missing["pressure"]), (0, 0))

    def test_medians_have_intervals(self):
        median = median_of(list(range(1, 101)))
        self.assertEqual(median.value, 50.5)
        self.assertTrue(38 <= median.low <= 42 and 59 <= median.high <= 63, median)
        self.assertEqual(median_of([3.0]).low, 3.0)

    def test_an_interval_is_the_narrowest_that_has_95_per_cent(self):
        for count in range(6, 41):
            median = median_of(range(count))
            outside = [2 * sum(math.comb(count, below) for below in range(low + 1)) / 2 ** count
                       for low in (median.low, median.low + 1)]
            self.assertTrue(outside[0] <= 0.05 < outside[1], (count, outside))
            self.assertEqual(median.high, count - 1 - median.low)

    def test_the_two_turns_of_a_round_are_one_value(self):
        median = median_call([(n, n + 1) for n in range(8)])
        self.assertEqual((median.value, median.low, median.high), (4, 0.5, 7.5))

    def test_ratios_are_of_rounds(self):
        self.assertEqual(ratios([(1, 1), (2, 2)], [(2, 2), (2, 2)]), [2.0, 1.0])


class Errors(unittest.TestCase):
    def error(self, outputs):
        network = networks.Network.__new__(networks.Network)
        network.expected = {"y": np.array([1.0, -4.0])}
        return network.error_of({"y": np.array(outputs, np.float32)})

    def test_are_shares_of_the_largest_output(self):
        self.assertEqual(self.error([1, -4]), 0)
        self.assertEqual(self.error([2, -4]), 0.25)

    def test_outputs_may_be_zero_or_truth_values(self):
        network = networks.Network("", None, "", {}, {"y": np.zeros(2), "is": np.array([True, False])})
        self.assertEqual(network.error_of({"y": np.zeros(2), "is": np.array([True, False])}), 0)
        self.assertEqual(network.error_of({"y": np.zeros(2), "is": np.array([True, True])}), 1)
        self.assertEqual(network.error_of({"y": np.array([0, 0.5]), "is": np.array([True, False])}), 0.5)

    def test_what_is_no_number_is_wrong(self):
        self.assertEqual(self.error([math.nan, -4]), math.inf)
        self.assertEqual(self.error([math.inf, -4]), math.inf)


@unittest.skipUnless("TW_FAKE_RUNTIME" in os.environ, "[SKIP] no library: ctest names it")
class Program(unittest.TestCase):
    """Tests networks.py on a fake runtime whose model doubles 4 numbers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "runtime").mkdir()
        (self.folder / "tools").mkdir()
        (self.folder / "runtime" / "libtilewright_runtime.so").symlink_to(os.environ["TW_FAKE_RUNTIME"])
        doctor = {"findings": [{"name": "peak", "text": "100.0 GFLOP/s on one thread (avx2), 190.5 on 2"},
                               {"name": "program", "text": "'tilewright', version 1.2.3"}]}
        program = self.folder / "tools" / "tilewright"
        program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(doctor)}\nEND\n")
        program.chmod(0o755)

    def write(self, name, node, shape, arrays=()):
        path = self.folder / name
        onnx.save(model_of([node], [("x", shape)], [("y", shape)], arrays), path)
        return path

    def run_program(self, model, artifact, *arguments):
        return subprocess.run(
            [sys.executable, BENCH / "models" / "networks.py", "--build", self.folder, "--model", model, "--artifact",
             artifact, "--peer", "", "--rounds", "2", *arguments], capture_output=True, text=True, timeout=120,
            env={**os.environ, "XDG_CACHE_HOME": str(self.folder)})

    def doubling(self, shape=(4,)):
        return self.write("double.onnx", helper.make_node("Add", ["x", "x"], ["y"]), shape)

    def test_times_what_is_right(self):
        output = self.folder / "out.json"
        done = self.run_program(self.doubling(), "double.twart", "--output", output)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(output.read_text())
        ours = document["contenders"][0]
        self.assertEqual((ours["name"], ours["version"], ours["error"]), ("tilewright", "9.8.7", 0))
        self.assertGreater(ours["median_us"], 0)
        self.assertEqual(document["program_version"], "1.2.3")
        self.assertIn("tilewright 9.8.7", done.stdout)

    def test_an_output_that_cannot_be_written_is_told_before_the_work(self):
        done = self.run_program(self.doubling(), "double.twart", "--output", self.folder / "none" / "out.json")
        self.assertEqual((done.returncode, done.stdout), (7, ""))
        self.assertRegex(done.stderr, r"\Atw bench: \[bench\] --output [^\n]*: there is no directory [^\n]*\n\Z")

    def test_symbolic_dimensions_are_given(self):
        path = self.doubling(["batch"])
        done = self.run_program(path, "double.twart")
        self.assertEqual(done.returncode, 2)
        self.assertIn("dimensions without a value: batch", done.stderr)
        done = self.run_program(path, "double.twart", "--dim", "batch=4")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_wrong_is_not_timed(self):
        triple = helper.make_node("Mul", ["x", "w"], ["y"])
        path = self.write("triple.onnx", triple, (4,), {"w": np.float32([3])})
        done = self.run_program(path, "double.twart", "--format", "json")
        self.assertEqual(done.returncode, 6, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["contenders"], [])
        self.assertIn("tilewright: outputs differ by", document["rows"][0]["error"])

    def test_failures_are_one_line(self):
        path, other = self.doubling(), self.write("other.onnx", helper.make_node("Neg", ["x"], ["y"]), (5,))
        for arguments, code, words in (((path, "damaged.twart"), 5, "damaged"),
                                       ((other, "double.twart"), 2, "expected an artifact of this network"),
                                       (("no_such", "double.twart"), 2, "neither a file nor one of"),
                                       ((path, "double.twart", "--threads", "4096"), 2, "cores are usable")):
            done = self.run_program(*arguments)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertRegex(done.stderr, r"\Atw bench: \[[^\]]+\] [^\n]+\n\Z")
            self.assertIn(words, done.stderr)


class Linear:
    """A contender whose outputs are its inputs times a matrix."""

    def __init__(self, name, matrix):
        self.name, self._matrix = name, matrix
        self._input, self._output = np.zeros((1, len(matrix))), np.zeros((1, matrix.shape[1]))

    def inputs(self):
        return {"x": self._input}

    def outputs(self):
        return {"y": self._output}

    def run(self):
        self._output[...] = self._input @ self._matrix


class FirstClasses(unittest.TestCase):
    network = networks.Network("net", None, "", {"x": np.zeros((1, 5), np.float32)}, {})

    def test_equal_networks_agree_and_others_do_not(self):
        matrix = random(5, 7).astype(np.float64)
        contenders = [Linear("equal", matrix), Linear("near", matrix + 1e-5), Linear("other", -matrix)]
        found = first_class.agreement(self.network, contenders, Linear("double", matrix), 40, seed=1)
        self.assertEqual(found["images"], 40)
        self.assertGreater(found["clear"], 30)
        self.assertEqual(found["equal"], {"equal": found["clear"], "near": found["clear"], "other": 0})

    def test_images_that_double_is_not_clear_about_do_not_count(self):
        matrix = np.ones((5, 7))
        found = first_class.agreement(self.network, [], Linear("double", matrix), 3, seed=1)
        self.assertEqual((found["clear"], found["equal"]), (0, {}))

    def test_all_floats_become_double(self):
        model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], [("x", (1, 5))], [("y", None)],
                         {"w": random(5, 7)})
        double = first_class.double_model(model)
        kinds = {value.type.tensor_type.elem_type for value in [*double.graph.input, *double.graph.output]}
        self.assertEqual(kinds, {TensorProto.DOUBLE})
        self.assertEqual(double.graph.initializer[0].data_type, TensorProto.DOUBLE)


class Peak(unittest.TestCase):
    def test_is_that_of_as_many_threads(self):
        findings = {"peak": "117.3 GFLOP/s on one thread (avx512), 233.1 on 2, right now"}
        self.assertEqual(networks.peak_of(findings, 1), 117.3)
        self.assertEqual(networks.peak_of(findings, 2), 233.1)
        self.assertIsNone(networks.peak_of(findings, 3))
        self.assertIsNone(networks.peak_of({}, 1))


if __name__ == "__main__":
    unittest.main()
