#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests expressions that are written as a user would: they are declared, tuned for a few trials,
and compared with NumPy."""
import math
import os
import pathlib
import re
import tempfile
import unittest

import numpy as np

import tilewright as tw

ROOT = pathlib.Path(__file__).resolve().parents[2]
NIGHTLY = "TW_NIGHTLY" in os.environ  # as in tests/nightly.h

random = np.random.default_rng(7)


def normal(*shape):
    return random.normal(size=shape).astype(np.float32)


def axes(**extents):
    return [tw.Axis(name, extent) for name, extent in extents.items()]


class Expressions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.store = tw.Store(str(pathlib.Path(cls.folder.name) / "tuning.db"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def expect(self, outputs, arrays, expected, rtol=2e-5, atol=2e-5):
        """Tunes the outputs, calls the kernel with `arrays`, which are given by name, and compares
        its results with `expected`."""
        workload = tw.workload(outputs)
        kernel = tw.tune(workload, db=self.store, trials=2, budget=600, timeout=60).kernel()
        given = [arrays[name] for name in workload.compute.inputs]
        got = kernel(*given)
        for one, wanted in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
            self.assertEqual(one.shape, wanted.shape)
            np.testing.assert_allclose(one, wanted, rtol=rtol, atol=atol)

    def test_stencil_in_three_dimensions(self):
        n = 20
        z, y, x = axes(z=n, y=n, x=n)
        a = tw.input("a", "f32", [z, y, x])

        def at(dz, dy, dx):
            inside = tw.constant(tw.Bool, True)
            for index, step in ((z, dz), (y, dy), (x, dx)):
                if step:
                    inside = inside & (0 <= index + step) & (index + step < n)
            return tw.select(inside, a[z + dz, y + dy, x + dx], 0.0)

        around = at(-1, 0, 0) + at(1, 0, 0) + at(0, -1, 0) + at(0, 1, 0) + at(0, 0, -1) + at(0, 0, 1)
        out = tw.compute("out", [z, y, x], around - 6.0 * a[z, y, x])

        values = normal(n, n, n)
        padded = np.pad(values, 1)
        inner = slice(1, -1)
        expected = -6 * values
        for axis in range(3):
            for step in (slice(0, -2), slice(2, None)):
                expected = expected + padded[tuple(step if d == axis else inner for d in range(3))]
        self.expect(out, {"a": values}, [expected])

    def test_rms_norm(self):
        i, j = axes(i=16, j=96)
        a, scale = tw.input("a", "f32", [i, j]), tw.weight("scale", "f32", [j])
        squares = tw.compute("squares", i, tw.sum(j, a[i, j] ** 2))
        out = tw.compute("out", [i, j], a[i, j] * (squares[i] / 96.0 + 1e-5) ** -0.5 * scale[j])
        values, factors = normal(16, 96), normal(96)
        mean = (values**2).mean(axis=1, keepdims=True)
        self.expect(out, {"a": values, "scale": factors}, [values / np.sqrt(mean + 1e-5) * factors])

    def test_rotary_embedding(self):
        """Turns pairs of neighbouring elements by an angle that grows with the position."""
        t, h, d = axes(t=40, h=2, d=32)
        q = tw.input("q", "f32", [t, h, d])
        frequency = tw.pow(10000.0, tw.cast("f32", d // 2) * (-2.0 / 32.0))
        angle = tw.cast("f32", t) * frequency
        even = q[t, h, d // 2 * 2]
        odd = q[t, h, d // 2 * 2 + 1]
        turned = tw.select(d % 2 == 0, even * tw.cos(angle) - odd * tw.sin(angle),
                           even * tw.sin(angle) + odd * tw.cos(angle))
        out = tw.compute("out", [t, h, d], turned)

        values = normal(40, 2, 32)
        angles = np.arange(40)[:, None, None] * 10000.0 ** (-2 * np.arange(16) / 32)
        complex_values = (values[..., ::2] + 1j * values[..., 1::2]) * np.exp(1j * angles)
        expected = np.stack([complex_values.real, complex_values.imag], axis=-1)
        self.expect(out, {"q": values}, [expected.reshape(values.shape).astype(np.float32)])

    def test_bilateral_filter(self):
        height, width = 24, 40
        y, x, r, s = axes(y=height, x=width, r=5, s=5)
        a = tw.input("a", "f32", [y, x])
        near = a[tw.clamp(y + r - 2, 0, height - 1), tw.clamp(x + s - 2, 0, width - 1)]
        away = tw.cast("f32", (r - 2) * (r - 2) + (s - 2) * (s - 2))
        weight = tw.exp(away * -0.125 - (near - a[y, x]) ** 2 * 2.0)
        total = tw.compute("total", [y, x], tw.sum([r, s], weight))
        mixed = tw.compute("mixed", [y, x], tw.sum([r, s], weight * near))
        out = tw.compute("out", [y, x], mixed[y, x] / total[y, x])

        values = normal(height, width)
        padded = np.pad(values, 2, mode="edge")
        weights, sums = np.zeros_like(values), np.zeros_like(values)
        for dy in range(5):
            for dx in range(5):
                tap = padded[dy:dy + height, dx:dx + width]
                factor = np.exp(-0.125 * ((dy - 2) ** 2 + (dx - 2) ** 2) - 2 * (tap - values) ** 2)
                weights, sums = weights + factor, sums + factor * tap
        self.expect(out, {"a": values}, [sums / weights])

    def test_mlp_with_gelu(self):
        m, k, n, p = axes(m=12, k=32, n=64, p=24)
        a = tw.input("a", "f32", [m, k])
        first, second = tw.weight("first", "f32", [k, n]), tw.weight("second", "f32", [n, p])
        hidden = tw.compute("hidden", [m, n], tw.sum(k, a[m, k] * first[k, n]))
        x = hidden[m, n]
        inner = math.sqrt(2 / tw.pi) * (x + 0.044715 * x**3)
        active = tw.compute("active", [m, n], 0.5 * x * (1.0 + tw.tanh(inner)))
        out = tw.compute("out", [m, p], tw.sum(n, active[m, n] * second[n, p]))

        values, one, two = normal(12, 32), normal(32, 64) / 6, normal(64, 24) / 8
        h = values @ one
        g = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        self.expect(out, {"a": values, "first": one, "second": two}, [g @ two], atol=1e-4)

    def test_product_of_bytes_with_scales(self):
        """Quantizes rows, multiplies in integers, and scales back."""
        m, k, n = axes(m=16, k=48, n=32)
        a, row_scale = tw.input("a", "f32", [m, k]), tw.input("row_scale", "f32", [m])
        b, column_scale = tw.weight("b", "i8", [k, n]), tw.weight("column_scale", "f32", [n])
        rounded = tw.round(a[m, k] / row_scale[m])
        q = tw.compute("q", [m, k], tw.cast("i8", tw.clamp(rounded, -127.0, 127.0)))
        products = tw.sum(k, tw.cast("i32", q[m, k]) * tw.cast("i32", b[k, n]))
        whole = tw.compute("whole", [m, n], products)
        out = tw.compute("out", [m, n],
                         tw.cast("f32", whole[m, n]) * row_scale[m] * column_scale[n])

        values = normal(16, 48)
        # The scales are powers of two. Division by them is exact, so no rounding depends on the
        # order of operations.
        scales = np.exp2(np.ceil(np.log2(np.abs(values).max(axis=1) / 127))).astype(np.float32)
        weights = random.integers(-127, 128, size=(48, 32), dtype=np.int8)
        columns = normal(32)
        quantized = np.clip(np.round(values / scales[:, None]), -127, 127).astype(np.int32)
        expected = (quantized @ weights.astype(np.int32)).astype(np.float32)
        expected = expected * scales[:, None] * columns
        arrays = {"a": values, "row_scale": scales, "b": weights, "column_scale": columns}
        self.expect(out, arrays, [expected])

    def test_product_with_weights_of_four_bits(self):
        """Tests the example of docs/expressions.md: a byte holds two weights, that of the even row
        in the low bits."""
        text = (ROOT / "docs" / "expressions.md").read_text()
        (example,) = [block for block in re.findall(r"^```tw\n(.*?)^```", text, re.M | re.S) if "packed" in block]
        workload = tw.parse_workload(example)
        (m, k), n = workload.compute.shape_of("a"), workload.compute.shape_of("out")[1]
        self.assertEqual(workload.compute.shape_of("packed"), [k // 2, n])
        values, packed, scale = normal(m, k), random.integers(0, 256, size=(k // 2, n), dtype=np.uint8), normal(n)
        weights = np.stack([packed & 15, packed >> 4], axis=1).reshape(k, n).astype(np.float32) - 8
        kernel = tw.tune(workload, db=self.store, trials=2, budget=600, timeout=60).kernel()
        np.testing.assert_allclose(kernel(a=values, packed=packed, scale=scale), values @ weights * scale, rtol=2e-4, atol=2e-3)

    def test_a_table_of_sixteen_entries(self):
        """A weight of four bits is the index of a table entry. The mask (& 15) proves that the
        index is within the table."""
        i, t = axes(i=64, t=16)
        codes, table = tw.input("codes", "u8", [tw.Axis("j", 32)]), tw.weight("table", "f32", [t])
        nibble = codes[i // 2] >> tw.cast("u8", i % 2 * 4) & 15
        out = tw.compute("out", [i], table[tw.cast("i64", nibble)])
        given, entries = random.integers(0, 256, size=32, dtype=np.uint8), normal(16)
        expected = entries[np.stack([given & 15, given >> 4], axis=1).reshape(64)]
        self.expect(out, {"codes": given, "table": entries}, [expected], rtol=0, atol=0)

    def test_argmax_and_argmin(self):
        i, j = axes(i=24, j=50)
        a = tw.input("a", "f32", [i, j])
        largest = tw.compute("largest", i, tw.argmax(j, a[i, j]))
        smallest = tw.compute("smallest", i, tw.argmin(j, a[i, j]))
        computed = tw.compute("computed", i, tw.argmax(j, a[i, j] / 3.0))
        values = random.integers(-9, 9, size=(24, 50)).astype(np.float32)  # has ties
        values[::3, ::7] = np.nan
        values[1::3, 20] = np.inf
        values[5] = np.nan
        expected = [np.argmax(values, axis=1), np.argmin(values, axis=1), np.argmax(values / 3, axis=1)]
        self.expect([largest, smallest, computed], {"a": values}, expected, rtol=0, atol=0)

    def test_prefix_sum(self):
        i, j, k = axes(i=8, j=64, k=64)
        a = tw.input("a", "f32", [i, j])
        out = tw.compute("out", [i, j], tw.sum(k <= j, a[i, k]))
        values = normal(8, 64)
        self.expect(out, {"a": values}, [np.cumsum(values, axis=1)], atol=1e-4)

    def test_prefix_sum_by_comparison(self):
        """Sums the elements up to each element. The comparison in the term makes the loops end
        there."""
        i, j, k = axes(i=8, j=64, k=64)
        a = tw.input("a", "f32", [i, k])
        out = tw.compute("out", [i, j], tw.sum(k, tw.select(k <= j, a[i, k], 0.0)))
        values = normal(8, 64)
        self.expect(out, {"a": values}, [np.cumsum(values, axis=1)], atol=1e-4)

    def test_scans_along_each_axis(self):
        for shape, chosen in ((37,), (0,)), ((3, 18, 33), (0, 1, 2) if NIGHTLY else (1,)):
            for d in chosen:
                with self.subTest(shape=shape, axis=d):
                    self.expect_scans(shape, d)

    def expect_scans(self, shape, d):
        """Tests running sums along axis `d`, sums without the element itself, running products and
        running extremes."""
        dims = [tw.Axis("xyz"[n], extent) for n, extent in enumerate(shape)]
        a, k = tw.input("a", "f32", dims), tw.Axis("k")
        term = a[tuple(k if n == d else dim for n, dim in enumerate(dims))]
        outputs = [tw.compute("sums", dims, tw.sum(k <= dims[d], term)),
                   tw.compute("before", dims, tw.sum(k < dims[d], term)),
                   tw.compute("products", dims, tw.prod(k <= dims[d], term)),
                   tw.compute("largest", dims, tw.max_over(k <= dims[d], term)),
                   tw.compute("smallest", dims, tw.min_over(k <= dims[d], term))]
        values = normal(*shape)
        sums = np.cumsum(values, axis=d)
        expected = [sums, sums - values, np.cumprod(values, axis=d),
                    np.maximum.accumulate(values, axis=d), np.minimum.accumulate(values, axis=d)]
        self.expect(outputs, {"a": values}, expected, atol=1e-4)

    def test_gather(self):
        i, j, v = axes(i=30, j=16, v=100)
        table, ids = tw.weight("table", "f32", [v, j]), tw.input("ids", "i32", [i])
        row = tw.clamp(tw.cast("i64", ids[i]), 0, 99)
        out = tw.compute("out", [i, j], table[row, j])
        values = normal(100, 16)
        indices = random.integers(-20, 120, size=30, dtype=np.int32)
        expected = values[np.clip(indices, 0, 99)]
        self.expect(out, {"table": values, "ids": indices}, [expected], rtol=0, atol=0)

    def test_product_of_complex_matrices(self):
        m, k, n = axes(m=16, k=24, n=20)
        ar, ai = (tw.input(name, "f32", [m, k]) for name in ("ar", "ai"))
        br, bi = (tw.weight(name, "f32", [k, n]) for name in ("br", "bi"))
        real = tw.compute("real", [m, n],
                          tw.sum(k, ar[m, k] * br[k, n] - ai[m, k] * bi[k, n]))
        imaginary = tw.compute("imaginary", [m, n],
                               tw.sum(k, ar[m, k] * bi[k, n] + ai[m, k] * br[k, n]))
        a, b = normal(16, 24) + 1j * normal(16, 24), normal(24, 20) + 1j * normal(24, 20)
        arrays = {"ar": a.real.copy(), "ai": a.imag.copy(), "br": b.real.copy(), "bi": b.imag.copy()}
        self.expect([real, imaginary], arrays, [(a @ b).real, (a @ b).imag], atol=1e-4)

    def test_histogram(self):
        """Computes each bin as a sum of comparisons. Integer division puts 7 values into a bin."""
        bins, i = axes(bin=12, i=500)
        data, width = tw.input("data", "i32", [i]), tw.input("width", "i32", [])
        hit = tw.select(tw.cast("i64", data[i] // width[()]) == bins, tw.constant("i32", 1), 0)
        out = tw.compute("out", bins, tw.sum(i, hit))
        values = random.integers(-10, 100, size=500, dtype=np.int32)
        expected = np.bincount((values // 7)[(values >= 0) & (values < 84)], minlength=12)
        arrays = {"data": values, "width": np.array(7, np.int32)}
        self.expect(out, arrays, [expected.astype(np.int32)], rtol=0, atol=0)

    def test_mandelbrot_of_16_steps(self):
        """Counts the steps within a radius of 2. A point that has left this radius stays where it
        is."""
        y, x = axes(y=24, x=32)
        cr = tw.cast("f32", x) * 0.09375 - 2.0
        ci = tw.cast("f32", y) * 0.09375 - 1.125
        zr = tw.compute("zr0", [y, x], tw.cast("f32", x) * 0.0)
        zi = tw.compute("zi0", [y, x], tw.cast("f32", x) * 0.0)
        steps = tw.compute("steps0", [y, x], tw.cast("i32", x) * 0)
        for k in range(1, 17):
            r, i, n = zr[y, x], zi[y, x], steps[y, x]
            inside = r * r + i * i <= 4.0
            steps = tw.compute(f"steps{k}", [y, x], tw.select(inside, n + 1, n))
            zr = tw.compute(f"zr{k}", [y, x], tw.select(inside, r * r - i * i + cr, r))
            zi = tw.compute(f"zi{k}", [y, x], tw.select(inside, 2.0 * r * i + ci, i))

        c = (np.arange(32) * 0.09375 - 2) + 1j * (np.arange(24) * 0.09375 - 1.125)[:, None]
        z, expected = np.zeros_like(c), np.zeros(c.shape, np.int32)
        for _ in range(16):
            inside = np.abs(z) ** 2 <= 4
            expected += inside
            z = np.where(inside, z * z + c, z)
        workload = tw.workload(steps)
        got = tw.tune(workload, db=self.store, trials=2, budget=600, timeout=60).kernel()()
        # Due to rounding, a point close to the radius may leave it one step sooner or later.
        self.assertLess(np.mean(got != expected), 0.01)


if __name__ == "__main__":
    unittest.main()
