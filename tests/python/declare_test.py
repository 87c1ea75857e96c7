#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests declarations of operators with Python's operators, and the meaning of the declarations."""
import math
import unittest

import numpy as np

import tilewright as tw


def product():
    m, n, k = tw.Axis("m", 6), tw.Axis("n", 4), tw.Axis("k", 5)
    a, b = tw.input("a", "f32", [m, k]), tw.weight("b", "f32", [k, n])
    return tw.compute("c", [m, n], tw.sum(k, a[m, k] * b[k, n]))


class Expressions(unittest.TestCase):
    def test_print_as_the_language_has_them(self):
        x, y = tw.var("x"), tw.Axis("y", 8)
        for expression, text in ((x + 1, "x + 1"), (1 - x, "1 - x"), (2 * x % 4, "2 * x % 4"),
                                 (x // 2, "x / 2"), ((x >= 1) & ~(x > y), "1 <= x && not(y < x)"),
                                 (-x, "neg(x)"), (x == y, "x == y"), (tw.min(3, y), "min(3, y)")):
            self.assertEqual(str(expression), text)

    def test_bits_of_integers_are_the_operators_of_python(self):
        i = tw.Axis("i", 3)
        a, b = tw.input("a", "u8", [i])[i], tw.input("b", "u8", [i])[i]
        for expression, text in ((a >> 4 & 15, "a[i] >> 4u8 & 15u8"), (1 << b, "1u8 << b[i]"), (a | b ^ 3, "a[i] | b[i] ^ 3u8"),
                                 (~a, "a[i] ^ 255u8"), (i >> 1, "i / 2"), (i & 1, "i % 2"), (6 & a, "6u8 & a[i]"),
                                 ((a < b) ^ (i < 2), "a[i] < b[i] != (i < 2)")):
            self.assertEqual(str(expression).replace("(a[i] < b[i])", "a[i] < b[i]"), text)
        with self.assertRaisesRegex(TypeError, "'>>' needs integers, not f32"):
            tw.input("x", "f32", [i])[i] >> 1

    def test_numbers_take_the_type_of_the_other_operand(self):
        a = tw.input("a", "f32", [tw.Axis("i", 3)])
        self.assertEqual((a[0] + 1).type, tw.Float32)
        self.assertEqual((0.5 * a[0]).type, tw.Float32)
        self.assertEqual((tw.var("x") + 1).type, tw.Int64)

    def test_numbers_that_do_not_fit_are_refused(self):
        i = tw.Axis("i", 3)
        u8, i8, f16, f32 = (tw.input("a", type, [i])[i] for type in ("u8", "i8", "f16", "f32"))
        for call, expected in ((lambda: tw.select(u8 < 256, 1.0, 2.0), "^256 does not fit into u8$"),
                               (lambda: u8 + 300, "^300 does not fit into u8$"),
                               (lambda: -1 + u8, "^-1 does not fit into u8$"),
                               (lambda: u8 + np.int64(300), "^300 does not fit into u8$"),
                               (lambda: tw.constant("i8", 300), "^300 does not fit into i8$"),
                               (lambda: tw.constant("bool", 2), "^2 does not fit into bool$"),
                               (lambda: i + 2**63, "^9223372036854775808 does not fit into i64$"),
                               (lambda: f16 * 1e6, "^1000000.0 does not fit into f16$"),
                               (lambda: f16 * 70000, "^70000 does not fit into f16$"),
                               (lambda: f32 * 1e39, "^1e[+]39 does not fit into f32$"),
                               (lambda: f32 * 10**400, "^10{79} does not fit into f32$")):
            with self.subTest(expected), self.assertRaisesRegex(ValueError, expected):
                call()
        for expression, text in ((u8 + 255, "a[i] + 255u8"), (i8 * -128, "a[i] * -128i8"), (f16 + 65504, "a[i] + 6.55e+04f16"),
                                 (f16 + math.inf, "a[i] + inff16"), (i + (2**63 - 1), "i + 9223372036854775807")):
            self.assertEqual(str(expression), text)
        with self.assertRaisesRegex(tw.UsageError, "dense. m: expected a number of 64 bits, not 1180591620717411303424"):
            tw.make_workload("dense", m=2**70, n=8, k=8)

    def test_numbers_of_numpy_are_numbers(self):
        i = tw.Axis("i", 3)
        a, b = tw.input("a", "f32", [i]), tw.input("b", "u8", [i])
        for expression, text in ((a[i] * np.float32(2), "a[i] * 2.0"), (a[i] + np.float16(0.5), "a[i] + 0.5"),
                                 (a[i] * np.int64(3), "a[i] * 3.0"), (b[i] + np.uint8(7), "b[i] + 7u8"),
                                 (a[i + np.int64(1)], "a[i + 1]"), (tw.constant("i32", np.int16(5)), "5i32")):
            self.assertEqual(str(expression), text)
        self.assertEqual(tw.max(np.float32(1), np.float32(2)).type, tw.Float32)
        self.assertEqual(tw.make_workload("dense", m=np.int64(8), n=8, k=8), tw.make_workload("dense", m=8, n=8, k=8))
        with self.assertRaisesRegex(TypeError, "expected an expression of u8, not np.float32"):
            b[i] + np.float32(0.5)
        with self.assertRaisesRegex(TypeError, "expected an expression of f32, not array"):
            a[i] + np.ones(2)

    def test_literals_beside_which_nothing_has_a_type_are_f32_or_i64(self):
        i = tw.Axis("i", 8)
        x = tw.input("x", "f32", [i])
        for value, type in ((tw.max(1.0, 2.0), tw.Float32), (tw.max(1, 2.5), tw.Float32), (tw.min(1, 2), tw.Int64),
                            (tw.select(x[i] > 0, tw.pi, 0.0), tw.Float32)):
            self.assertEqual(value.type, type, str(value))
        ones = tw.workload(tw.compute("ones", [i], 1.0)).compute
        np.testing.assert_array_equal(tw.interpret(ones, {})["ones"], np.ones(8, np.float32))

    def test_arguments_that_are_something_else_are_named(self):
        i = tw.Axis("i", 8)
        x = tw.input("x", "f32", [i])
        with self.assertRaisesRegex(TypeError, "x: shape: expected axes, such as .* not 34"):
            tw.input("x", "f32", [34])
        with self.assertRaisesRegex(TypeError, "o: axes: expected axes, not 3"):
            tw.compute("o", 3, x[i])
        with self.assertRaisesRegex(tw.UsageError, "outputs: expected a tensor of compute.* not <Expr"):
            tw.workload(x[i])
        with self.assertRaisesRegex(tw.UsageError, "outputs: expected tensors of compute.*not 7"):
            tw.workload([tw.compute("o", [i], x[i]), 7])
        with self.assertRaisesRegex(tw.UsageError, "conv2d. c: expected a whole number, not 'x'"):
            tw.make_workload("conv2d", c="x")

    def test_a_mistake_is_one_sentence(self):
        i, k = tw.Axis("i", 8), tw.Axis("k", 8)
        x = tw.input("x", "f32", [i, k])
        total = tw.sum(k, x[i, k])
        for call, expected in (
                (lambda: tw.Axis("m", -3), "Axis.'m'.: the extent is -3; expected a whole number from 0 on"),
                (lambda: tw.Axis("m", 2**70), "the extent is 1180591620717411303424; expected"),
                (lambda: tw.Axis("m", 3.5), "Axis.'m'.: the extent is 3.5; expected a whole number"),
                (lambda: tw.Axis(64, "m"), "Axis.64.: expected a name, as in Axis.'i', 64."),
                (lambda: tw.cast(x[i, k], "f32"), "the type stands first, as in cast.'f32', x."),
                (lambda: tw.max(k, x[i, k]), "max_over.. is the reduction over axes, and max.a, b. compares"),
                (lambda: tw.min([i, k], x[i, k]), "min_over.. is the reduction over axes"),
                (lambda: 2.0 * total, "a reduction is the whole body of a stage, and no operand"),
                (lambda: x[i, k] + total, "a reduction is the whole body of a stage, and no operand"),
                (lambda: tw.exp(total), "a reduction is the whole body of a stage, and no operand"),
                (lambda: tw.compute("y", [i], x), "y: body: expected an expression, and <Tensor x.*> is a tensor"),
                (lambda: tw.sum(k, "x"), "expected an expression of i64, not 'x'"),
                (lambda: tw.Axis("m", True), "Axis.'m'.: the extent is True; expected a whole number"),
                (lambda: tw.input(5, "f32", [i]), "^input..: name is 5: expected text$"),
                (lambda: tw.sum(k), "^sum..: argument 'body' is missing: expected an Expr, an Axis or a number$"),
                (lambda: tw.select(x[i, k], total), "^select..: argument 'b' is missing$"),
                (lambda: tw.compute("y", [i], boddy=x[i, 0]), "compute.. has no argument 'boddy': did you mean body.$"),
                (lambda: tw.workload(x, acuracy="fast"), "has no argument 'acuracy': did you mean accuracy.$"),
                (lambda: tw.Axis("m", extend=3), "^Axis.. has no argument 'extend': did you mean extent.$"),
                (lambda: tw.Store(), "^Store..: argument 'path' is missing: expected a path$"),
                (lambda: tw.Store(3), "^Store..: path is 3: expected a path$"),
                (lambda: tw.Kernel.load(pth="x"), "^Kernel.load.. has no argument 'pth': did you mean path.$"),
                (lambda: tw.Kernel.load(3), "^Kernel.load..: path is 3: expected a path$"),
                (lambda: tw.Model.open(), "^Model.open..: argument 'path' is missing: expected a path$"),
                (lambda: tw.Model.open("a", path="b"), "^Model.open..: 'path' is given by position and by name$"),
                (lambda: tw.interpret(tw.workload(tw.compute("y", [i], x[i, 0])).compute, [np.ones(8)]),
                 "^interpret..: inputs is a list: expected a dict$"),
                (lambda: tw.read_plan("x", -1), "^read_plan..: variant is -1, which is out of range$"),
                (lambda: tw.roofs(threads=2**40), "^roofs..: threads is 1099511627776, which is out of range$"),
                (lambda: tw.workload(tw.compute("y", [i], x[i, 0]), extents={"i": 2**70}),
                 "^workload..: an argument has elements of another type or out of range: expected"),
                (lambda: tw.roofs(db="path"), "^roofs..: db is 'path': expected a Store or None$"),
                (lambda: tw.parse_workload(np.ones(9)), "^parse_workload..: text is an? ndarray: expected text$"),
                (lambda: tw.parse_workload("a", "b"), "^parse_workload.. takes text by position, and 2 were given$"),
                (lambda: tw.workload(tw.compute("y", [i], x[i, 0])).with_layouts(layout={}), "^Workload.with_layouts.. has no argument 'layout': did")):
            with self.subTest(expected), self.assertRaises((TypeError, tw.UsageError)) as caught:
                call()
            self.assertRegex(str(caught.exception), expected)
            self.assertNotIn("\n", str(caught.exception))
        self.assertEqual([repr(tw.Axis("m")), repr(tw.Axis("m", np.int32(3)))], ["Axis('m')", "Axis('m', 3)"])

    def test_operands_of_different_types_are_an_error(self):
        i = tw.Axis("i", 3)
        a, b = tw.input("a", "f32", [i]), tw.input("b", np.int8, [i])
        with self.assertRaisesRegex(TypeError, "f32 and i8: expected operands of one type"):
            a[i] + b[i]
        with self.assertRaisesRegex(TypeError, "integers are divided by //"):
            b[i] / 2
        with self.assertRaisesRegex(TypeError, "exp"):
            tw.exp(b[i])
        with self.assertRaisesRegex(TypeError, "expected an expression"):
            a[i] + "1"

    def test_an_expression_has_no_truth_value(self):
        x = tw.var("x")
        with self.assertRaisesRegex(TypeError, "use select"):
            if x > 1:
                self.fail()
        with self.assertRaisesRegex(TypeError, "no truth value"):
            0 < x < 4  # noqa: B015

    def test_a_tensor_holds_no_elements(self):
        with self.assertRaisesRegex(TypeError, "holds no elements"):
            list(product())


class Computes(unittest.TestCase):
    def test_mean_what_numpy_says(self):
        compute = tw.workload(product()).compute
        a = np.arange(30, dtype=np.float32).reshape(6, 5)
        b = np.arange(20, dtype=np.float32).reshape(5, 4)
        np.testing.assert_array_equal(tw.interpret(compute, {"a": a, "b": b})["c"], a @ b)

    def test_of_several_stages_and_reductions(self):
        i, j = tw.Axis("i", 3), tw.Axis("j", 4)
        a = tw.input("a", "f32", [i, j])
        largest = tw.compute("largest", i, tw.max_over(j, a[i, j]))
        shifted = tw.compute("shifted", [i, j], tw.exp(a[i, j] - largest[i]))
        compute = tw.workload(shifted).compute
        x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
        expected = np.exp(x - x.max(axis=1, keepdims=True))
        np.testing.assert_allclose(tw.interpret(compute, {"a": x})["shifted"], expected, rtol=1e-6)

    def test_print_and_parse(self):
        compute = tw.workload(product()).compute
        self.assertEqual(tw.parse_compute(str(compute)), compute)
        self.assertEqual(hash(tw.parse_compute(str(compute))), hash(compute))
        self.assertEqual((compute.inputs, compute.outputs), (["a", "b"], ["c"]))
        self.assertEqual((compute.shape_of("c"), compute.type_of("c")), ([6, 4], tw.Float32))

    def test_errors_name_what_is_wrong(self):
        i = tw.Axis("i", 3)
        with self.assertRaisesRegex(tw.InvalidError, "a"):
            tw.workload(tw.compute("c", i, tw.input("a", "f32", [i, i])[i]))  # a has rank 2
        with self.assertRaises(ValueError):  # an InvalidError is a ValueError too
            tw.parse_compute("out: f32[i=3] = b[i]")
        with self.assertRaisesRegex(TypeError, "'double' is no element type"):
            tw.input("a", "double", [i])

    def test_expressions_that_nothing_could_walk_over_are_refused_where_they_are_made(self):
        """Without a bound on their size, printing or deleting expressions overflows the stack or
        fills the memory."""
        i = tw.Axis("i", 8)
        x = tw.input("x", "f32", [i])
        g = tw.input("g", "i64", [i])

        def repeated(step, value):
            """Returns the number of steps after which `step` refuses to build further. Expects that
            the last expression that was built can be printed."""
            for levels in range(1, 100_000):
                try:
                    value = step(value)
                except tw.InvalidError as error:
                    self.assertIn("declare stages in between", str(error))
                    self.assertGreater(len(repr(value)), 100)
                    return levels
            self.fail("nothing is refused")

        for step in (lambda e: e + x[i], lambda e: x[i] - e, lambda e: -e, tw.exp, lambda e: tw.max(e, 0.0),
                     lambda e: tw.clamp(e, 0.0, 1.0), lambda e: tw.select(i < 3, e, 0.0),
                     lambda e: tw.cast("f32", tw.cast("f16", e))):
            self.assertIn(repeated(step, x[i]), range(200, 500))
        self.assertIn(repeated(lambda e: g[e], g[i]), range(400, 500))
        # The tree has few levels, but about 2^n nodes after n steps.
        self.assertIn(repeated(lambda e: e * e, x[i]), range(10, 20))

    def test_chains_of_tensors_may_be_long(self):
        i = tw.Axis("i", 8)

        def chain(stages):
            last = tw.input("x", "f32", [i])
            for stage in range(stages):
                last = tw.compute(f"t{stage}", [i], last[i] + 1.0)
            return last

        self.assertEqual(tw.workload(chain(3000)).compute.outputs, ["t2999"])
        with self.assertRaisesRegex(tw.InvalidError, "more than 10000 declarations"):
            tw.workload(chain(200_000))

    def test_interpret_checks_its_inputs(self):
        compute = tw.workload(product()).compute
        a, b = np.zeros((6, 5), np.float32), np.zeros((5, 4), np.float32)
        with self.assertRaisesRegex(tw.UsageError, "'b' is missing"):
            tw.interpret(compute, {"a": a})
        with self.assertRaisesRegex(TypeError, "'b': expected f32"):
            tw.interpret(compute, {"a": a, "b": b.astype(np.float64)})
        with self.assertRaisesRegex(ValueError, "'b': expected f32.5, 4., got another shape"):
            tw.interpret(compute, {"a": a, "b": b[:, :3]})


class Workloads(unittest.TestCase):
    def test_of_operators_by_name(self):
        dense = tw.make_workload("dense", m=8, n=16, k=4)
        self.assertEqual(dense.attributes["k"], 4)
        self.assertEqual(tw.parse_workload(dense.key), dense)
        self.assertIn("conv2d", tw.operators())
        with self.assertRaisesRegex(tw.UsageError, "densen"):
            tw.make_workload("densen", m=1)

    def test_of_text(self):
        text = "input a: f32[6, 5]; weight b: f32[5, 4]; c: f32[m=6, n=4] = sum(k=5) a[m, k] * b[k, n]"
        self.assertEqual(tw.parse_workload(text), tw.workload(product()))
        self.assertEqual(tw.parse_workload("# a product\n" + text.replace("; ", "\n")), tw.workload(product()))

    def test_attributes_as_the_command_line_takes_them(self):
        self.assertEqual(tw.make_workload("dense", **tw.parse_shape("m=8,n=16,k=4", "dense")),
                         tw.make_workload("dense", m=8, n=16, k=4))
        self.assertEqual(tw.parse_shape("n1c64h56w56k64r3s3p1")["pad"], 1)
        with self.assertRaises(tw.UsageError):
            tw.parse_shape("m=eight", "dense")

    def test_with_layouts(self):
        conv = tw.make_workload("conv2d", c=32, h=8, w=8, k=32, r=3, s=3, pad=1)
        packed = conv.with_layouts({"in": "NCHW16c"})
        self.assertEqual(packed.key, conv.key)
        self.assertTrue(str(packed).endswith("{in=NCHW16c}"))
        self.assertNotEqual(packed, conv)

    def test_extents_that_are_given_later(self):
        i = tw.Axis("i")
        a = tw.input("a", "f32", [i])
        double = tw.compute("double", i, a[i] * 2)
        self.assertEqual(tw.workload(double, {"i": 7}).compute.shape_of("double"), [7])


if __name__ == "__main__":
    unittest.main()
