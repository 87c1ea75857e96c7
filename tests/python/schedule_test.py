#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests schedules that are written by hand."""
import unittest

import tilewright as tw


class Schedules(unittest.TestCase):
    def setUp(self):
        self.workload = tw.make_workload("dense", m=48, n=64, k=40)
        self.schedule = tw.Schedule(self.workload)

    def test_steps_print_and_parse(self):
        schedule = (self.schedule.split("out", "m", 6).split("out", "n", factor=16, tail="exact")
                    .reorder("out", ["m.0", "n.0", "k", "m.1", "n.1"])
                    .cache_write("out", "n.0").vectorize("out", loop="n.1"))
        self.assertEqual(schedule.steps[1], "split out n 16 exact")
        self.assertEqual(len(schedule.steps), 5)
        self.assertEqual(tw.parse_schedule(self.workload, str(schedule)), schedule)
        self.assertEqual(self.schedule.then("split out m 6").split("out", "n", 16, "exact").steps,
                         schedule.steps[:2])

    def test_each_step_leaves_the_schedule_before_it_alone(self):
        self.schedule.split("out", "m", 6)
        self.assertEqual(self.schedule.steps, [])

    def test_the_program_shows_the_loops(self):
        program = str(self.schedule.split("out", "m", 6).program())
        self.assertIn("for m.1 in 0..6", program)

    def test_the_program_as_c(self):
        text = tw.emit_c(self.schedule.program(), "product")
        self.assertIn("int32_t product_p0(void* const* buffers", text)

    def test_a_step_that_does_not_apply_says_why(self):
        with self.assertRaisesRegex(tw.InvalidError, "has no loop 'z'"):
            self.schedule.split("out", "z", 2)
        with self.assertRaisesRegex(tw.InvalidError, "split"):
            self.schedule.split("out", "m", "six")

    def test_loops_may_have_names_of_their_own(self):
        named = (self.schedule.split("out", "m", 6, names=("mo", "mi"))
                 .split("out", "n", 16, "exact", ["n", "lane"]).reorder("out", ["mo", "n", "k", "mi", "lane"])
                 .fuse("out", "mo", "n", names="tile").vectorize("out", "lane").parallel("out", "tile"))
        derived = (self.schedule.split("out", "m", 6).split("out", "n", 16, "exact")
                   .reorder("out", ["m.0", "n.0", "k", "m.1", "n.1"])
                   .fuse("out", "m.0", "n.0").vectorize("out", "n.1").parallel("out", "m.0*n.0"))
        self.assertEqual(named, derived)
        self.assertEqual(self.schedule.then("split out m 6 as a b").then("unroll out b").steps,
                         ["split out m 6", "unroll out m.1"])
        with self.assertRaisesRegex(tw.InvalidError, "'as' is followed by two names"):
            self.schedule.split("out", "m", 6, names=("mo",))
        with self.assertRaisesRegex(tw.InvalidError, r"its loops are mo \(m.0\), mi \(m.1\), n, k"):
            self.schedule.split("out", "m", 6, names=("mo", "mi")).unroll("out", "m")

    def test_windows_slide_and_scans_run_in_order(self):
        y, x, k = tw.Axis("y", 32), tw.Axis("x", 64), tw.Axis("k")
        a = tw.input("a", "f32", [tw.Axis("rows", 34), x])
        rows = tw.compute("rows", [tw.Axis("y", 34), x], a[y, x] * 2.0)
        out = tw.compute("out", [y, x], rows[y, x] + rows[y + 2, x])
        window = (tw.Schedule(tw.workload(out)).split("out", "y", 8, names=("strip", "y"))
                  .compute_at("rows", "out", "y").store_at("rows", "out", "strip"))
        self.assertEqual(window.steps[-1], "store_at rows out y.0")
        self.assertIn("rows: local f32[3, 64]", str(window.program()))
        scan = tw.compute("out", [y, x], tw.max_over(k < y, a[k, x]))
        self.assertIn("out: f32[y=32, x=64] = max(k < y) a[k, x]", str(tw.workload(scan).compute))
        with self.assertRaisesRegex(tw.InvalidError, "loop 'y' scans"):
            tw.Schedule(tw.workload(scan)).parallel("out", "y")

    def test_sizes_are_within_the_limits_of_the_target(self):
        workload = tw.make_workload("dense", m=1024, n=1024, k=1024, dtype="f16")
        schedule = tw.default_schedule(workload, "cuda:sm_90a")
        self.assertIn("shared", str(schedule.program("cuda:sm_90a")))
        with self.assertRaisesRegex(tw.InvalidError, "at most 49152"):
            schedule.program()
        with self.assertRaisesRegex(tw.UsageError, "abacus"):
            schedule.program(target="abacus")

    def test_text_says_where_it_is_wrong(self):
        with self.assertRaisesRegex(tw.InvalidError, "line 3, column 12: stage 'out' has no loop 'z'"):
            tw.parse_schedule(self.workload, "tw1\nsplit out m 6\nunroll out z")

    def test_a_schedule_is_applied_to_another_shape(self):
        schedule = self.schedule.split("out", "m", 6, "exact").split("out", "n", 16).vectorize("out", "n.1")
        same = schedule.applied_to(self.workload)
        self.assertTrue(same.is_unchanged)
        self.assertEqual((same.schedule, str(same)), (schedule, ""))
        other = schedule.applied_to(tw.make_workload("dense", m=32, n=8, k=40))
        self.assertFalse(other.is_unchanged)
        self.assertEqual(other.schedule.steps, ["split out m 6", "split out n 8", "vectorize out n.1"])
        self.assertEqual(other.steps[1].given, "split out n 16")
        self.assertEqual(other.steps[1].applied, "split out n 8")
        self.assertIn("split out n 16 -> split out n 8: the extent is 8", str(other))
        self.assertIn("the last tile has 2 of 6 iterations", str(other))
        elsewhere = schedule.applied_to(tw.make_workload("softmax", rows=8, cols=8))
        self.assertEqual(elsewhere.steps[0].applied, "")
        self.assertIn("left out: split out m 6 exact: ", str(elsewhere))

    def test_arguments_are_checked(self):
        with self.assertRaisesRegex(TypeError, "argument 'factor' is missing"):
            self.schedule.split("out", "m")
        for call, expected in (
                (lambda: self.schedule.split("out", "m", factr=6), "split.. has no argument 'factr': did you mean factor.$"),
                (lambda: self.schedule.split("out", "m", nams=["a"]), "split.. has no argument 'nams': did you mean names.$"),
                (lambda: self.schedule.split("out", "m", 4, factor=2), "split..: 'factor' is given by position and by name"),
                (lambda: self.schedule.unroll("out", "m", 4), "unroll.. takes .*, and 3 arguments were given"),
                (lambda: self.schedule.program(zzz=1), "^Schedule.program.. has no argument 'zzz': it has target$"),
                (lambda: tw.Schedule("x"), "^Schedule: compute is 'x': expected a Workload or a Compute$"),
                (lambda: self.schedule.applied_to(7), "compute is 7: expected a Workload or a Compute$")):
            with self.subTest(expected), self.assertRaisesRegex(TypeError, expected):
                call()

    def test_methods_say_their_arguments(self):
        self.assertIn("split(self, stage: str, loop: str, factor: int, tail: str = 'guard', "
                      "names: collections.abc.Sequence[str] = ...) -> Schedule",
                      tw.Schedule.split.__doc__)
        self.assertIn("split STAGE LOOP FACTOR [guard|exact|shift]", tw.Schedule.split.__doc__)


if __name__ == "__main__":
    unittest.main()
