# SPDX-License-Identifier: Apache-2.0
"""Tests the zoo: its table, the shapes and values of dimensions, refusals, resumed runs, the
comparison, and the tables of a page. Nothing is downloaded, and the program and the runtime are
fakes."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

import numpy as np
import onnx
from onnx import TensorProto, helper

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "models")]

import tables  # noqa: E402
import zoo  # noqa: E402
import zoo_compare  # noqa: E402
import zoo_fetch  # noqa: E402
import zoo_table  # noqa: E402

HASH = "0123456789abcdef" * 4
WHEEL = f"""[wheels.ocr]
version = "1.2"
sha256 = "{HASH}"
[[wheels.ocr.models]]
name = "det"
file = "ocr/det.onnx"
sha256 = "{HASH}"
shapes = {{x = [1, 3, 640, 640]}}
constants = {{sr = 16000}}
"""


def value(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(inputs, outputs, nodes=()):
    graph = helper.make_graph(list(nodes), "test", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class TheTable(unittest.TestCase):
    def test_the_repository_has_a_sound_one(self):
        entries = zoo_table.parsed((BENCH / "models" / "zoo.toml").read_text())
        wheels = [entry for entry in entries if entry.wheel]
        self.assertGreaterEqual(len({entry.wheel for entry in wheels}), 12)
        self.assertGreaterEqual(len(entries) - len(wheels), 40)
        pinned = (BENCH.parent / "tools" / "requirements" / "zoo.txt").read_text().splitlines()
        for library in zoo_table.LIBRARIES:
            self.assertTrue(any(line.startswith(f"{library}==") for line in pinned), library)

    def test_entries_know_their_package(self):
        det, resnet, bert = zoo_table.parsed(
            WHEEL + '[exports.timm]\nmodels = ["resnet14"]\n[exports.transformers]\n'
            'models = [{model = "bert", class = "BertModel", inputs = {input_ids = [1, 8]}, name = "bert_f16", dtype = '
            '"float16", tolerance = 0.01}]\n')
        self.assertEqual((det.origin, det.source, det.shapes["x"], det.constants),
                         ("ocr 1.2", "wheels", [1, 3, 640, 640], {"sr": 16000}))
        self.assertEqual((resnet.name, resnet.origin, resnet.export),
                         ("timm/resnet14", "timm", {"library": "timm", "model": "resnet14", "shape": [1, 3, 224, 224]}))
        self.assertEqual(resnet.shapes, {"x": [1, 3, 224, 224]})
        self.assertEqual((bert.name, bert.tolerance, bert.shapes),
                         ("transformers/bert_f16", 0.01, {"input_ids": [1, 8]}))
        self.assertEqual(bert.export, {"library": "transformers", "model": "bert", "class": "BertModel",
                                       "dtype": "float16", "inputs": {"input_ids": [1, 8]}})

    def test_quantized_models_have_the_inputs_of_another(self):
        *_, one = zoo_table.parsed(WHEEL + '[quantized]\ntolerance = 0.1\nmodels = [{of = "det", form = "qdq"}]\n')
        self.assertEqual((one.name, one.origin, one.kind, one.shapes["x"], one.tolerance),
                         ("quantized/det_qdq", "ocr 1.2, quantized", "quantized", [1, 3, 640, 640], 0.1))
        forms = "".join(f'{{of = "det", form = "{form}"}}, ' for form in zoo_table.FORMS)
        *_, of_bits = zoo_table.parsed(WHEEL + f"[quantized]\ntolerance = 0.1\nmodels = [{forms}]\n")
        self.assertEqual((of_bits.name, of_bits.form), ("quantized/det_4-bit", "4-bit"))

    def test_mistakes_are_one_line(self):
        for text, words in ((WHEEL.replace("shapes", "shape"), "[wheels.ocr] det: unknown: shape: expected"),
                            (WHEEL.replace(f'sha256 = "{HASH}"\nshapes', "shapes"), "missing: sha256"),
                            (WHEEL.replace(HASH, "12"), "sha256 '12': expected 64 hexadecimal digits"),
                            (WHEEL + WHEEL.split("\n", 3)[3], "given twice: det"),
                            ('[exports.keras]\nmodels = ["a"]', "[exports.keras]: expected one of torchvision"),
                            (WHEEL + '[quantized]\nmodels = []', "[quantized]: missing: tolerance"),
                            (WHEEL + '[quantized]\ntolerance = 1\nmodels = [{of = "dat", form = "qdq"}]',
                             "there is no model 'dat'"),
                            (WHEEL + '[quantized]\ntolerance = 1\nmodels = [{of = "det", form = "int4"}]',
                             "form 'int4': expected one of qdq"),
                            ("[[", "the table is no TOML")):
            with self.subTest(words):
                with self.assertRaises(zoo_table.TableError) as caught:
                    zoo_table.parsed(text)
                self.assertRegex(str(caught.exception), r"\A\[zoo\] [^\n]*\Z")
                self.assertIn(words, str(caught.exception))


class Dimensions(unittest.TestCase):
    def test_go_by_name_and_where_that_is_not_enough_by_axis(self):
        model = model_of([value("x", ["batch", 3, "?", "?"]), value("y", ["batch", None]), value("z", [5])], [])
        model.graph.input[1].type.tensor_type.shape.dim[1].dim_value = -1
        flags = zoo_table.dimensions(model, {"x": [2, 3, 48, 192], "y": [2, 7]})
        self.assertEqual(flags, ["batch=2", "x.2=48", "x.3=192", "y.1=7"])

    def test_a_shape_that_is_missing_or_contradicts_the_model_is_an_error(self):
        model = model_of([value("x", ["batch", 3])], [])
        for shapes, words in (({}, "input 'x' has unknown dimensions"), ({"x": [1]}, "cannot have the shape [1]"),
                              ({"x": [1, 4]}, "cannot have the shape [1, 4]: its model says ['batch', 3]")):
            with self.assertRaises(zoo_table.TableError) as caught:
                zoo_table.dimensions(model, shapes)
            self.assertIn(words, str(caught.exception))

    def test_peers_get_a_static_model(self):
        model = model_of([value("x", ["n", 4])], [value("y", ["m", 4]), value("z", [4])])
        zoo_table.static_model(model, {"x": [2, 4]})
        self.assertEqual([d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim], [2, 4])
        self.assertFalse(model.graph.output[0].type.tensor_type.HasField("shape"))
        self.assertTrue(model.graph.output[1].type.tensor_type.HasField("shape"))


class Fetching(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.entries = zoo_table.parsed(WHEEL.replace(
            f'onnx"\nsha256 = "{HASH}"', f'onnx"\nsha256 = "{hashlib.sha256(b"model").hexdigest()}"'))

    def download(self, content):
        path = self.folder / "ocr.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("ocr/det.onnx", content)
        return mock.patch.object(zoo_fetch, "_download", side_effect=[path])

    def fetch(self):
        return zoo_fetch.fetch(self.entries[0], self.entries, self.folder / "zoo", "/no/python", 1)

    def test_a_model_is_unpacked_once_and_its_hash_is_checked_always(self):
        with self.download(b"model"):
            path = self.fetch()
            self.assertEqual(path.read_bytes(), b"model")
            self.assertEqual(self.fetch(), path)
        path.write_bytes(b"other")
        with self.assertRaisesRegex(zoo_fetch.FetchError, "expected .*; remove it"):
            self.fetch()

    def test_a_wheel_without_the_file_is_an_error(self):
        self.entries[0] = dataclasses.replace(self.entries[0], file="ocr/rec.onnx")
        with self.download(b"model"), self.assertRaisesRegex(zoo_fetch.FetchError, "ocr==1.2 has no ocr/rec.onnx"):
            self.fetch()

    def test_exports_need_their_python(self):
        entry = zoo_table.Entry("timm/x", "timm", export={"library": "timm", "model": "x"})
        with self.assertRaisesRegex(zoo_fetch.FetchError, "/no/python does not exist: ./tw bench --zoo makes it"):
            zoo_fetch.fetch(entry, [entry], self.folder, "/no/python", 1)

    def test_the_last_line_of_an_export_that_fails_is_its_message(self):
        python = self.folder / "python"
        python.write_text("#!/bin/sh\necho 'Traceback' >&2\necho 'ValueError: no such model' >&2\nexit 1\n")
        python.chmod(0o755)
        entry = zoo_table.Entry("timm/x", "timm", export={"library": "timm", "model": "x"})
        with self.assertRaisesRegex(zoo_fetch.FetchError, "was not made: ValueError: no such model"):
            zoo_fetch.fetch(entry, [entry], self.folder, python, 10)
        self.assertEqual(list((self.folder / "exports").iterdir()), [])


class Refusals(unittest.TestCase):
    PLANNING = "tilewright: planning net, 4 operators for host on 1 thread\n"

    def test_are_the_first_line_of_the_error(self):
        error = "tilewright: [onnx] node 'a' (If): is not implemented\nnode 'b' (Loop): is not implemented\n"
        self.assertEqual(zoo.refusal_of(3, error, 9), ("import", "[onnx] node 'a' (If): is not implemented"))
        self.assertEqual(zoo.refusal_of(3, self.PLANNING + "tilewright: [legality] no\n", 9),
                         ("plan", "[legality] no"))

    def test_a_list_is_told_with_its_first_item(self):
        error = "tilewright: [onnx] 2 parts of the model are not implemented:\n  node 'a' (DFT)\n  node 'b' (Scan)\n"
        self.assertEqual(zoo.refusal_of(3, error, 9),
                         ("import", "[onnx] 2 parts of the model are not implemented: node 'a' (DFT)"))

    def test_time_limits_and_signals_are_refusals_too(self):
        self.assertEqual(zoo.refusal_of(None, self.PLANNING, 9), ("plan", "took longer than 9 s"))
        self.assertEqual(zoo.refusal_of(-11, "", 9), ("import", "ended by signal 11"))
        self.assertEqual(zoo.refusal_of(1, "terminate called\n", 9), ("import", "terminate called"))

    def test_what_is_stopped_takes_its_processes_along(self):
        # The child of the stopped process holds the pipes, and reading them would last until the
        # child ends.
        begun = "import subprocess; subprocess.run(['sleep', '600'])"
        code, _, _, seconds = zoo.finished([sys.executable, "-c", begun], 0.5)
        self.assertIsNone(code)
        self.assertLess(seconds, 300)


    def test_nothing_stays_behind_when_the_run_is_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            begun = pathlib.Path(folder) / "begun"
            os.mkfifo(begun)
            script = ("import sys, zoo\nzoo.stop_on_sigterm()\n"
                      f"zoo.finished(['sh', '-c', 'echo $$ >{begun}; exec sleep 600'], 600)\n")
            run = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(BENCH / "models")})
            child = int(begun.read_text())
            run.terminate()
            self.assertEqual(run.wait(60), 143)
            with self.assertRaises(ProcessLookupError):
                os.kill(child, 0)


@unittest.skipUnless("TW_FAKE_RUNTIME" in os.environ, "[SKIP] no library: ctest names it")
class Runs(unittest.TestCase):
    """Tests whole runs with fakes: a runtime whose model doubles 4 numbers, and a program whose
    behaviour depends on the names of files."""

    PROGRAM = """#!/bin/sh
case "$1 $3" in
  doctor*) echo '{"findings": [{"name": "program", "text": "p, version 1.2.3"}]}' ;;
  *refused*) echo "tilewright: [onnx] $3: node 'a' (If): no" >&2; exit 3 ;;
  *) echo "tilewright: planning net" >&2
     while [ "$1" != --output ]; do shift; done; echo >"$2"; echo '{"predicted_ns": 2500}' ;;
esac
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("tools", "runtime", "zoo/pack-1"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "runtime" / "libtilewright_runtime.so").symlink_to(os.environ["TW_FAKE_RUNTIME"])
        program = self.folder / "tools" / "tilewright"
        program.write_text(self.PROGRAM)
        program.chmod(0o755)
        self.table = f'[wheels.pack]\nversion = "1"\nsha256 = "{HASH}"\n'
        self.output = self.folder / "zoo.json"

    def add(self, name, node=("Add", ["x", "x"]), content=None):
        model = model_of([value("x", ["n"])], [value("y", ["n"])], [helper.make_node(*node, ["y"])])
        path = self.folder / "zoo" / "pack-1" / f"{name}.onnx"
        path.write_bytes(content or model.SerializeToString())
        self.table += (f'[[wheels.pack.models]]\nname = "{name}"\nfile = "{name}.onnx"\n'
                       f'sha256 = "{zoo_fetch.sha256(path)}"\nshapes = {{x = [4]}}\n')
        return path

    def run_zoo(self, *arguments):
        (self.folder / "zoo.toml").write_text(self.table)
        out, err = io.StringIO(), io.StringIO()
        with mock.patch.object(zoo, "check_installed"), contextlib.redirect_stdout(out), \
                contextlib.redirect_stderr(err):
            code = zoo.main(["--table", str(self.folder / "zoo.toml"), "--build", str(self.folder), "--cache",
                             str(self.folder / "zoo"), "--output", str(self.output), "--rounds", "2", *arguments])
        self.out, self.err = out.getvalue(), err.getvalue()
        return code

    def rows(self):
        return {row["name"]: row for row in json.loads(self.output.read_text())["rows"]}

    @contextlib.contextmanager
    def compared_here(self):
        """Compares in this process and without other runtimes. The expected outputs are the doubled
        inputs."""
        def finished(command, limit_s, original=zoo.finished):
            if pathlib.Path(command[1]).name != "zoo_compare.py":
                return original(command, limit_s)
            with tempfile.TemporaryDirectory() as folder:
                return 0, json.dumps(zoo_compare.compare(json.loads(command[2]), folder)), "", 0
        with mock.patch.object(zoo, "finished", finished), mock.patch.object(zoo_compare, "PEERS", self.peers), \
                mock.patch.object(zoo_compare, "reference_outputs", self.evaluated):
            yield

    @staticmethod
    def evaluated(path, inputs):
        return dict(zip(["y"], onnx.reference.ReferenceEvaluator(path).run(None, inputs)))

    class Peer:
        """Computes `factor` times its input."""
        version = "1"

        def __init__(self, name, factor, inputs, outputs):
            self.name, self._outputs = name, outputs
            self.run = lambda: np.multiply(inputs["x"], factor, out=outputs["y"])

        def outputs(self):
            return self._outputs

    def peer(self, name, factor):
        return lambda path, inputs, outputs, threads: self.Peer(name, factor, inputs, outputs)

    @property
    def peers(self):
        def broken(*_):
            raise ValueError("no such operator\nand more")
        return {"onnxruntime": self.peer("onnxruntime", 2), "openvino": self.peer("openvino", 3), "third": broken}

    def test_refusals_and_faults_are_rows_and_the_rest_goes_on(self):
        refused = self.add("refused")
        self.add("right")
        self.add("wrong", ("Neg", ["x"]))
        self.add("damaged", content=b"no model")
        self.add("changed").write_bytes(b"another")
        with self.compared_here():
            self.assertEqual(self.run_zoo(), 7, self.err)
        self.assertIn("[zoo] 2 models could not be had: damaged, changed;", self.err)
        rows = self.rows()
        self.assertEqual(list(rows), ["refused", "right", "wrong"])
        self.assertEqual((rows["refused"]["stage"], rows["refused"]["error"]),
                         ("import", "[onnx] refused.onnx: node 'a' (If): no"))
        self.assertNotIn(str(refused.parent), self.output.read_text())
        self.assertEqual(rows["wrong"]["stage"], "wrong")
        self.assertIn("outputs differ by", rows["wrong"]["error"])
        right = rows["right"]
        self.assertEqual((right["stage"], right["peer"], right["error_ours"]), ("right", "onnxruntime 1", 0))
        self.assertEqual(right["predicted_us"], 2.5)
        self.assertGreater(right["ratio"], 0)
        self.assertEqual(right["peers_error"], {"onnxruntime": 0})
        self.assertEqual(right["peers_failed"]["third"], "no such operator")
        self.assertIn("outputs differ by", right["peers_failed"]["openvino"])
        self.assertIn("3 models: 1 refused, 1 failed or wrong, 1 right", self.out)

    def dying(self, condition):
        """Replaces the comparison by one that dies if the condition on its request holds."""
        (self.folder / "zoo_compare.py").write_text(
            "import json, os, sys\n"
            "request = json.loads(sys.argv[1])\n"
            "print('zoo: openvino\\nterminate called', file=sys.stderr, flush=True)\n"
            f"if {condition}:\n    os.kill(os.getpid(), 11)\n"
            "print(json.dumps({'stage': 'right', 'rounds': 0, 'error_ours': 0, 'peers_failed': request['without']}))\n")
        return mock.patch.object(zoo, "FOLDER", self.folder)

    def test_a_comparison_that_dies_is_a_row(self):
        self.add("right")
        with self.dying("True"):
            self.assertEqual(self.run_zoo(), zoo.WRONG_OUTPUTS)
        self.assertEqual(self.rows()["right"]["error"], "comparing: ended by signal 11: openvino")

    def test_a_peer_that_dies_is_left_out(self):
        self.add("right")
        with self.dying("not request['without']"):
            self.assertEqual(self.run_zoo(), 0, self.err)
        self.assertEqual(self.rows()["right"]["peers_failed"], {"openvino": "ended by signal 11"})

    def test_a_run_goes_on_where_it_stopped(self):
        self.add("right")
        self.add("also_right")
        with self.compared_here():
            self.assertEqual(self.run_zoo("--only", "right"), 0, self.err)
            self.assertEqual(self.run_zoo("--resume"), 0, self.err)
            self.assertEqual(list(self.rows()), ["right", "also_right"])
            self.assertNotIn("\nright ", "\n" + self.out)
            self.assertEqual(self.run_zoo("--resume", "--rounds", "3"), zoo.USAGE)
            self.assertIn("was taken with another options", self.err)
            (self.folder / "tools" / "tilewright").write_text(self.PROGRAM + "#\n")
            self.assertEqual(self.run_zoo("--resume"), zoo.USAGE)
            self.assertIn("was taken with another program_sha256", self.err)

    def test_flags_that_leave_no_model_are_an_error(self):
        self.add("right")
        for arguments in ([], ["--list"]):
            self.assertEqual(self.run_zoo("--only", "right", "--source", "exports", *arguments), zoo.USAGE)
            self.assertEqual(self.err, "tw bench: [zoo] --only right --source exports: no model is left; --list prints "
                                       "all\n")

    def test_an_output_that_cannot_be_written_is_told_before_the_work(self):
        self.add("right")
        self.assertEqual(self.run_zoo("--output", str(self.folder / "none" / "zoo.json")), 7)
        self.assertRegex(self.err, r"\Atw bench: \[bench\] --output [^\n]*: there is no directory [^\n]*\n\Z")
        self.assertEqual(self.out, "")

    def test_a_name_that_no_model_has_is_an_error(self):
        self.add("right")
        self.assertEqual(self.run_zoo("--only", "left"), zoo.USAGE)
        self.assertRegex(self.err, r"\Atw bench: \[zoo\] --only left: no model has such a name[^\n]*\n\Z")


class Comparing(unittest.TestCase):
    def test_peers_know_the_constants(self):
        model = model_of([value("x", [4]), value("rate", [], TensorProto.INT64)], [value("y", [4])])
        inputs = {"x": np.zeros(4, np.float32), "rate": np.int64(16000)}
        zoo_compare.fold_constants(model, inputs, {"rate": 16000})
        self.assertEqual(list(inputs), ["x"])
        self.assertEqual([given.name for given in model.graph.input], ["x"])
        rate, = model.graph.initializer
        self.assertEqual((rate.name, onnx.numpy_helper.to_array(rate)), ("rate", 16000))

    def test_reasons_say_something(self):
        places = ("Exception from src/inference/src/cpp/core.cpp:84:\n"
                  "Exception from src/frontends/onnx/frontend/src/frontend.cpp:344:\n")
        for text, line in ((places + "No conversion for If\n", "No conversion for If"), ("bad\nworse", "bad"),
                           (places, "Exception from src/inference/src/cpp/core.cpp:84:"), ("", "ValueError")):
            self.assertEqual(zoo_compare.first_line(ValueError(text)), line)


class Page(unittest.TestCase):
    @staticmethod
    def row(name, ratio=None, threads=1, stage="right", **others):
        row = {"name": name, "origin": "timm", "threads": threads, "budget_s": 0, "stage": stage}
        if stage == "right":
            row.update(planning_s=2.0, rounds=0)
        if ratio:
            row.update(rounds=10, ours_us=100.0, ours_low_us=99.0, ours_high_us=101.0, peer_us=100.0 * ratio,
                       peer="openvino 2026", ratio=ratio, ratio_low=0.9 * ratio, ratio_high=1.1 * ratio)
        return {**row, **others}

    def setUp(self):
        self.rows = [self.row("a", 2.0), self.row("a", 1.5, 2), self.row("b", 0.5), self.row("b", 1.5, 2),
                     self.row("c", 9.0, disturbed="steal", rounds=3), self.row("d", stage="import", error="no | If"),
                     self.row("e", stage="plan", error="slow"), self.row("f", stage="wrong", error="differs")]
        self.document = tables.Document("zen5_2_cores", "zoo", {
            "schema_version": 2, "suite": "zoo", "options": {"rounds": 10}, "rows": self.rows})

    def text(self, table):
        return table([self.document]).text(lambda cell: cell).replace("\n  ", " ")

    def test_refused_models_are_counted_and_disturbed_ones_left_out(self):
        text = self.text(tables.zoo)
        self.assertIn("6 models: 2 refused, 1 failed or wrong, 3 right", text)
        self.assertIn("| 1 | none | 2 of 3 | 1.000 | 1, 0, 1 | 0.500 [0.450, 0.550] (b)", text)
        self.assertIn("| 2 | none | 2 of 2 | 1.500 |", text)
        self.assertIn("c on 1 thread (3 of 10 rounds count: steal)", text)

    def test_a_row_without_a_peer_says_why(self):
        self.rows.append(self.row("g", peers_error={}, peers_failed={"onnxruntime": "no | If", "openvino": "x " * 99}))
        self.assertRegex(self.text(tables.zoo),
                         r"g on 1 thread \(no peer: onnxruntime: no \\\| If; openvino: x [x ]{90,96}\.\.\.\)")

    def test_a_page_without_a_run_says_so(self):
        self.assertEqual(tables.zoo([]).text(str), "No run is committed yet.\n")

    def test_each_model_has_a_row(self):
        text = self.text(tables.zoo_models)
        self.assertIn("| `a` | timm | 1 | none | 0.100 [0.099, 0.101] | 2.000 [1.800, 2.200], OpenVINO |", text)
        self.assertIn("| `d` | timm | 1 | none | import | no \\| If |", text)
        self.assertIn("| `c` | timm | 1 | none | - | - |", text)

    def test_a_run_ends_with_the_same_figures(self):
        text = tables.zoo_summary(self.document.json)
        self.assertIn("6 models: 2 refused, 1 failed or wrong, 3 right\n", text)
        self.assertIn("threads 1, tuning none: 3 right, 2 timed undisturbed, faster peer's time / ours: "
                      "geometric mean 1.000, 0.500 to 2.000", text)


if __name__ == "__main__":
    unittest.main()
