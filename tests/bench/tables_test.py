# SPDX-License-Identifier: Apache-2.0
"""Tests that the tables of the pages are those that bench/results gives, and that they keep the
rules for quoting."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import tables  # noqa: E402


def row(name, ratio=1.5, **others):
    return {"name": name, "threads": 1, "rounds": 10, "ours_us": 100.0, "peer_us": 100.0 * ratio,
            "ratio": ratio, "ratio_low": 0.9 * ratio, "ratio_high": 1.1 * ratio, **others}


def document(rows, suite="gemm", name=None, **others):
    return tables.Document("zen5_2_cores", name or suite, {
        "schema_version": 2, "suite": suite, "options": {"rounds": 10, "cache": "hot"},
        "peer": {"name": "onednn", "version": "3.13.2"}, "rows": rows, **others})


def text_of(table):
    return table.text(lambda cell: cell).replace("\n  ", " ")


class Rules(unittest.TestCase):
    def kernels(self, *rows):
        return text_of(tables.kernels([document([row("good"), row("fine"), *rows])]))

    def test_rows_that_may_not_be_quoted_are_listed_with_the_reason(self):
        for bad, reason in ((row("bad", 9.0, disturbed="0 of 10 rounds count", rounds=0),
                             "bad (0 of 10 rounds count)"),
                            (row("bad", 9.0, disturbed="other processes"), "bad (other processes)"),
                            (row("bad", 9.0, disturbed="steal", rounds=3), "bad (3 of 10 rounds count: steal)"),
                            (row("bad", 9.0, peer_call_us=20.0), "bad (call overhead is 2 %"),
                            ({"name": "bad", "error": "no kernel"}, "bad (not timed (no kernel))")):
            with self.subTest(reason):
                text = self.kernels(bad)
                self.assertIn("| 2 of 3 |", text)
                self.assertIn("1.500", text)
                self.assertNotIn("9.0", text)
                self.assertIn(reason, text)

    def test_a_file_without_enough_rows_is_left_out(self):
        bad = [row(f"bad{i}", disturbed="busy") for i in range(3)]
        text = self.kernels(*bad)
        self.assertNotIn("1.500", text)
        self.assertIn("fewer than half", text)

    def test_gpus_have_a_table_of_their_own(self):
        on_a_gpu = {"machine": {"target": "cuda:sm_90a", "device": "GPU"}, "peer": {"name": "cudnn", "version": "9"}}
        conv = "conv2d n=32 c=64 h=56 bf16 fast {in=NHWC out=NHWC}"
        documents = [document([row("r04", 0.8, workload=conv), row("r05", 1.2, workload=conv)], "resnet50_conv",
                              "resnet50_conv_bf16", **on_a_gpu)]
        self.assertEqual(tables.kernels(documents).rows, [])
        (cells,) = tables.gpus(documents).rows
        self.assertEqual(cells[1:4], ["`resnet50_conv`, bf16, 32 images, in=NHWC out=NHWC", "2 of 2", "cuDNN 9"])
        self.assertIn("0.800", cells[6])

    def test_choices_are_compared_with_samples_for_each_condition(self):
        def choice(name, ratio, workload):
            return {"name": name, "ratio": ratio, "workload": workload}

        conv = "conv2d n={} c=64 h=56 f32 fast"
        documents = [tables.Document("sm_90a", "optimum_resnet50_conv", {
            "schema_version": 2, "suite": "resnet50_conv", "machine": {"target": "cuda:sm_90a", "device": "GPU"},
            "optimum": [choice("r04", 0.9, conv.format(1)), choice("r05", 1.2, conv.format(1)),
                        choice("r04_n32", 1.01, conv.format(32))]})]
        alone, many = tables.optimum(documents).rows
        self.assertEqual(alone[:6], ["`cuda:sm_90a`", "`resnet50_conv`, f32, 1 image", "2", "1.039", "1.200 (r05)", "1"])
        self.assertEqual(many[1:6], ["`resnet50_conv`, f32, 32 images", "1", "1.010", "1.010 (r04_n32)", "0"])
        for table in (tables.machines, tables.gpus):
            self.assertEqual(table(documents).rows, [])

    def test_the_title_names_types_other_than_f32(self):
        for dtype, title in (("f32", "`resnet50_conv`"), ("bf16", "`resnet50_conv`, bf16")):
            rows = [row("r04", workload=f"conv2d n=1 c=64 h=56 {dtype} fast")]
            (cells,) = tables.kernels([document(rows, "resnet50_conv")]).rows
            self.assertEqual(cells[1], title)

    def test_a_figure_outside_of_its_interval_is_refused(self):
        with self.assertRaisesRegex(tables.Failure, "outside of its interval"):
            self.kernels(row("bad", ratio_low=1.6))

    def test_means_are_also_given_without_the_rows_above_two(self):
        text = self.kernels(row("high", 8.0))
        self.assertIn("2.621; 1.500 without the 1 row above 2", text)

    def test_the_first_version_has_medians_under_another_name(self):
        old = row("old", 9.0, ratio_median=1.25, ratio_low=1.2, ratio_high=1.3)
        self.assertEqual(tables.ratio_of(old, 1), tables.Figure(1.25, 1.2, 1.3))

    def test_the_first_page_has_the_fastest_version_of_a_peer(self):
        documents = [document([row("a", 1.5)]),
                     document([row("a", 1.2)], name="gemm_onednn32", peer={"name": "onednn", "version": "3.2.0"})]
        text = text_of(tables.overview(documents))
        self.assertIn("| 1.200 (1 rows, oneDNN 3.2.0) |", text)
        self.assertNotIn("1.500", text)

    def test_a_second_run_is_compared_with_rows_of_the_same_threads_and_tuning(self):
        first = document([row("a", 1.0, budget_s=0), row("a", 3.0, budget_s=40.0), row("a", 5.0, threads=2, budget_s=0)])
        again = document([row("a", 1.1, budget_s=0)], name="gemm_again")
        ((*_, change, _),) = tables.repeated([first, again])
        self.assertEqual(change, "10.0 %, 1 rows compared")

    def test_a_second_run_is_compared_with_rows_of_the_same_peer(self):
        first, again = (document([row("net", ratio, peer="onnxruntime 1"), row("net", 3.0, peer="openvino 1")], name=name,
                                 network={"name": "net"}) for name, ratio in (("net", 1.0), ("net_again", 1.2)))
        ((*_, change, _),) = tables.repeated([first, again])
        self.assertEqual(change, "20.0 %, 2 rows compared")

    def test_a_second_run_without_a_common_row_is_refused(self):
        with self.assertRaisesRegex(tables.Failure, "no row that may be quoted is also one of"):
            tables.repeated([document([row("a")]), document([row("b")], name="gemm_again")])

    def test_rows_are_counted_by_their_intervals(self):
        ratios = [tables.Figure(*f) for f in ((1.1, 1.05, 1.2), (1.0, 0.9, 1.1), (0.9, 0.8, 1.0),
                                              (0.8, 0.7, 0.9))]
        self.assertEqual(tables.verdicts(ratios), "1, 2, 1")

    def test_plans_without_a_round_that_counts_are_left_out(self):
        def network(name, **others):
            rows = [{"name": choice, "measured_us": 1e4, "measured_low_us": 9e3, "measured_high_us": 2e4}
                    for choice in tables.CHOICES]
            return {"network": name, "threads": 1, "rounds": 10, "disturbed": "", "rows": rows, **others}
        text = text_of(tables.ablation([document([], "ablation", networks=[
            network("resnet18"), network("resnet50", rounds=0, disturbed="other processes")])]))
        self.assertIn("ResNet-18, 1 | 0 | 10.0 [9.0, 20.0]", text)
        self.assertNotIn("ResNet-50", text)
        self.assertIn("resnet50 of `zen5_2_cores/ablation`: 0 rounds count (other processes)", text)

    def test_tvm_is_told_with_its_budget_and_what_it_was_not_allowed(self):
        summary = {"strategy": "tvm", "rows": 1, "shares": {"16": 0.42}, "winner": 0.42}
        text = text_of(tables.search([document([], "search", options={
            "budget_s": 20.0, "trials": 32, "suite": "resnet50_conv"},
            search={"rows": [{"name": "r01"}], "summary": [summary]})]))
        self.assertIn("20 s, at most 32 trials | TVM's MetaSchedule | - | - | 42.0 %", text)
        self.assertIn("weights are not packed ahead", text)


class Pages(unittest.TestCase):
    def run_script(self, *arguments):
        return subprocess.run([sys.executable, ROOT / "bench" / "tables.py", *arguments],
                              capture_output=True, text=True)

    def test_they_have_the_figures_of_the_results(self):
        done = self.run_script("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_figure_that_was_edited_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for page in tables.PAGES:
                (root / page).parent.mkdir(exist_ok=True)
                (root / page).write_text((ROOT / page).read_text())
            self.assertEqual(self.run_script("--check", "--root", folder).returncode, 0)
            page = root / "bench" / "README.md"
            good = page.read_text()
            page.write_text(good.replace("1.013 |", "1.213 |"))
            done = self.run_script("--check", "--root", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("-| Zen", done.stdout)
            self.assertIn("run bench/tables.py", done.stderr)
            self.assertEqual(self.run_script("--root", folder).returncode, 0)
            self.assertEqual(page.read_text(), good)

    def test_a_result_that_changed_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for source in (ROOT / "bench" / "results").glob("*/*.json"):
                copy = pathlib.Path(folder) / source.parent.name / source.name
                copy.parent.mkdir(exist_ok=True)
                copy.write_text(source.read_text())
            path = pathlib.Path(folder) / "zen5_2_cores" / "gemm.json"
            content = json.loads(path.read_text())
            content["rows"][0]["disturbed"] = "a neighbour"
            path.write_text(json.dumps(content))
            done = self.run_script("--check", "--results", folder)
            self.assertEqual(done.returncode, 1)
            self.assertIn("a neighbour", done.stdout)

    def test_an_unknown_table_is_an_error(self):
        with self.assertRaisesRegex(tables.Failure, "expected one of machines"):
            tables.filled("page.md", "<!-- begin table nothing -->\n<!-- end table -->", [])

    def test_links_follow_the_folder_of_the_page(self):
        link = tables.linking("bench/README.md")
        self.assertEqual(link("[JSON](bench/results/a.json)"), "[JSON](results/a.json)")
        self.assertEqual(tables.linking("README.md")("[JSON](bench/a)"), "[JSON](bench/a)")


if __name__ == "__main__":
    unittest.main()
