#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests networks from ONNX models: reading, tuning and calling them, and the exceptions for faulty
models."""
import contextlib
import io
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy as np

import tilewright as tw
from tilewright import onnx_writer as writer

M, K, N = 3, 8, 4


def network(op="Relu", weights=None, port=writer.port):
    """Returns the model y = op(x w)."""
    weights = np.ones((K, N), np.float32) if weights is None else weights
    k, n = weights.shape
    return writer.model(
        [writer.node("MatMul", ["x", "w"], ["p"]), writer.node(op, ["p"], ["y"])],
        [writer.tensor("w", writer.FLOAT, weights.shape, weights.tobytes())],
        [port("x", writer.FLOAT, [M, k])], [port("y", writer.FLOAT, [M, n])])


class Onnx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # The program's database and predictions are not those of the user who runs the test.
        places = {"XDG_DATA_HOME": folder.name, "XDG_CACHE_HOME": folder.name}
        patch = unittest.mock.patch.dict(os.environ, places)
        patch.start()
        self.addCleanup(patch.stop)
        random = np.random.default_rng(1)
        self.weights = random.normal(size=(K, N)).astype(np.float32)
        self.x = random.normal(size=(M, K)).astype(np.float32)

    def written(self, model):
        path = self.folder / "net.onnx"
        path.write_bytes(model)
        return path

    def test_a_plan_leaves_demand_which_a_store_has(self):
        loaded, database = tw.onnx.load(self.written(network(weights=self.weights))), self.folder / "team.db"
        for _ in range(2):
            loaded.tune(effort="none", progress=False, db=database)
        store = tw.Store(database, "r", shipped="none")
        [demand] = store.demands()
        self.assertEqual((demand.name, demand.threads, demand.asked), ("net", 1, 2))
        self.assertRegex(demand.hash, "^[0-9a-f]{64}$")
        self.assertEqual(demand.used_ns, demand.best_ns)
        self.assertEqual(demand.measured_share, 0)
        self.assertGreater(demand.expected_saving, 0)
        self.assertLessEqual(demand.first_ms, demand.asked_ms)
        for kernel in demand.kernels:
            self.assertGreater(kernel.latency_ns, 0)
            self.assertEqual((kernel.trials, kernel.best_ns, kernel.is_measured), (0, 0, False))
            self.assertTrue(kernel.workload_text.startswith(kernel.workload))
        self.assertIn("<Demand of net: ", repr(demand))
        self.assertIn("0 trials", repr(demand.kernels[0]))
        with self.assertRaises(AttributeError):
            demand.name = "other"
        self.assertEqual([d.hash for d in store.demands(target="host", device=demand.device, limit=5)], [demand.hash])
        self.assertEqual(store.demands(device="another"), [])
        self.assertEqual(store.demands(target="arm-64-linux"), [])
        with self.assertRaisesRegex(tw.UsageError, "limit is -1"):
            store.demands(limit=-1)
        with self.assertRaises(tw.UsageError):
            store.demands(target="abacus")

    def test_a_network_is_planned_again(self):
        loaded, database = tw.onnx.load(self.written(network(weights=self.weights))), self.folder / "team.db"
        output = self.folder / "out.twart"
        first = loaded.refresh(output, db=database, progress=False)
        self.assertEqual((first.is_kept, first.former_ns, first.latency_ns), (False, None, None))
        before = output.read_bytes()
        again = loaded.refresh(output, db=database, budget="20s", progress=False)
        assert again.former_ns is not None and again.latency_ns is not None
        self.assertTrue(again.is_measured)
        self.assertEqual(again.is_kept, again.latency_ns > 0.99 * again.former_ns)
        if again.is_kept:
            self.assertEqual(output.read_bytes(), before)
        np.testing.assert_allclose(again.model(self.x), np.maximum(self.x @ self.weights, 0), rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(tw.InvalidError, "another network"):
            tw.onnx.load(self.written(network(weights=self.weights[:, :2]))).refresh(output, db=database, progress=False)
        with self.assertRaisesRegex(tw.UsageError, "budget is 0"):
            loaded.refresh(output, db=database, budget=0)

    def test_a_model_is_read_planned_and_called(self):
        loaded = tw.onnx.load(self.written(network(weights=self.weights)))
        self.assertEqual(repr(loaded), "<Network net: 2 operators>")
        self.assertEqual([(a.name, a.shape, a.dtype) for a in loaded.inputs], [("x", [M, K], tw.Float32)])
        self.assertEqual([(a.name, a.shape) for a in loaded.outputs], [("y", [M, N])])
        self.assertIn("p = dense(x, w) m=3 n=4 k=8", str(loaded.graph))
        self.assertEqual(len(loaded.graph.workloads), 2)
        output = self.folder / "out.twart"
        model = loaded.tune(effort="none", progress=False, db=self.folder / "none.db", output=output)
        expected = np.maximum(self.x @ self.weights, 0)
        np.testing.assert_allclose(model(self.x), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(tw.Model.open(str(output))(self.x), model(self.x))

    def test_bytes_serve_too_and_nothing_is_left_behind(self):
        model = tw.onnx.loads(network(weights=self.weights), name="mine").tune(effort="none", progress=False)
        self.assertEqual(model.name, "mine")
        np.testing.assert_allclose(model(self.x), np.maximum(self.x @ self.weights, 0), rtol=1e-4, atol=1e-5)

    def test_tuning_tells_its_progress(self):
        database, told = self.folder / "tuning.db", []
        with contextlib.redirect_stderr(io.StringIO()) as said:
            tw.onnx.loads(network(), name="mine").tune(trials=1, budget=600, db=database, progress=True,
                                                  on_progress=told.append)
        self.assertIn("mine: ", said.getvalue())
        self.assertGreater(sum(told[-1].trials.values()), 0)
        self.assertGreater(len(tw.Store(str(database))), 0)

    def test_a_store_serves_and_on_progress_may_read_it(self):
        store, seen = tw.Store(self.folder / "shared.db"), []
        tw.onnx.loads(network()).tune(trials=1, budget=600, db=store, on_progress=lambda _: seen.append(len(store)))
        self.assertGreater(len(seen), 0)
        self.assertGreater(len(store), 0)
        self.assertEqual(len(store.demands()), 1)

    def test_a_target_that_does_not_run_here_is_refused(self):
        with self.assertRaisesRegex(tw.UnsupportedError, "cannot be loaded here"):
            tw.onnx.loads(network()).tune(effort="none", target="arm-64-linux")
        with self.assertRaisesRegex(tw.UnsupportedError, "cannot be measured here"):
            tw.onnx.loads(network()).tune(target="arm-64-linux")

    def test_what_on_progress_raises_ends_the_run(self):
        def fail(progress):
            raise RuntimeError("mine")

        begun = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, "mine"):
            tw.onnx.loads(network(weights=np.ones((512, 512), np.float32))).tune(
                budget=500, effort="full", db=self.folder / "tuning.db", on_progress=fail)
        self.assertLess(time.monotonic() - begun, 250)  # the budget was 500

    def test_an_interrupt_returns_the_best_network_so_far(self):
        weights = np.ones((512, 512), np.float32)
        large = tw.onnx.loads(network(weights=weights))  # its space is large enough for minutes
        threading.Timer(3, lambda: signal.raise_signal(signal.SIGINT)).start()
        begun = time.monotonic()
        model = large.tune(budget=500, effort="full", db=self.folder / "tuning.db", progress=False)
        self.assertLess(time.monotonic() - begun, 250)  # the budget was 500
        x = np.ones((M, 512), np.float32)
        np.testing.assert_allclose(model(x), x @ weights, rtol=1e-4)

    def test_a_second_interrupt_ends_the_run_at_once(self):
        large = tw.onnx.loads(network(weights=np.ones((512, 512), np.float32)))
        told = []

        def interrupt(progress):
            if progress.trials:
                told.append(progress)
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            large.tune(budget=500, effort="full", db=self.folder / "tuning.db", on_progress=interrupt)
        self.assertGreater(len(told), 1)

    def test_dimensions_get_values_each_of_which_is_a_variant(self):
        symbolic = self.written(network(weights=self.weights, port=with_symbolic_batch))
        with self.assertRaisesRegex(tw.UsageError, "batch"):
            tw.onnx.load(symbolic)
        for none in ([], "8", 1.5):
            with self.assertRaisesRegex(tw.UsageError, "dimension 'batch': expected a whole number, or several"):
                tw.onnx.load(symbolic, {"batch": none})
        self.assertEqual(tw.onnx.load(symbolic, {"batch": np.int64(M)}).inputs[0].shape, [M, K])
        loaded = tw.onnx.load(symbolic, {"batch": [1, M]})
        self.assertEqual(loaded.inputs[0].shape, [1, K])
        model = loaded.tune(effort="none", progress=False)
        for x in self.x, self.x[:1]:
            np.testing.assert_allclose(model(x), np.maximum(x @ self.weights, 0), rtol=1e-4, atol=1e-5)

    def test_large_weights_are_rounded_where_that_is_asked_for(self):
        random = np.random.default_rng(2)
        weights = random.normal(size=(512, 512)).astype(np.float32)
        x = random.normal(size=(M, 512)).astype(np.float32)
        loaded = tw.onnx.loads(network(weights=weights))
        rounded, exact = (loaded.tune(effort="none", precision=precision, db=self.folder / "none.db", progress=False)(x)
                          for precision in ("bf16", "f32"))
        np.testing.assert_allclose(exact, np.maximum(x @ weights, 0), rtol=1e-4, atol=1e-4)
        error = np.abs(rounded - exact).max() / np.abs(exact).max()
        self.assertGreater(error, 1e-5)
        self.assertLess(error, 1e-2)
        with self.assertRaisesRegex(tw.UsageError, "precision"):
            loaded.tune(effort="none", precision="f8", progress=False)

    def test_what_is_wrong_has_its_exception(self):
        with self.assertRaisesRegex(tw.UnsupportedError, "NonSuch"):
            tw.onnx.loads(network(op="NonSuch"))
        with self.assertRaises(tw.InvalidError):
            tw.onnx.loads(network()[:-20])
        with self.assertRaises(tw.MachineError):
            tw.onnx.load(self.folder / "absent.onnx")
        loaded = tw.onnx.loads(network())
        with self.assertRaisesRegex(tw.UsageError, "^\\[.*effort"):
            loaded.tune(effort="much", progress=False)
        with self.assertRaisesRegex(tw.MachineError, "there is no directory"):
            loaded.tune(effort="none", progress=False, output=self.folder / "absent" / "net.twart")

    def test_what_is_written_is_what_the_package_onnx_reads(self):
        import onnx
        node = onnx.load_from_string(writer.model([writer.node(
            "Op", ["a", ""], ["b", "c"], whole=-3, real=0.5, text="é", wholes=[1, -1], reals=[0.5, 1.5])], [], [],
            [], opset=19)).graph.node[0]
        self.assertEqual((node.op_type, list(node.input), list(node.output)), ("Op", ["a", ""], ["b", "c"]))
        values = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        self.assertEqual(values, {"whole": -3, "real": 0.5, "text": "é".encode(), "wholes": [1, -1],
                                  "reals": [0.5, 1.5]})
        onnx.checker.check_model(onnx.load_from_string(network()))

    def test_inputs_become_constants_and_faults_of_a_model_are_warned_of(self):
        model = writer.model([writer.node("Mul", ["x", "s"], ["y"])], [],
                             [writer.port("x", writer.FLOAT, [4]), writer.port("s", writer.FLOAT, [])],
                             [writer.port("y", writer.FLOAT, [5])])
        with self.assertWarnsRegex(UserWarning, r"declared as f32\[5\], but its nodes give f32\[4\]"):
            loaded = tw.onnx.loads(model, constants={"s": 2})
        self.assertEqual([a.name for a in loaded.inputs], ["x"])
        tuned = loaded.tune(effort="none", progress=False, db=self.folder / "none.db")
        np.testing.assert_array_equal(tuned(np.arange(4, dtype=np.float32)), [0, 2, 4, 6])
        with self.assertRaisesRegex(tw.UsageError, "no input 't' that could be a constant"):
            tw.onnx.loads(model, constants={"t": 1})
        with self.assertRaisesRegex(tw.UsageError, "constant 's': expected a number"):
            tw.onnx.loads(model, constants={"s": "2"})

    def test_constants_are_also_arrays_and_numbers_of_numpy(self):
        model = writer.model([writer.node("Mul", ["x", "s"], ["y"])], [],
                             [writer.port("x", writer.FLOAT, [2, 2]), writer.port("s", writer.FLOAT, [2, 2])],
                             [writer.port("y", writer.FLOAT, [2, 2])])
        values = np.array([[1, 2], [3, 4]])
        for value in (values, values.astype(np.float16), np.asfortranarray(values), [1, 2, 3, 4]):
            made = tw.onnx.loads(model, constants={"s": value}).tune(effort="none", progress=False, db=self.folder / "none.db")
            np.testing.assert_array_equal(made(np.ones((2, 2), np.float32)), values)
        for value, expected in ((np.zeros(1000, np.complex64), "not an array of complex64"),
                                (np.zeros(4, "datetime64[s]"), r"not an array of datetime64\[s\]"),
                                (values.tolist(), "not a list"), ([1, 2, "3"], "not '3'")):
            with self.assertRaisesRegex(tw.UsageError, f"^.network. constant 's': expected a number, or several, {expected}$"):
                tw.onnx.loads(model, constants={"s": value})
        scalar = writer.model([writer.node("Mul", ["x", "s"], ["y"])], [],
                              [writer.port("x", writer.FLOAT, [2]), writer.port("s", writer.FLOAT, [])],
                              [writer.port("y", writer.FLOAT, [2])])
        for value in (np.float32(2), np.int8(2), np.array(2.0)):
            self.assertEqual(len(tw.onnx.loads(scalar, constants={"s": value}).inputs), 1)

    def test_bytes_and_messages_of_the_package_onnx_are_read(self):
        import onnx
        for model in (network(), bytearray(network()), onnx.load_from_string(network())):
            self.assertEqual([a.name for a in tw.onnx.loads(model).inputs], ["x"])

    def test_load_and_loads_take_their_arguments_in_the_same_order(self):
        symbolic = network(port=with_symbolic_batch)
        for loaded in (tw.onnx.load(self.written(symbolic), {"batch": 2}, {}), tw.onnx.loads(symbolic, {"batch": 2}, {}),
                       tw.onnx.loads(symbolic, {"batch": 2}, {}, name="net")):
            self.assertEqual(loaded.inputs[0].shape, [2, K])
        self.assertEqual(loaded.name, "net")
        with self.assertRaises(TypeError):
            tw.onnx.loads(symbolic, {"batch": 2}, {}, "net")

    def test_the_error_for_a_wrong_argument_is_one_sentence(self):
        path, loaded = self.written(network()), tw.onnx.loads(network())
        for call, expected in (
                (lambda: tw.onnx.loads(3), "model is 3: expected the bytes of a model, or an onnx.ModelProto"),
                (lambda: tw.onnx.loads(network(), [1, 2]), "dimensions is a list: expected a dict"),
                (lambda: tw.onnx.loads(network(), name=3), "name is 3: expected text"),
                (lambda: tw.onnx.load(3), "path is 3: expected a path"),
                (lambda: tw.onnx.load(path, [1, 2]), "dimensions is a list: expected a dict"),
                (lambda: tw.onnx.load(path, {3: 1}), "a name in dimensions is 3: expected text"),
                (lambda: tw.onnx.load(path, constants=[3]), "constants is a list: expected a dict"),
                (lambda: tw.onnx.load(path, constants={3: 1}), "a name in constants is 3: expected text"),
                (lambda: loaded.tune(accuracy=3), "accuracy is 3: expected text"),
                (lambda: loaded.tune(precision=3), "precision is 3: expected text"),
                (lambda: loaded.tune(output=3), "output is 3: expected a path"),
                (lambda: loaded.tune(target=np.zeros(3000)), "target is an? ndarray: expected text"),
                (lambda: loaded.refresh(3), "output is 3: expected a path"),
                (lambda: loaded.refresh(None), "output is None: expected a path")):
            with self.subTest(expected), self.assertRaisesRegex(TypeError, rf"^\[\w+\] {expected}$"):
                call()
        with self.assertRaisesRegex(tw.UsageError, f"dimension 'batch' is {2**70}; a whole number from 0 to {2**63 - 1} "):
            tw.onnx.load(path, {"batch": 2**70})

    def test_whole_constants_are_exact(self):
        model = writer.model([writer.node("Add", ["x", "k"], ["y"])], [],
                             [writer.port("x", writer.INT64, [1]), writer.port("k", writer.INT64, [1])],
                             [writer.port("y", writer.INT64, [1])])
        for value in (2**53 - 1, np.int64(3), np.float32(4), [np.int8(-5)]):
            made = tw.onnx.loads(model, constants={"k": value}).tune(effort="none", progress=False, db=self.folder / "none.db")
            np.testing.assert_array_equal(made(np.zeros(1, np.int64)), np.ravel(value).astype(np.int64))
        for value in (2**53 + 1, np.int64(2**53 + 1), 2**63 - 1, 10**400):
            with self.assertRaisesRegex(tw.UsageError, f"constant 'k': {value} would be rounded"):
                tw.onnx.loads(model, constants={"k": value})
        with self.assertRaisesRegex(tw.UsageError, "9007199254740992 is no i64 from -9007199254740991 to 9007199254740991"):
            tw.onnx.loads(model, constants={"k": 2**53})

    def test_hyperbolic_functions_keep_their_digits(self):
        small = [1e-8, 3e-5, 1e-3, 0.2, 0.33, 0.34, 0.7]
        large = [1.2, 3.0, 17.0, 80.0]
        both = [sign * x for x in small + large for sign in (1, -1)]
        functions = {
            "Softplus": (np.log1p(np.exp(both)), both),
            "Mish": (both * np.tanh(np.log1p(np.exp(both))), both),
            "Sinh": (np.sinh(both), both),
            "Asinh": (np.arcsinh(both + [1e10, -1e20, 3e38]), both + [1e10, -1e20, 3e38]),
            "Acosh": (np.arccosh([1.0, 1.0 + 2.0**-20, 1.3, 1.6, 80.0, 1e20]), [1.0, 1.0 + 2.0**-20, 1.3, 1.6, 80.0, 1e20]),
            "Atanh": (np.arctanh(small), small)}
        for name, (expected, x) in functions.items():
            with self.subTest(name):
                model = writer.model([writer.node(name, ["x"], ["y"])], [], [writer.port("x", writer.FLOAT, [len(x)])],
                                     [writer.port("y", writer.FLOAT, [len(x)])])
                output = self.folder / "out.twart"
                made = tw.onnx.loads(model).tune(effort="none", progress=False, db=self.folder / "none.db", output=output)
                # The bounds of exp() in docs/codegen.md.
                tolerance = 2e-6 if "fma" in tw.read_plan(str(output)).target else 5e-6
                np.testing.assert_allclose(made(np.array(x, np.float32)), expected, rtol=tolerance)

    def test_the_operators_are_listed(self):
        self.assertIn("Conv", tw.onnx_operators())


def with_symbolic_batch(name, element_type, shape):
    """Returns a port whose first dimension is symbolic."""
    part, whole = writer._part, writer._whole
    dimensions = part(1, part(2, "batch")) + b"".join(part(1, whole(1, extent)) for extent in shape[1:])
    return part(1, name) + part(2, part(1, whole(1, element_type) + part(2, dimensions)))


if __name__ == "__main__":
    unittest.main()
