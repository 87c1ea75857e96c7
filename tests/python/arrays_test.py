#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests calls of kernels on arrays of every kind."""
import concurrent.futures
import os
import pathlib
import tempfile
import unittest

import numpy as np

import tilewright as tw

M, N, K = 8, 12, 10


class OnlyDlpack:
    """Stands for an array of another library, which supports only DLPack."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **options):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Arrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            tuned = tw.tune(tw.make_workload("dense", m=M, n=N, k=K),
                            db=pathlib.Path(folder) / "tuning.db", trials=2)
        cls.kernel = tuned.kernel()

    def setUp(self):
        random = np.random.default_rng(1)
        self.a = random.integers(-4, 5, (M, K)).astype(np.float32)
        self.w = random.integers(-4, 5, (K, N)).astype(np.float32)
        self.expected = self.a @ self.w  # exact, because the integers are small

    def test_fault10_strides_of_any_kind(self):
        a, w, expected = self.a, self.w, self.expected
        wide = np.zeros((M, 2 * K), np.float32)
        wide[:, ::2] = a
        for left, right in ((np.asfortranarray(a), w), (wide[:, ::2], w), (a[::-1][::-1], w),
                            (a, w.T.copy().T), (OnlyDlpack(a), OnlyDlpack(np.asfortranarray(w)))):
            np.testing.assert_array_equal(self.kernel(left, right), expected)
        np.testing.assert_array_equal(self.kernel(a[::-1], w), expected[::-1])

    def test_fault10_misaligned_and_read_only(self):
        raw = np.zeros(4 * M * K + 1, np.uint8)
        misaligned = raw[1:].view(np.float32).reshape(M, K)
        misaligned[:] = self.a
        np.testing.assert_array_equal(self.kernel(misaligned, self.w), self.expected)
        self.a.flags.writeable = False
        np.testing.assert_array_equal(self.kernel(self.a, self.w), self.expected)
        out = np.zeros((M, N), np.float32)
        out.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "output 'out'.*read-only"):
            self.kernel(self.a, self.w, out=out)

    def test_outputs_of_the_callers(self):
        wide = np.full((2 * M, N), 7, np.float32)
        view = wide[::2]
        result = self.kernel(self.a, self.w, out=view)
        self.assertIs(result, view)
        np.testing.assert_array_equal(view, self.expected)
        np.testing.assert_array_equal(wide[1::2], np.full((M, N), 7))

    def test_bound_calls_read_their_arrays_anew(self):
        out = np.empty((M, N), np.float32)
        call = self.kernel.bind(self.a, self.w, out=out)
        self.assertIs(call(), out)
        self.a[:] = 1
        call()
        np.testing.assert_array_equal(out, self.a @ self.w)

    def test_fault9_element_types_are_checked(self):
        with self.assertRaisesRegex(TypeError, "input 'a': expected f32.8, 10., got an array of float64"):
            self.kernel(self.a.astype(np.float64), self.w)
        with self.assertRaisesRegex(TypeError, "'b'.*of >f4"):
            self.kernel(self.a, self.w.astype(">f4"))
        with self.assertRaisesRegex(TypeError, "got list"):
            self.kernel(self.a.tolist(), self.w)

    def test_fault11_shapes_and_counts(self):
        with self.assertRaisesRegex(ValueError, "'a': shape .3, 10. given"):
            self.kernel(self.a[:3], self.w)
        with self.assertRaisesRegex(TypeError, r"expected 2 input arrays \(a, b\), got 1"):
            self.kernel(self.a)
        with self.assertRaisesRegex(TypeError, "out: expected 1 arrays, got 2"):
            self.kernel(self.a, self.w, out=(self.a, self.w))

    def test_inputs_by_name(self):
        expected = self.kernel(self.a, self.w)
        for call in (lambda: self.kernel(b=self.w, a=self.a), lambda: self.kernel(self.a, b=self.w),
                     lambda: self.kernel.bind(b=self.w, a=self.a)()):
            np.testing.assert_array_equal(call(), expected)
        for message, call in (("input 'b' is missing: the inputs are a, b", lambda: self.kernel(a=self.a)),
                              ("'x' is no input; the inputs are a, b, the options out and threads",
                               lambda: self.kernel(x=self.a)),
                              ("'q' is no input; the inputs are a, b", lambda: self.kernel(self.a, self.w, q=self.w)),
                              ("'a' is given by position and by name", lambda: self.kernel(self.a, self.w, a=self.a)),
                              ("expected 2 input arrays .a, b., got 3", lambda: self.kernel(self.a, self.w, self.w))):
            with self.assertRaisesRegex(TypeError, message):
                call()

    def test_numbers_of_threads_are_checked(self):
        expected = self.kernel(self.a, self.w)
        np.testing.assert_array_equal(self.kernel(self.a, self.w, threads=0), expected)
        for threads in (-1, 1025):
            with self.assertRaisesRegex(tw.UsageError, f"threads is {threads}; 0 .all. to 1024"):
                self.kernel(self.a, self.w, threads=threads)

    def test_an_array_that_refuses_to_be_exported_is_named(self):
        class NeedsGradient(OnlyDlpack):
            def __dlpack__(self, **options):
                raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        with self.assertRaisesRegex(TypeError, "'a'.*refuses: Can't export .* use tensor.detach"):
            self.kernel(NeedsGradient(self.a), self.w)

    def test_fault12_an_output_that_overlaps_an_input(self):
        memory = np.zeros(M * K + M * N, np.float32)
        a = memory[:M * K].reshape(M, K)
        with self.assertRaisesRegex(ValueError, "out"):
            self.kernel(a, self.w, out=memory[4:4 + M * N].reshape(M, N))

    def test_fault64_many_threads(self):
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            results = list(pool.map(lambda _: self.kernel(self.a, self.w), range(320)))
        for result in results:
            np.testing.assert_array_equal(result, self.expected)

    def test_fault63_a_call_in_a_child_of_fork(self):
        self.kernel(self.a, self.w, threads=2)
        child = os.fork()
        if child == 0:
            same = np.array_equal(self.kernel(self.a, self.w, threads=2), self.expected)
            os._exit(0 if same else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
