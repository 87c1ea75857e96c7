#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests kernels as shared objects that other languages and libraries call."""
import ctypes
import os
import pathlib
import tempfile
import unittest

import numpy as np

import tilewright as tw

M, N, K = 16, 32, 24


class Export(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        workload = tw.make_workload("dense", m=M, n=N, k=K)
        cls.kernel = tw.tune(workload, db=cls.folder / "tuning.db", trials=1, progress=False).kernel()
        random = np.random.default_rng(1)
        cls.a = random.normal(size=(M, K)).astype(np.float32)
        cls.b = random.normal(size=(K, N)).astype(np.float32)

    def test_ctypes_calls_it(self):
        library = self.folder / "libproduct.so"
        header = self.kernel.export(str(library))
        self.assertEqual(header, str(self.folder / "libproduct.h"))
        self.assertIn("int32_t product(const float* a, const float* b, float* out);", pathlib.Path(header).read_text())
        out = np.zeros((M, N), np.float32)
        product = ctypes.CDLL(str(library)).product
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (self.a, self.b, out)]
        self.assertEqual(product(*pointers), 0)
        np.testing.assert_array_equal(out, self.kernel(self.a, self.b))
        self.assertEqual(product(pointers[0], pointers[1], None), 2)

    def test_tvm_ffi_loads_it(self):
        try:
            import tvm_ffi
        except ImportError:
            self.skipTest("[SKIP] the package apache-tvm-ffi is not installed")
        library = self.folder / "other.so"
        self.kernel.export(str(library), "times")
        times = tvm_ffi.load_module(str(library)).times
        out = np.zeros((M, N), np.float32)
        a, b, c = (tvm_ffi.from_dlpack(array) for array in (self.a, self.b, out))
        times(a, b, c)
        np.testing.assert_array_equal(out, self.kernel(self.a, self.b))
        with self.assertRaisesRegex(ValueError, r"times: input 'a': expected f32\[16, 24\]"):
            times(b, a, c)

    def test_names_are_checked_before_the_work(self):
        with self.assertRaisesRegex(tw.UsageError, "cannot name a function"):
            self.kernel.export(str(self.folder / "my kernel.so"))
        with self.assertRaises(tw.UsageError):
            self.kernel.export(str(self.folder / "kernel.h"))
        self.assertFalse((self.folder / "kernel.h").exists())

    def test_no_pipe_is_replaced(self):
        for name in "pipe.so", "pipe.h":
            pipe = self.folder / name
            os.mkfifo(pipe)
            with self.assertRaisesRegex(tw.UsageError, f"{name}' is a device or a pipe"):
                self.kernel.export(self.folder / "pipe.so")
            self.assertTrue(pipe.is_fifo())
            pipe.unlink()
        self.assertFalse((self.folder / "pipe.so").exists())


if __name__ == "__main__":
    unittest.main()
