# SPDX-License-Identifier: Apache-2.0
"""Tests of the errors of wrong command lines. The message is one line that names the fault and the fix, and
the exit code is that of docs/cli.md. No command line of TABLE creates a database or a cache."""

import contextlib
import os
import pathlib
import sqlite3

import program

CONV = ["tune", "--op", "conv2d"]

# name, exit code, arguments, words of the message
TABLE = [
    ("no_verb", 2, [], ["no verb is given", "tune"]),
    ("Fault01_unknown_verb", 2, ["tuen"], ["'tuen'", "did you mean 'tune'"]),
    ("budget_zero", 2, ["tune", "--op", "relu", "--budget", "0"], ["--budget '0'", "a positive time such as 500ms"]),
    ("Fault01_empty_shape", 2, ["tune", "--op", "relu", "--shape", ""], ["--shape", "an empty text"]),
    ("Fault01_empty_attribute", 2, ["show", "--op", "relu", "--attr", ""], ["--attr", "an empty text"]),
    ("Fault01_empty_workers", 2, ["tune", "--op", "relu", "--workers", ""], ["--workers", "an empty text"]),
    ("Fault01_unknown_inner_verb", 2, ["db", "qeury"], ["'qeury'", "did you mean 'query'"]),
    ("Fault01_unknown_flag", 2, [*CONV, "--trails", "3"], ["--trails", "did you mean '--trials'"]),
    ("Fault01_unknown_flag_with_value", 2, [*CONV, "--buget=3s"], ["--buget", "--budget"]),
    ("Fault01_unknown_flag_before_the_verb", 2, ["--trials", "3", "tune"], ["--trials"]),
    ("Fault01_missing_value", 2, [*CONV, "--trials"], ["--trials", "value"]),
    ("Fault01_stray_operand", 2, [*CONV, "conv3d"], ["'conv3d'", "--help"]),
    ("Fault01_missing_operand", 2, ["replay"], ["HASH"]),
    ("Fault01_dry_run_and_compile_only", 2, [*CONV, "--dry-run", "--compile-only"],
     ["--dry-run", "--compile-only", "contradict"]),
    ("Fault01_one_flag_twice", 2, [*CONV, "--op", "dense"], ["--op is given more than once"]),
    ("Fault01_one_switch_twice", 2, [*CONV, "--dry-run", "--dry-run=false"], ["--dry-run is given more than once"]),
    ("Fault01_op_and_expression", 2, [*CONV, "--expr", "x.tw"], ["--op", "--expr"]),
    ("Fault01_op_and_suite", 2, [*CONV, "--suite", "gemm"], ["--op", "--suite"]),
    ("Fault01_two_views", 2, ["show", "--op", "dense", "--c", "--asm"], ["--c", "--asm"]),
    ("Fault01_hash_and_workload", 2, ["show", "abcdef", "--op", "dense"], ["contradict"]),
    ("nothing_to_work_on", 2, ["tune"], ["--op"]),
    ("Fault02_operator", 2, ["tune", "--op", "conv2s"], ["did you mean 'conv2d'", "softmax"]),
    ("Fault02_target_nearest", 2, [*CONV, "--target", "hots"], ["'hots'", "did you mean 'host'"]),
    ("Fault02_target_of_no_machine", 2, [*CONV, "--target", "cudaa"], ["'cudaa'", "x86-64-v3"]),
    ("Fault02_target", 2, [*CONV, "--target", "x86-64-v5"], ["x86-64-v5", "x86-64-v4", "host"]),
    ("Fault02_target_feature", 2, [*CONV, "--target", "x86-64-linux-avx1"], ["avx1", "avx2"]),
    ("Fault02_suite", 2, ["tune", "--suite", "resnet50_cnv"], ["did you mean 'resnet50_conv'"]),
    ("Fault02_dtype", 2, [*CONV, "--dtype", "f33"], ["bf16", "did you mean 'f32'"]),
    ("Fault02_search", 2, [*CONV, "--search", "randum"], ["did you mean 'random'"]),
    ("Fault02_suite_list", 2, ["tune", "--suite", "nothing_like_it"], ["gemm", "resnet50_conv"]),
    ("Fault02_attribute", 2, [*CONV, "--attr", "strid=2"], ["'strid'", "did you mean 'stride'"]),
    ("Fault02_layout_of_no_tensor", 2, [*CONV, "--layout", "input=NHWC"],
     ["'input' is no input or output", "in, w, out"]),
    ("Fault02_layout_of_other_dimensions", 2, [*CONV, "--layout", "in=NCHD16d"], ["'NCHD16d'", "'D'"]),
    ("Fault02_layout_without_a_dimension", 2, ["show", "--op", "conv2d", "--layout", "in=NCH"], ["'W'"]),
    ("Fault02_layout_without_a_tensor", 2, ["explain", "--op", "conv2d", "--layout", "NHWC"],
     ["TENSOR=LAYOUT"]),
    ("Fault02_layout_twice", 2, ["run", "--op", "conv2d", "--layout", "in=NHWC", "--layout", "in=NCHW"],
     ["'in'", "twice"]),
    ("Fault02_layout_of_too_many_bytes", 2,
     [*CONV, "--layout", "in=NCHW16777216n16777216c16777216h"], ["2^56 bytes"]),
    ("Fault01_layout_and_suite", 2, ["tune", "--suite", "gemm", "--layout", "a=KM"], ["--layout", "--suite"]),
    ("Fault01_hash_and_layout", 2, ["show", "abcdef", "--layout", "in=NHWC"], ["contradict"]),
    ("Fault04_negative", 2, [*CONV, "--shape", "n1c-64h56w56k64r3s3"], ["c=-64"]),
    ("Fault04_not_a_number", 2, [*CONV, "--shape", "n=1,c=x"], ["'x'", "'c'"]),
    ("Fault04_beyond_63_bits", 2, [*CONV, "--shape", "n=9223372036854775808"], ["9223372036854775808"]),
    ("Fault04_float", 2, [*CONV, "--shape", "n=1e400"], ["1e400"]),
    ("Fault04_trials", 2, [*CONV, "--trials", "-1"], ["--trials '-1'", "whole number from 0"]),
    ("Fault04_trials_float", 2, [*CONV, "--trials", "1e3"], ["'1e3'"]),
    ("Fault04_threads", 2, [*CONV, "--threads", "0"], ["--threads '0'", "from 1"]),
    ("Fault04_budget", 2, [*CONV, "--budget", "1e400"], ["1e400", "5m"]),
    ("Fault04_budget_negative", 2, [*CONV, "--budget", "-5s"], ["-5s"]),
    ("Fault04_budget_unit", 2, [*CONV, "--budget", "5d"], ["5d", "500ms"]),
    ("Fault05_overflow", 3, ["tune", "--op", "dense", "--shape",
                             "m=1099511627776,n=1099511627776,k=1"], ["extent overflow"]),
    ("Fault05_overflow_of_a_product", 3, ["tune", "--op", "dense", "--shape",
                                          "m=33554432,n=33554432,k=33554432"], ["extent overflow"]),
    ("Fault07_stride_zero", 2, [*CONV, "--attr", "stride=0"], ["stride=0"]),
    ("Fault07_dilation_zero", 2, [*CONV, "--attr", "dilation=0"], ["dilation=0"]),
    ("Fault07_groups", 2, [*CONV, "--attr", "groups=7"], ["groups=7"]),
    ("threads_that_the_machine_lacks", 2, [*CONV, "--threads", "1000"], ["1000", "core"]),
    ("threads_of_a_gpu", 2, [*CONV, "--target", "cuda:sm_90a", "--threads", "2", "--compile-only"],
     ["--threads 2", "cuda:sm_90a is a GPU"]),
    ("threads_of_a_gpu_explained", 2, ["explain", "--op", "conv2d", "--target", "cuda:sm_90a", "--threads", "2"],
     ["--threads 2", "cuda:sm_90a is a GPU"]),
    ("state_of_a_gpu", 2, [*CONV, "--target", "cuda:sm_90a", "--state", "network:L3", "--compile-only"],
     ["cuda:sm_90a are only timed hot"]),
    ("state_of_a_gpu_explained", 2, ["explain", "--op", "conv2d", "--target", "cuda:sm_90a", "--state", "network:L3"],
     ["cuda:sm_90a are only timed hot"]),
    ("Fault50_cuda_without_a_gpu", 7, [*CONV, "--target", "cuda"], ["cuda", "--compile-only"]),
    ("Fault50_run_without_a_gpu", 7, ["run", "--op", "conv2d", "--target", "cuda"],
     ["`tilewright tune --compile-only`"]),
    ("double_precision_on_a_gpu", 3, ["tune", "--op", "dense", "--dtype", "f64", "--target", "cuda:sm_90a",
                                      "--compile-only"], ["GPUs do not compute in f64", "use f32"]),
    ("target_device", 2, [*CONV, "--target", "opencl:x"], ["'opencl:x'", "opencl:1", "doctor"]),
    ("instructions_of_a_gpu", 2, ["show", "--op", "dense", "--target", "cuda:sm_90a", "--asm"],
     ["--asm", "--cuda"]),
    ("output_is_a_directory", 2, [*CONV, "--output", "."], ["is a directory", "kernel.twart"]),
    ("report_is_a_directory", 2, [*CONV, "--report", "."], ["is a directory", "report.html"]),
    ("report_without_python", 7, [*CONV, "--report", "x.html", "--python", "absent-python"],
     ["absent-python", "tilewright[report]", "--python"]),
    ("report_of_what_measures_nothing", 2, [*CONV, "--report", "x.html", "--dry-run"],
     ["--report", "--dry-run", "contradict"]),
    ("Fault03_output_of_an_empty_workload", 3, [*CONV, "--attr", "n=0", "--output", "x.twart"],
     ["no elements", "x.twart", "--output"]),
    ("Fault03_compiled_output_of_an_empty_workload", 3,
     ["compile", "--op", "conv2d", "--attr", "n=0", "--output", "x.twart"], ["no elements", "x.twart"]),
    ("shared_object_of_an_empty_workload", 3,
     ["compile", "--op", "conv2d", "--attr", "n=0", "--shared", "x.so"], ["no elements", "x.so", "--shared"]),
    ("shared_object_with_a_name_that_is_no_identifier", 2, ["compile", "--op", "conv2d", "--shared", "my kernel.so"],
     ["'my kernel'", "function of C"]),
    ("shared_object_named_as_its_header", 2, ["compile", "--op", "conv2d", "--shared", "x.h"], ["x.h", "x.so"]),
    ("two_outputs_in_one_file", 2, ["compile", "--op", "dense", "--output", "x.so", "--shared", "./x.so"],
     ["x.so and ./x.so are one file"]),
    ("output_and_report_in_one_file", 2, [*CONV, "--output", "x", "--report", "x"], ["x and x are one file"]),
    ("Fault01_hash_and_shape", 2, ["show", "abcdef", "--shape", "m=5"], ["contradict"]),
    ("state_of_a_network", 2, ["tune", "--model", "resnet18", "--state", "network:L3"], ["--model", "--state"]),
    ("name_of_no_shared_object", 2, ["compile", "--op", "conv2d", "--name", "x"], ["--name", "--shared"]),
    ("output_in_no_directory", 7, [*CONV, "--output", "absent/x.twart"], ["no directory", "absent"]),
    ("compiled_into_a_directory", 2, [*CONV, "--compile-only", "--output", "."], ["is a directory"]),
    ("database_in_no_directory", 4, [*CONV, "--db", "absent/x.db"], ["no directory", "absent"]),
    ("upgrade_of_nothing", 4, ["db", "upgrade", "typo.db"], ["typo.db does not exist"]),
    ("merge_of_nothing", 4, ["db", "merge", "typo.db", "--db", "new.db"], ["typo.db does not exist"]),
    ("import_of_nothing", 4, ["db", "import", "typo.jsonl"], ["typo.jsonl cannot be read"]),
    ("quarantine_of_nothing", 4, ["db", "quarantine", "typo.db", "--drop"], ["typo.db does not exist"]),
    ("flag_before_its_verb", 2, ["--format", "json", "db", "info"], ["--format has to follow `db info`"]),
    ("choice", 2, [*CONV, "--effort", "ful"], ["none, quick, normal, full", "did you mean 'full'"]),
    ("empty_path", 2, [*CONV, "--db", ""], ["--db", "empty path"]),
    ("expression_file", 5, ["tune", "--expr", "absent.tw"], ["absent.tw"]),
    ("workload_key", 2, ["tune", "--workload", "conv9 n=1"], ["conv9"]),
    ("hash_too_short", 4, ["show", "abc"], ["does not exist"]),
    ("shell", 2, ["completion", "csh"], ["csh", "bash, zsh, fish"]),
    ("measuring_for_another_machine", 3, [*CONV, "--target", "arm-64-linux"], ["--compile-only"]),
    ("resume_without_trials", 2, [*CONV, "--resume"], ["--resume", "no trials"]),
    ("effort_none_without_database", 4, [*CONV, "--effort", "none"], ["does not exist"]),
    ("config_file", 2, ["list", "--config", "absent.toml"], ["absent.toml"]),
]


class Errors(program.ProgramTest):
    def check(self, code, arguments, words):
        self.fail_with(code, *arguments, saying=words)
        self.assertEqual(os.listdir(self.home), [])  # no database, no cache

    def test_an_illegal_expression_is_one_error(self):
        (self.home / "table.tw").write_text("input t: f32[100, 4]\ninput ids: i64[8]\n"
                                            "out: f32[i=8, j=4] = t[ids[i], j]\n")
        for arguments in (["run"], ["explain"], ["show"], ["show", "--steps"], ["show", "--program"],
                          ["tune", "--compile-only"]):
            with self.subTest(arguments):
                done = self.run_program(*arguments, "--expr", "table.tw")
                self.assertEqual((done.returncode, done.out), (5, ""), done.err)
                # The second line shows the read that is at fault.
                self.assertRegex(done.err, r"\Atilewright: [^\n]*'t', ids\[i\], is not proved inside 0\.\.100 "
                                           r"[^\n]+\n  out\[i, j\] = t\[ids\[i\], j\]\n\Z")

    def test_Fault03_an_empty_batch_is_nothing_to_tune(self):
        done = self.succeed(*CONV, "--attr", "n=0")
        self.assertIn("nothing to tune", done.err)
        self.assertEqual(os.listdir(self.home), [])
        document = self.json(*CONV, "--attr", "n=0", "--format", "json")
        self.assertEqual((document["results"], len(document["empty"])), ([], 1))

    def test_Fault03_an_empty_batch_is_nothing_to_run_or_compile(self):
        for shape in (["--op", "conv2d", "--attr", "n=0"], ["--op", "softmax", "--shape", "rows=0,cols=5"]):
            self.assertIn("nothing to run", self.succeed("run", *shape).err)
            self.assertEqual(self.json("run", *shape, "--format", "json")["checked_elements"], 0)
            self.assertIn("needs no kernel", self.succeed("compile", *shape).err)
            self.assertIsNone(self.json("compile", *shape, "--format", "json")["artifact"])
            self.succeed("show", *shape)
        self.assertEqual(os.listdir(self.home), [])

    def test_a_cache_that_cannot_be_made(self):
        saying = ["/dev/null/tilewright cannot be made", "name another with --cache"]
        environment = {"XDG_CACHE_HOME": "/dev/null"}
        self.fail_with(7, "tune", *program.SMALL, "--db", self.db, environment=environment, saying=saying)
        findings = self.run_program("doctor", "--format", "json", "--db", self.db, environment=environment).out
        self.assertIn("name another with --cache", findings)

    def test_Fault15_files_that_are_no_database(self):
        for name, content in (("noise.db", os.urandom(50_000)), ("empty.db", b""), ("text.db", b"x" * 9999)):
            path = self.home / name
            path.write_bytes(content)
            for verb in (["tune", *program.SMALL], ["run", *program.SMALL], ["db", "info"]):
                self.fail_with(4, *verb, "--db", str(path), saying=[name, "backup", "db recover"])
            done = self.fail_with(4, "db", "verify", str(path), saying=[name, "backup", "db recover"])
            self.assertNotIn("db verify", done.err)
            done = self.fail_with(4, "db", "recover", str(path), str(self.home / "new.db"), saying=[name, "backup"])
            self.assertNotIn("db recover", done.err)
            self.assertFalse((self.home / "new.db").exists())
            self.assertEqual(path.read_bytes(), content)

    def test_Fault15_a_database_of_another_program(self):
        path = self.home / "other.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE notes(text)")
            connection.commit()
        done = self.fail_with(4, "db", "info", str(path), saying=["of another program", "--db"])
        self.assertNotIn("recover", done.err)

    def test_errors_of_an_expression_name_its_file(self):
        file = self.home / "bad.tw"
        for text, words in (("input a: f32[4]\nout: f32[i=4] = a[i] + + a[i]\n", ["line 2, column 24", "'+'"]),
                            ("input a: f32[4]\nout: f32[i=4] = a[i] / 0\n", ["line 2, column 22", "divides by 0"]),
                            ("input a: f32[4]\nout: f32[i=4, i=4] = a[i]\n", ["two axes 'i'"])):
            file.write_text(text)
            for path, name in ((str(file), str(file)), ("bad.tw", "bad.tw")):
                self.fail_with(5, "tune", "--expr", path, saying=[f"] {name}: ", *words])

    def test_an_expression_from_standard_input(self):
        text = "\ufeffinput a: f32[4]\nout: f32[i=4] = a[i] * 2.0\n"
        arguments = ["tune", "--expr", "-", "--dry-run", "--db", self.db, "--format", "json"]
        with open(self.home / "in.tw", "w+", encoding="utf-8") as file:
            file.write(text)
            file.seek(0)
            document = self.json(*arguments, stdin=file)
        self.assertIn("a[i] * 2.0", document["results"][0]["workload"])
        self.fail_with(5, *arguments, saying=["- cannot be read or is empty", "standard input"])

    def test_what_tune_refuses_its_other_forms_refuse(self):
        table = [
            ("input a: f32[10]\nout: f32[x=10] = a[x + 1]",
             5, ["index 0 of 'a', x + 1, is not proved inside 0..10 (it may be 1..11; the end", "\n  out[x] ="]),
            ("input a: f32[10]\ninput i: i64[10]\nout: f32[x=10] = a[i[x]]",
             5, ["index 0 of 'a', i[x]", "data needs bounds to be an index", "\n  out[x] ="]),
            ("input a: f32[100]\nout: f32[x=10, y=10] = a[x * y]", 5, ["index 0 of 'a', x * y"]),
            ("input a: f32[1000000000000]\nout: f32[x=1000000000000] = a[x] + 1.0",
             7, ["GiB of memory"]),
        ]
        for text, code, saying in table:
            messages = set()
            for form in ("--dry-run", "--compile-only", "--budget=1s"):
                file = self.home / "refused.tw"
                file.write_text(text)
                process = self.run_program("tune", "--expr", str(file), "--db", self.db, form)
                self.assertEqual(process.returncode, code, process.err)
                messages.add(process.err[process.err.index("tilewright: ["):])
                for words in saying:
                    self.assertIn(words, process.err)
            self.assertEqual(len(messages), 1, messages)

    def test_no_output_replaces_a_file_that_is_read(self):
        schedule, expression = self.home / "s.tw1", self.home / "e.tw"
        schedule.write_text("tw1\n")
        expression.write_text("input a: f32[4]\nout: f32[i=4] = a[i] * 2.0\n")
        for arguments in (["tune", "--op", "dense", "--schedule", "s.tw1", "--output", "s.tw1"],
                          ["compile", "--op", "dense", "--schedule", "s.tw1", "--shared", str(schedule)],
                          ["compile", "--expr", "e.tw", "--output", "./e.tw"],
                          ["tune", "--expr", "e.tw", "--report", "e.tw"]):
            before = [path.read_bytes() for path in (schedule, expression)]
            self.fail_with(2, *arguments, saying=["would replace", "which is read"])
            self.assertEqual([path.read_bytes() for path in (schedule, expression)], before)

    def test_no_output_replaces_a_database(self):
        self.tune()
        before = pathlib.Path(self.db).read_bytes()
        for arguments in (["tune", *program.SMALL, "--output", self.db], ["compile", *program.SMALL, "--output", self.db],
                          ["compile", *program.SMALL, "--shared", self.db]):
            self.fail_with(2, *arguments, "--db", self.db, saying=["is a database, whose records would be lost"])
        self.assertEqual(pathlib.Path(self.db).read_bytes(), before)

    def test_an_input_is_no_output(self):
        file = self.home / "output.tw"
        file.write_text("input a: f32[4]\noutput a\n")
        self.fail_with(5, "tune", "--expr", str(file), "--dry-run",
                       saying=["'a' is an input, and outputs are stages"])

    def test_a_message_is_one_line_whatever_it_quotes(self):
        self.fail_with(2, "tune", "--op", "a\nb\x1b[31m", saying=["a\\nb\\x1b[31m"])


class Configuration(program.ProgramTest):
    """The command line wins over the environment, which wins over the file."""

    def setUp(self):
        super().setUp()
        self.file = self.home / "t.toml"

    def threads(self, *arguments, **environment):
        document = self.json("tune", *program.SMALL, "--dry-run", "--format", "json", "--config",
                             str(self.file), *arguments, environment=environment)
        return document["results"][0]["threads"]

    def test_order_of_precedence(self):
        self.file.write_text("[tune]\nthreads = 3\n")
        self.assertEqual(self.threads(), 3)
        self.assertEqual(self.threads(TILEWRIGHT_THREADS="4"), 4)
        self.assertEqual(self.threads("--threads", "5", TILEWRIGHT_THREADS="4"), 5)

    def test_flags_take_the_place_of_defaults_that_contradict_them(self):
        self.file.write_text("[tune]\nthreads = 3\n[show]\nop = 'dense'\n")
        arguments = ["tune", "--suite", "gemm", "--dry-run", "--format", "json", "--db", self.db]
        self.assertGreater(len(self.json(*arguments, environment={"TILEWRIGHT_OP": "conv2d"})["results"]), 1)
        expression = self.home / "double.tw"
        expression.write_text("input a: f32[4]\nout: f32[i=4] = a[i] * 2.0\n")
        shown = self.succeed("show", "--expr", str(expression), "--config", str(self.file))
        self.assertIn("a[i] * 2.0", shown.out)
        self.fail_with(2, "show", "--expr", str(expression), "--op", "dense", saying=["contradict"])
        self.fail_with(2, "tune", "--dry-run", saying=["contradict"],
                       environment={"TILEWRIGHT_OP": "conv2d", "TILEWRIGHT_SUITE": "gemm"})

    def test_switches_that_are_off_contradict_nothing(self):
        self.json("tune", *program.SMALL, "--dry-run", "--compile-only=false", "--format", "json",
                  environment={"TILEWRIGHT_COMPILE_ONLY": "0"})
        self.fail_with(2, "tune", *program.SMALL, "--dry-run", "--compile-only=perhaps", saying=["true or false"])

    def test_flags_of_the_command_line_are_given_once(self):
        self.file.write_text("threads = 3\n[tune]\nthreads = 4\nop = 'conv2d'\n")
        self.assertEqual(self.threads(), 4)  # a section wins over the keys for all verbs
        self.assertEqual(self.threads("--threads", "5", TILEWRIGHT_THREADS="4", TILEWRIGHT_OP="conv2d"), 5)
        self.fail_with(2, "tune", *program.SMALL, "--dry-run", "--threads", "5", "--threads=5",
                       saying=["--threads is given more than once"])
        shown = self.succeed("show", "--op", "dense", "--layout", "a=KM", "--layout", "out=NM")
        self.assertIn("a=KM", shown.out)

    def test_keys_before_the_first_section_are_for_every_verb(self):
        self.file.write_text("threads = 3\n[list]\nformat = 'json'\n")
        self.assertEqual(self.threads(), 3)
        self.assertEqual(self.json("list", "--config", str(self.file))["verb"], "list")

    def test_unknown_keys_and_sections(self):
        self.file.write_text("[tune]\ntrails = 3\n")
        self.fail_with(2, "list", "--config", str(self.file), saying=["trails", "did you mean '--trials'"])
        self.file.write_text("[tuna]\ntrials = 3\n")
        self.fail_with(2, "list", "--config", str(self.file), saying=["tuna", "did you mean 'tune'"])

    def test_values_of_the_file_are_checked(self):
        self.file.write_text("[tune]\nthreads = 'many'\n")
        self.fail_with(2, "tune", *program.SMALL, "--config", str(self.file), saying=["'many'"])

    def test_the_file_of_the_user(self):
        folder = self.home / ".config"
        folder.mkdir()
        (folder / "tilewright.toml").write_text("[tune]\nthreads = 6\n")
        document = self.json("tune", *program.SMALL, "--dry-run", "--format", "json")
        self.assertEqual(document["results"][0]["threads"], 6)


def add(name, code, arguments, words):
    setattr(Errors, "test_" + name, lambda self: self.check(code, arguments, words))


for row in TABLE:
    add(*row)

if __name__ == "__main__":
    program.main()
