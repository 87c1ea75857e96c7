#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the display of values in a notebook."""
import pathlib
import tempfile
import types
import unittest

import records

import tilewright as tw
from tilewright import display

DENSE = tw.make_workload("dense", m=16, n=32, k=24)


def shown(value):
    """Returns the value's HTML, parsed. Expects that its text form is plain."""
    bundle = value._repr_mimebundle_()
    assert bundle["text/plain"] == display.visible(repr(value))
    return records.Markup(bundle["text/html"])


class Values(unittest.TestCase):
    def test_expressions_and_computes(self):
        self.assertIn("x < 3", shown(tw.var("x") < 3).text)
        compute = shown(DENSE.compute)
        self.assertIn("Float32[16, 24]", compute.text)
        self.assertIn("sum(k=24)", compute.text)

    def test_workloads_say_what_they_cost(self):
        text = shown(DENSE.with_layouts({"out": "NM"})).text
        for part in ("k=24", "out=NM", "0.025 MFLOP", "4.5 KiB read, 2.0 KiB written",
                     "3.69 FLOP per byte"):
            self.assertIn(part, text)

    def test_schedules_stand_beside_their_loops(self):
        schedule = tw.Schedule(DENSE).split("out", "n", 8).unroll("out", "n.1")
        page = shown(schedule)
        self.assertIn("split out n 8", page.text)
        self.assertIn("unroll n.1 in 0..8", page.text)
        self.assertIn(f'<b style="color:{display.GREEN}">unroll</b>', display.schedule_html(schedule))
        self.assertIn("│ │ ", shown(schedule.program()).text)

    def test_loops_of_a_gpu_kernel_have_its_limits(self):
        gpu = "cuda:sm_90a"
        workload = tw.make_workload("dense", m=1024, n=1024, k=1024, dtype="f16")
        best = types.SimpleNamespace(workload_text=workload.key, target=gpu, schedule=str(tw.default_schedule(workload, gpu)))
        page = display._loops_and_instructions(types.SimpleNamespace(best=best, assembly=lambda: "ret"))
        self.assertIn("thread", records.Markup(page).text)
        self.assertNotIn("at most 49152", page)

    def test_an_illegal_schedule_says_why(self):
        page = shown(tw.Schedule(DENSE).split("out", "n", 8).vectorize("out", "n.1"))
        self.assertIn("vectorize out n.1", page.text)
        self.assertIn("a vector loop must be the innermost loop", page.text)

    def test_plans_tell_transforms_from_kernels(self):
        plan = display.plan_html(records.plan())
        page = records.Markup(plan)
        self.assertIn("5.0 µs: 4.5 µs in 2 kernels, 500.0 ns in 1 transform", page.text)
        self.assertIn("NCHW16c, row-major -> row-major", page.text)
        self.assertEqual(page.tags.count("svg"), 3)
        self.assertEqual(plan.count(f'fill="{display.RED}"'), 1)


    def test_layouts_of_images_have_one_spelling(self):
        for shape, layout, text in (([1, 16, 8, 8], "ACDB", "NHWC"), ([1, 16, 8, 8], "ABCD16b", "NCHW16c"),
                                    ([1, 16, 8, 8], "NCHW16c", "NCHW16c"), ([4, 4], "BA", "BA"),
                                    ([1, 16, 8, 8], "", "row-major")):
            argument = types.SimpleNamespace(shape=shape, layout=layout)
            self.assertEqual(display.layout_text(argument), text)


class Assembly(unittest.TestCase):
    TEXT = ("0000000000000010 <kernel>:\n"
            "  10:\tpush   %rbx\n"
            "  12:\tvmovss (%rdi),%xmm0\n"          # start of the outer loop
            "  16:\tvfmadd231ps %zmm0,%zmm1,%zmm2\n"  # start of the inner loop
            "  1c:\tjne    16 <kernel+0x6>\n"
            "  1e:\tcall   10 <kernel>\n"
            "  22:\tjb     12 <kernel+0x2>\n"
            "  24:\tjmp    30 <kernel+0x20>\n"
            "  30:\tret\n")

    def test_innermost_loops_are_marked(self):
        self.assertEqual(display.innermost_loops(self.TEXT), [(0x16, 0x1c)])
        arm = "   4:\tfmla   v0.4s, v1.4s, v2.4s\n   8:\tcbnz   x1, 4 <f+0x4>\n   c:\tbl     4 <f>\n"
        self.assertEqual(display.innermost_loops(arm), [(4, 8)])
        self.assertEqual(display.assembly_html(self.TEXT).count("<span"), 2)
        self.assertEqual(records.Markup(display.assembly_html(self.TEXT)).text + "\n", self.TEXT)

    def test_stands_beside_the_loops_of_a_result(self):
        with tempfile.TemporaryDirectory() as folder:
            tuned = tw.tune(DENSE, db=pathlib.Path(folder) / "t.db", trials=2)
        self.assertIn("<tw_", tuned.assembly())
        page = shown(tuned)
        for part in ("ret", "kernel(a: f32[", "best", "untuned", "trials"):
            self.assertIn(part, page.text)


class Queries(unittest.TestCase):
    def test_are_lists_that_show_a_table(self):
        found = display.Records(records.search(8))
        self.assertEqual(repr(found), "<Records: 8 of 1 workload: 6 ok, 2 wrong>")
        page = shown(found)
        self.assertEqual(page.tags.count("tr"), 9)
        self.assertEqual(page.tags.count("svg"), 8)
        self.assertEqual(repr(display.Records()), "<Records: none>")
        self.assertEqual(len(found), 8)

    def test_long_ones_are_cut(self):
        page = shown(display.Records(records.search(250)))
        self.assertEqual(page.tags.count("tr"), 202)
        self.assertIn("50 more", page.text)

    def test_a_record_shows_its_peak_and_reason(self):
        self.assertIn("16.3 %", records.Markup(display.record_html(records.record())).text)
        self.assertIn("differs by 0.25", records.Markup(display.record_html(records.failed())).text)

    def test_pruned_trials_have_the_name_of_the_program(self):
        self.assertIn("pruned", shown(display.Records([records.record(status="hopeless")])).text)


class Machines(unittest.TestCase):
    def test_what_has_numbers_shows_them(self):
        product = tw.make_workload("dense", m=64, n=64, k=64)
        tiled = tw.Schedule(product.compute).split("out", "m", 8)
        adapted = tiled.applied_to(tw.make_workload("dense", m=48, n=32, k=32))
        for value, word in ((tw.predicted_time(tiled), "predicted"), (tw.roofs(), "GFLOP/s"), (adapted, "split out m 8")):
            bundle = value._repr_mimebundle_()
            self.assertIn(word, bundle["text/html"])
            self.assertTrue(bundle["text/plain"].startswith("<"))

    def test_a_database_shows_what_it_holds(self):
        with tempfile.TemporaryDirectory() as folder:
            store = tw.Store(pathlib.Path(folder) / "<b>.db")
            self.assertIn("0 records", repr(store))
            page = store._repr_mimebundle_()["text/html"]
            self.assertIn("records", page)
            self.assertNotIn("<b>", page)


class HostileNames(unittest.TestCase):
    def check(self, text):
        page = records.Markup(text)
        self.assertNotIn("script", page.tags)
        self.assertNotIn("style", page.tags)
        for character in "\u202e\u2066\x07":
            self.assertNotIn(character, text)
        self.assertIn("\\u202egnp", page.text)
        self.assertIn("<script>", page.text)

    def test_are_text_everywhere(self):
        hostile = records.HOSTILE
        made = records.record(workload=hostile, op=hostile, device=hostile, session=hostile,
                              reason=hostile, schedule=hostile, target=hostile)
        self.check(display.record_html(made))
        self.check(display.records_html(display.Records([made])))
        self.check(display.program_html(hostile))
        self.check(display.facts([(hostile, hostile)]))
        self.check(display.details(hostile, ""))
        plan = records.plan(hostile, hostile)
        self.check(display.plan_html(plan))

    def test_do_not_hide_in_plain_text(self):
        bundle = display.Records([records.record(workload=records.HOSTILE)])._repr_mimebundle_()
        self.assertNotIn("\u202e", bundle["text/plain"])

    def test_lone_surrogates_can_be_encoded(self):
        display.escaped("\ud800").encode()

    def test_one_line_is_one_line(self):
        self.assertEqual(display.one_line("a\nb\tc"), "a\\nb\\tc")
        self.assertEqual(display.one_line("abcdef", 4), "abc…")


if __name__ == "__main__":
    unittest.main()
