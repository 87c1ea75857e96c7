# SPDX-License-Identifier: Apache-2.0
"""Tests schedules that a person wrote: --schedule FILE, and the commands of docs/tutorial.md."""

import pathlib
import re
import shlex

import program

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BY_HAND = """\
tw1  # tiles of 8 x 16
split out m 8 as mo mi
split out n 16 as no ni
reorder out mo no k mi ni
cache_write out no
vectorize out ni
unroll out mi
"""
CANONICAL = """\
tw1
split out m 8
split out n 16
reorder out m.0 n.0 k m.1 n.1
cache_write out n.0
vectorize out n.1
unroll out m.1
"""


class ByHand(program.ProgramTest):
    def setUp(self):
        super().setUp()
        (self.home / "tiles.tw1").write_text(BY_HAND)
        self.by_hand = [*program.SMALL, "--schedule", "tiles.tw1"]

    def test_show(self):
        self.assertEqual(self.succeed("show", *self.by_hand, "--steps").out, CANONICAL)
        with open(self.home / "tiles.tw1") as text:
            done = self.succeed("show", *program.SMALL, "--schedule", "-", "--program", stdin=text)
        self.assertIn("vector n.1 in 0..16", done.out)
        self.assertIn("that of standard input, of which no trial is stored", done.err)
        document = self.json("show", *self.by_hand, "--format", "json")
        self.assertEqual(document["schedule"] + "\n", CANONICAL)
        self.assertEqual((document["schedule_from"], document["known"]), ("tiles.tw1", False))
        self.assertEqual(document["adaptation"], [])

    def test_show_adapts_it_to_another_shape(self):
        done = self.succeed("show", "--op", "dense", "--shape", "m=5,n=40,k=64", "--schedule", "tiles.tw1",
                            "--steps")
        self.assertIn("split out m 5\n", done.out)
        self.assertIn("split out m 8 as mo mi -> split out m 5: the extent is 5\n", done.err)
        self.assertIn("split out n 16 as no ni: the last tile has 8 of 16 iterations\n", done.err)
        done = self.succeed("show", "--op", "softmax", "--shape", "rows=8,cols=8", "--schedule", "tiles.tw1",
                            "--steps")
        self.assertIn("left out: reorder out mo no k mi ni: ", done.err)

    def test_an_adaptation_that_fails_names_the_step_that_is_missing(self):
        (self.home / "winograd.tw1").write_text("tw1\nwinograd out x 4\nsplit out x 4\nvectorize out x.1\n")
        command = ["show", "--op", "conv2d", "--schedule", "winograd.tw1", "--steps"]
        self.succeed(*command, "--shape", "n1c4h8w8k4r3s3p1")
        self.fail_with(5, *command, "--shape", "n1c4h8w8k4r3s3st2p1",
                       saying=["a vector loop must be the innermost loop",
                               "; 2 of 3 steps apply, the first that does not: winograd out x 4: "])

    def test_strict_allows_no_other_algorithm(self):
        (self.home / "winograd.tw1").write_text("tw1\nwinograd out x 4\n")
        command = ["show", "--op", "conv2d", "--shape", "n1c4h8w8k4r3s3p1", "--schedule", "winograd.tw1"]
        self.succeed(*command, "--steps")
        self.fail_with(5, *command, "--accuracy", "strict",
                       saying=["winograd.tw1: 'winograd out x 4' computes by other operations"])

    def test_run_explain_and_compile(self):
        document = self.json("run", *self.by_hand, "--format", "json")
        self.assertEqual((document["schedule_from"], document["record"]), ("tiles.tw1", ""))
        self.assertGreater(document["checked_elements"], 0)
        self.assertEqual(self.json("explain", *self.by_hand, "--format", "json")["schedule_from"], "tiles.tw1")
        document = self.json("compile", *self.by_hand, "--output", "tiles.twart", "--format", "json")
        self.assertEqual((document["schedule_from"], document["record"]), ("tiles.tw1", ""))
        self.assertTrue((self.home / "tiles.twart").exists())

    def test_tune_measures_it_first(self):
        result = self.tune("--schedule", "tiles.tw1")["results"][0]
        self.assertGreater(result["by_hand_ns"], 0)
        query = self.json("db", "query", "--db", self.db, "--format", "json")
        self.assertIn(CANONICAL.strip(), [record["schedule"] for record in query["records"]])
        shown = self.json("show", *self.by_hand, "--db", self.db, "--format", "json")
        self.assertTrue(shown["known"])
        (self.home / "rows.tw1").write_text("tw1\nreorder out m k n\n")
        other = self.json("explain", *program.SMALL, "--schedule", "rows.tw1", "--db", self.db, "--format",
                          "json")["best_other"]
        self.assertEqual(other["only_in_this"], ["reorder out m k n"])
        self.assertGreater(other["predicted_ns"], 0)
        self.assertIn("best known: ", self.succeed("explain", *program.SMALL, "--schedule", "rows.tw1", "--db",
                                                   self.db).out)
        only = self.json("tune", *self.by_hand, "--db", str(self.home / "other.db"), "--trials", "1",
                         *program.AMPLE, "--format", "json")["results"][0]
        self.assertEqual(only["schedule"] + "\n", CANONICAL)
        table = self.succeed("tune", *self.by_hand, "--db", self.db, "--trials", "2", *program.AMPLE).out
        self.assertRegex(table, r"(?m)^by hand +\S+ \S+, \d+\.\d\d times as long$")

    def test_a_dry_run_says_where_in_the_space_it_is(self):
        begins = self.json("tune", *self.by_hand, "--dry-run", "--format", "json")["results"][0]["begins_with"]
        self.assertEqual(begins["schedule"] + "\n", CANONICAL)
        self.assertTrue(begins["configuration"].startswith("out: "))
        default = self.json("tune", *program.SMALL, "--dry-run", "--format", "json")["results"][0]
        (self.home / "default.tw1").write_text(default["default_schedule"])
        begins = self.json("tune", *program.SMALL, "--schedule", "default.tw1", "--dry-run", "--format",
                           "json")["results"][0]["begins_with"]
        self.assertTrue(begins["in_space"])

    def test_errors_say_where(self):
        def wrong(text, *saying, verb="run", arguments=program.SMALL, code=5):
            (self.home / "wrong.tw1").write_text(text)
            self.fail_with(code, verb, *arguments, "--schedule", "wrong.tw1", saying=saying)

        for verb in ("tune", "run", "compile", "explain"):
            wrong("tw1\nsplit out m 8\n  unroll out z\n", "[unroll] wrong.tw1, line 3, column 14: ",
                  "its loops are m.0, m.1, n, k", verb=verb)
        wrong("split out m 8\n", "line 1, column 1", "expected the version 'tw1'")
        wrong("tw1\nsplit out m 8 near\n", "line 2, column 15: 'near' is no tail", verb="show")
        wrong("tw1\nsplit conv m 8\n", "line 2, column 7: there is no stage 'conv': the stages are out")
        wrong("tw1\nparallel out n\n", "[parallel] wrong.tw1: loop 'n' is inside")
        wrong("tw1\n", "set_layout a KM", arguments=[*program.SMALL, "--layout", "a=KM"])
        self.fail_with(5, "run", *program.SMALL, "--schedule", "absent.tw1", saying=["[schedule]", "absent.tw1"])

    def test_bench_takes_it_for_one_row(self):
        done = self.run_program("bench", "--suite", "gemm", "--schedule", "tiles.tw1")
        if done.returncode == 7:
            self.skipTest("[SKIP] tilewright-bench is not built")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--schedule is of one row", done.err)
        done = self.run_program("bench", "--suite", "resnet50_conv", "--only", "r04", "--schedule", "tiles.tw1")
        self.assertEqual(done.returncode, 5)
        self.assertIn("[split] tiles.tw1, line 2, column 11: stage 'out' has no loop 'm'", done.err)

    def test_what_contradicts_it(self):
        for more in (["--compile-only"], ["--effort", "none"]):
            self.fail_with(2, "tune", *self.by_hand, *more, saying=["--schedule"])
        self.fail_with(2, "tune", "--suite", "gemm", "--schedule", "tiles.tw1", saying=["--schedule"])
        self.fail_with(2, "show", "0123456789", "--schedule", "tiles.tw1", saying=["a hash and --schedule"])


class Tutorial(program.ProgramTest):
    """Runs each command of docs/tutorial.md with the expression and the schedule that stand before
    it."""

    def test_its_commands_run(self):
        blocks = re.findall(r"^```(tw|tw1|sh)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        latest, commands = {}, 0
        for kind, body in blocks:
            if kind != "sh":
                latest[kind] = body if kind == "tw" or body.startswith("tw1") else "tw1\n" + body
                continue
            for line in body.splitlines():
                words = shlex.split(line, comments=True)
                self.assertEqual(words[0], "./tw")
                for flag, text in (("--expr", "tw"), ("--schedule", "tw1")):
                    if flag in words and not (self.home / words[words.index(flag) + 1]).exists():
                        (self.home / words[words.index(flag) + 1]).write_text(latest[text])
                self.succeed(*words[1:])
                commands += 1
        self.assertGreaterEqual(commands, 6)


if __name__ == "__main__":
    program.main()
