#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plots: what their specifications hold, and that Vega-Lite takes them."""
import json
import pathlib
import tempfile
import unittest

import records

import tilewright as tw
from tilewright import plots

try:
    import vl_convert
except ImportError:
    vl_convert = None


def layers_of(view, mark):
    """The rows of the layers with this mark."""
    return [layer["data"]["values"] for layer in view["layer"]
            if (layer["mark"] if isinstance(layer["mark"], str) else layer["mark"]["type"]) == mark]


class Plots(unittest.TestCase):
    def check(self, plot):
        """It is plain JSON without NaN, and Vega-Lite compiles and draws it."""
        json.dumps(plot.spec, allow_nan=False)
        self.assertEqual(plot._repr_mimebundle_()[plots.VEGA_LITE_MIME], plot.spec)
        if vl_convert is None:
            print("[SKIP] vl-convert-python is not installed: specifications are not drawn")
            return plot.spec
        self.assertTrue(vl_convert.vegalite_to_svg(plot.spec).startswith("<svg"))
        return plot.spec

    def test_best_so_far_over_trials(self):
        spec = self.check(plots.best_so_far(records.search(8), untuned_ns=20_000))
        steps = layers_of(spec, "line")[0]
        self.assertEqual([(step["x"], step["latency_us"]) for step in steps],
                         [(1, 9.0005), (2, 4.50125), (3, 2.252125), (8, 2.252125)])
        self.assertEqual(len(layers_of(spec, "point")[0]), 6)
        self.assertEqual([row["x"] for row in layers_of(spec, "tick")[0]], [4, 8])
        self.assertEqual(layers_of(spec, "rule")[0], [{"name": "untuned", "latency_us": 20}])
        self.assertEqual(spec["title"]["subtitle"], ["arithmetic at the peak: 244.5 ns"])

    def test_best_so_far_over_time_joins_sessions(self):
        second = records.search(4, session="s2")
        for begun_ms in (1, 1_000_000):  # at the same time, and later
            for record in second:
                record.created_ms += begun_ms
            spec = self.check(plots.best_so_far(records.search(4) + second, over="time"))
            self.assertEqual([row["x"] for row in layers_of(spec, "point")[0]],
                             [0, 0.5, 1, 1.5, 2, 2.5])

    def test_best_so_far_finds_the_default_schedule_and_this_machines_memory(self):
        workload = tw.parse_workload(records.DENSE)
        default = str(tw.default_schedule(workload))
        here = dict(device=tw.device(), target="host")
        trials = [records.record(schedule=default, latency_ns=70_000.5, **here),
                  records.record(trial=2, **here)]
        spec = self.check(plots.best_so_far(trials))
        self.assertEqual(layers_of(spec, "rule")[0],
                         [{"name": "default schedule", "latency_us": 70.0005}])
        self.assertIn("arrays once from L1", spec["title"]["subtitle"][1])

    def test_without_any_valid_trial(self):
        plot = plots.best_so_far([records.failed()])
        self.check(plot)
        self.assertIn("no valid trial", plot.text)

    def test_nothing_to_draw_is_said(self):
        for plot in (plots.knobs([records.record()]), plots.failures([records.record()]),
                     plots.timeline([]), plots.roofline([records.failed()]),
                     plots.predicted_against_measured([records.failed()], [1])):
            self.check(plot)

    def test_records_that_cannot_be_compared_are_refused(self):
        other = records.record(device="another")
        for plot in (plots.best_so_far, plots.knobs, plots.predicted_against_measured):
            with self.assertRaisesRegex(tw.UsageError, "records of 2 workloads"):
                plot([records.record(), other])
            with self.assertRaisesRegex(tw.UsageError, "records of 0 workloads"):
                plot([])
        with self.assertRaisesRegex(tw.UsageError, "trial or time"):
            plots.best_so_far([records.record()], over="cost")

    def test_rank_correlation(self):
        self.assertAlmostEqual(plots.rank_correlation([1, 2, 3, 4], [10, 20, 30, 90]), 1)
        self.assertAlmostEqual(plots.rank_correlation([1, 2, 3, 4], [4, 3, 2, 1]), -1)
        # Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
        self.assertAlmostEqual(plots.rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]), 0.9486833)
        self.assertIsNone(plots.rank_correlation([1, 1, 1], [1, 2, 3]))

    def test_predictions_are_judged_by_round(self):
        trials = records.search(16)
        right = [record.latency_ns for record in trials]
        predicted = right[:8] + [1 / ns if ns else 0 for ns in right[8:]]
        plot = plots.predicted_against_measured(trials, predicted, trials_per_round=6)
        rounds = self.check(plot)["hconcat"][1]["layer"][0]["data"]["values"]
        self.assertEqual([(row["round"], row["trials"], row["rank_correlation"]) for row in rounds],
                         [(1, 6, 1), (2, 6, -1)])

    def test_predictions_come_from_the_analytic_model(self):
        workload = tw.parse_workload(records.DENSE)
        fast = str(tw.default_schedule(workload))
        predicted = tw.predict(workload, [fast, "tw1\n", "tw1\nsplit nothing m 2\n"])
        self.assertLess(predicted[0], predicted[1])
        self.assertIsNone(predicted[2])
        trials = [records.record(schedule=text, trial=i, latency_ns=1000.5 + i)
                  for i, text in enumerate([fast, "tw1\n"])]
        spec = self.check(plots.predicted_against_measured(trials))
        self.assertEqual(len(spec["hconcat"][0]["layer"][1]["data"]["values"]), 2)

    def test_roofline(self):
        spec = self.check(plots.roofline(records.search() + [records.failed(op="other")]))
        points = layers_of(spec, "point")[0]
        self.assertEqual(len(points), 1)
        self.assertAlmostEqual(points[0]["intensity"], 24576.5 / (4 * (16 * 24 + 24 * 32 + 16 * 32)))
        roofs = tw.roofs()
        spec = self.check(plots.roofline(records.search(), roofs))
        self.assertEqual({row["roof"].split(",")[0] for row in layers_of(spec, "line")[0]},
                         {"peak"} | {level.name for level in roofs.levels})
        for row in layers_of(spec, "line")[0]:
            self.assertLessEqual(row["gflops"], 100.5)  # the peak that was measured

    def test_knobs_that_matter_explain_the_variance(self):
        spec = self.check(plots.knobs(records.search()))
        importance = {row["decision"]: row["explained"]
                      for row in spec["vconcat"][0]["data"]["values"]}
        self.assertGreater(importance["out.x_tile"], 0.95)
        self.assertLess(importance["out.y_tile"], 0.2)
        self.assertNotIn("out.strategy", importance)  # all trials have one
        self.check(plots.knobs([records.record(configuration="")]))

    def test_configurations(self):
        self.assertEqual(plots.parse_configuration("c: cpu_tile place=1 x=14; out: loops"),
                         {"algorithm": "direct", "c.strategy": "cpu_tile", "c.place": "1", "c.x": "14",
                          "out.strategy": "loops"})
        self.assertEqual(plots.parse_configuration("winograd_4; out: loops"),
                         {"algorithm": "winograd_4", "out.strategy": "loops"})

    def test_failures_of_one_reason_are_one_bar(self):
        trials = records.search() + [records.failed(reason=f"element {i} differs by 1e-{i}")
                                     for i in range(1, 4)]
        trials.append(records.failed(status="crash", reason="signal 11"))
        rows = self.check(plots.failures(trials))["data"]["values"]
        self.assertEqual([(row["status"], row["trials"]) for row in rows][:1], [("wrong", 6)])
        self.assertIn("crash: signal #", [row["why"] for row in rows])
        self.assertIn("0 of 1 trial", plots.failures([records.record()]).text)

    def test_layouts_of_a_network(self):
        plot = plots.layouts(records.plan())
        spec = self.check(plot)
        nodes, edges = layers_of(spec, "point")[0], layers_of(spec, "line")[0]
        self.assertEqual([(node["kind"], node["row"]) for node in nodes],
                         [("input", 0), ("transform", 1), ("kernel", 2), ("kernel", 3)])
        self.assertEqual({edge["layout"] for edge in edges}, {"row-major", "NCHW16c"})
        self.assertEqual(len({edge["edge"] for edge in edges}), 4)
        self.assertEqual(plot.text, "net: 5.0 µs: 4.5 µs in 2 kernels, 500.0 ns in 1 transform")

    def test_pieces_of_a_concatenation_in_place_lead_to_its_reader(self):
        plan = records.plan()
        plan.steps = [
            records.make_step("left", "conv2d n=1", 1, records.argument("x", "input 0"),
                              records.argument("a", "arena 0", is_output=True)),
            records.make_step("right", "conv2d n=1", 1, records.argument("x", "input 0"),
                              records.argument("b", "arena 4096", is_output=True)),
            records.make_step("both", "conv2d n=1", 1, records.argument("concat", "arena 0", channels=32),
                              records.argument("c", "arena 8192", is_output=True)),
            # The memory of the pieces is used again, by one tensor.
            records.make_step("later", "conv2d n=1", 1, records.argument("c", "arena 8192"),
                              records.argument("d", "arena 0", is_output=True, channels=32)),
            records.make_step("last", "conv2d n=1", 1, records.argument("d", "arena 0", channels=32),
                              records.argument("z", "output 0", is_output=True))]
        spec = self.check(plots.layouts(plan))
        nodes = {(node["lane"], node["row"]): node["name"] for node in layers_of(spec, "point")[0]}
        edges = {}
        for point in layers_of(spec, "line")[0]:
            edges.setdefault(point["edge"], []).append((point["lane"], point["row"]))
        self.assertEqual(sorted((nodes[points[0]], nodes[points[-1]]) for points in edges.values()),
                         [("both", "later"), ("later", "last"), ("left", "both"), ("right", "both"), ("x", "left"),
                          ("x", "right")])

    def test_costs_of_a_network(self):
        rows = self.check(plots.costs(records.plan()))["data"]["values"]
        self.assertEqual({row["computes"]: row["time_us"] for row in rows},
                         {"transform": 0.5, "conv2d": 3, "add": 1.5})

    def test_the_timeline_of_a_call(self):
        spec = self.check(plots.timeline([("a", 1000, 3000), ("b", 3500, 4000)]))
        self.assertEqual([(row["begin_us"], row["end_us"]) for row in spec["data"]["values"]],
                         [(0, 2), (2.5, 3)])

    def test_hostile_names_reorder_nothing(self):
        hostile = records.HOSTILE
        trial = records.record(workload=hostile, op=hostile, device=hostile, session=hostile,
                               configuration=f"{hostile}: a x=1")
        bad = records.failed(workload=hostile, device=hostile, reason=hostile)
        for plot in (plots.best_so_far([trial]), plots.roofline([trial]), plots.knobs([trial]),
                     plots.failures([bad]), plots.layouts(records.plan(hostile, hostile)),
                     plots.costs(records.plan(hostile, hostile)), plots.timeline([(hostile, 1, 2)])):
            self.check(plot)
            text = json.dumps(plot.spec, ensure_ascii=False) + repr(plot)
            for character in "\u202e\u2066\x07\n":
                self.assertNotIn(character, text)

    def test_are_saved(self):
        plot = plots.best_so_far(records.search())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "plot.json"
            plot.save(path)
            self.assertEqual(json.loads(path.read_text()), plot.spec)
            with self.assertRaisesRegex(tw.UsageError, ".json or .svg"):
                plot.save(path.with_suffix(".bmp"))


if __name__ == "__main__":
    unittest.main()
