#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests functions of tensors that are called on arrays."""
import concurrent.futures
import pathlib
import tempfile
import unittest

import numpy as np

import tilewright as tw


def product(a, b):
    """Returns the product of two matrices."""
    (m, k), (rows, n) = a.axes, b.axes
    if rows.extent != k.extent:
        raise ValueError(f"a has {k.extent} columns, b has {rows.extent} rows")
    return tw.compute("c", [m, n], tw.sum(k, a[m, k] * b[k, n]))


def numbers(*shape):
    """Returns small whole numbers, whose products are exact."""
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)


class Declaring(unittest.TestCase):
    def test_shapes_and_types_of_arrays_are_those_of_the_workload(self):
        kernel = tw.kernel(product)
        compute = kernel.workload(np.empty((6, 5), np.float32), np.empty((5, 4), np.float32)).compute
        self.assertEqual((compute.inputs, compute.shape_of("c"), compute.type_of("c")), (["a", "b"], [6, 4], tw.Float32))
        self.assertEqual(kernel.workload(np.empty((2, 3), np.float16), np.empty((3, 4), np.float16)).dtype, tw.Float16)
        self.assertIn("input b", str(compute))

    def test_weights_are_named(self):
        compute = tw.kernel(weights=["b"])(product).workload(numbers(6, 5), numbers(5, 4)).compute
        self.assertIn("weight b", str(compute))
        with self.assertRaisesRegex(TypeError, r"product\(\): weights names \['w'\]"):
            tw.kernel(weights=["w"])(product)

    def test_it_looks_like_the_function(self):
        kernel = tw.kernel(product)
        self.assertEqual((kernel.__name__, kernel.__doc__, repr(kernel)),
                         ("product", product.__doc__, "<kernel product(a, b)>"))

    def test_tensors_know_their_axes(self):
        i, j = tw.Axis("i", 3), tw.Axis("j", 4)
        a = tw.input("a", "f32", [i, j])
        self.assertEqual((a.name, a.shape, [axis.name for axis in a.axes]), ("a", (3, 4), ["i", "j"]))
        rows = tw.compute("rows", i, tw.sum(j, a[i, j]))
        self.assertEqual((rows.shape, repr(rows)), ((3,), "<Tensor rows[i=3]>"))

    def test_several_outputs(self):
        @tw.kernel
        def both(a):
            (i,) = a.axes
            return tw.compute("double", i, a[i] * 2), tw.compute("half", i, a[i] * 0.5)

        self.assertEqual(both.workload(numbers(8)).compute.outputs, ["double", "half"])

    def test_errors_name_function_and_argument(self):
        kernel = tw.kernel(product)
        a, b = numbers(6, 5), numbers(5, 4)
        with self.assertRaisesRegex(TypeError, r"product\(\): expected 2 arrays \(a, b\), got 1"):
            kernel(a)
        for call, expected in (
                (lambda: kernel(a=a), r"product\(\): array 'b' is missing: expected a, b"),
                (lambda: kernel(a, b, b=b), r"product\(\): 'b' is given by position and by name"),
                (lambda: kernel(a, c=b), r"product\(\) has no argument 'c': it has a, b"),
                (lambda: kernel.tune(a, bugdet=3), r"product.tune\(\) has no argument 'bugdet': did you mean budget"),
                (lambda: tw.kernel(weight=["b"]), r"kernel\(\) has no argument 'weight': did you mean weights")):
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                call()
        with self.assertRaisesRegex(TypeError, "'b': expected an array with shape and dtype, got list"):
            kernel(a, b.tolist())
        with self.assertRaisesRegex(TypeError, "'a': 'complex64' is no element type"):
            kernel(a.astype(np.complex64), b)
        with self.assertRaisesRegex(ValueError, "a has 5 columns, b has 3 rows"):
            kernel(a, b[:3])
        with self.assertRaisesRegex(TypeError, r"nothing\(\): returned NoneType; expected the tensor"):
            tw.kernel(nothing).workload(a)


def nothing(a):
    return None


class Running(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.database = pathlib.Path(folder.name) / "tuning.db"
        self.a, self.b = numbers(16, 24), numbers(24, 32)

    def test_tunes_on_request_and_then_runs_from_the_database(self):
        kernel = tw.kernel(db=self.database)(product)
        with self.assertRaises(tw.NoCandidateError) as untuned:
            kernel(self.a, self.b)
        self.assertRegex(str(untuned.exception), r"^\[product\] the database has no kernel of .*: tune it first by product\.tune\(a, b\)$")
        self.assertNotIn("effort", str(untuned.exception))
        tuned = kernel.tune(self.a, self.b, trials=2)
        self.assertEqual(tuned.best.status, "ok")
        np.testing.assert_array_equal(kernel(self.a, self.b), self.a @ self.b)

        records = len(tw.Store(str(self.database)))
        again = tw.kernel(db=self.database)(product)  # as another process would
        out = np.empty((16, 32), np.float32)
        self.assertIs(again(self.a, self.b, out=out), out)
        np.testing.assert_array_equal(out, self.a @ self.b)
        self.assertEqual(len(tw.Store(str(self.database))), records)
        self.assertIs(again.kernel(self.a, self.b), again.kernel(self.a, self.b))

    def test_arrays_may_be_passed_by_name(self):
        kernel = tw.kernel(db=self.database)(product)
        kernel.tune(b=self.b, a=self.a, trials=2, budget="10m")
        expected = kernel(self.a, self.b)
        np.testing.assert_array_equal(kernel(b=self.b, a=self.a), expected)
        np.testing.assert_array_equal(kernel(self.a, b=self.b, threads=1), expected)
        self.assertEqual(kernel.workload(self.a, b=self.b).key, kernel.workload(self.a, self.b).key)
        self.assertIsInstance(kernel.kernel(a=self.a, b=self.b), tw.Kernel)

    def test_arrays_are_passed_by_parameter_and_not_by_first_use(self):
        @tw.kernel(db=self.database)
        def difference(a, unread, b):
            (i,) = a.axes
            return tw.compute("out", [i], -b[i] + a[i] * 2.0)

        a, b = numbers(8), numbers(8) + 9
        difference.tune(a, a, b, trials=1)
        np.testing.assert_array_equal(difference(a, a, b), 2 * a - b)
        self.assertEqual([argument.name for argument in difference.kernel(a, a, b).arguments], ["b", "a", "out"])

    def test_each_shape_is_a_workload(self):
        kernel = tw.kernel(db=self.database)(product)
        kernel.tune(self.a, self.b, trials=1)
        with self.assertRaises(tw.NoCandidateError):
            kernel(self.a[:8], self.b)
        kernel.tune(self.a[:8], self.b, trials=1)
        for a in (self.a, self.a[:8]):
            np.testing.assert_array_equal(kernel(a, self.b), a @ self.b)

    def test_doubles_keep_their_digits(self):
        random = np.random.default_rng(2)
        a, b = random.standard_normal((16, 24)), random.standard_normal((24, 32))
        kernel = tw.kernel(db=self.database)(product)
        self.assertEqual(kernel.workload(a, b).dtype, tw.Float64)
        kernel.tune(a, b, trials=2)
        result = kernel(a, b)
        self.assertEqual(result.dtype, np.float64)
        np.testing.assert_allclose(result, a @ b, rtol=1e-12, atol=1e-13)
        with self.assertRaises(tw.NoCandidateError):
            kernel(a.astype(np.float32), b.astype(np.float32))

    def test_fault64_32_threads_call_one_kernel_at_once(self):
        tw.kernel(db=self.database)(product).tune(self.a, self.b, trials=1)
        kernel = tw.kernel(db=self.database)(product)  # loaded by the first thread that calls it
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            results = list(pool.map(lambda _: kernel(self.a, self.b), range(320)))
        for result in results:
            np.testing.assert_array_equal(result, self.a @ self.b)

    def test_functions_are_loaded_at_the_same_time(self):
        tw.kernel(db=self.database)(product).tune(self.a, self.b, trials=1)
        kernels = [tw.kernel(db=self.database)(product) for _ in range(16)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for result in pool.map(lambda kernel: kernel(self.a, self.b), kernels):
                np.testing.assert_array_equal(result, self.a @ self.b)


if __name__ == "__main__":
    unittest.main()
