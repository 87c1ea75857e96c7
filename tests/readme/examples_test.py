# SPDX-License-Identifier: Apache-2.0
"""Compiles each example in C and C++ of the pages and of the public headers. An example may use
names of the program around it; EXAMPLES and EXAMPLES_IN_C declare these names for each file. The
examples of docs/runtime.md that call a kernel of a processor also run. tests/readme/readme_test.cpp
runs the example of docs/api.md.

An example of a page is a block of ```c or ```cpp. An example of a header is an indented part of a
comment before the first declaration, with a statement in it. Whole programs in C++ are not among
them: tests/tools/install_test.py builds and runs the program of docs/api.md. The examples in C++ of
one file become one function. Each example is in a block of its own inside of the block of the
example before it, so that later examples may use the names of earlier examples or declare them
anew."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD, PROGRAM, RUNTIME = (os.environ.get(f"TW_TEST_{name}", "") for name in ("BUILD", "PROGRAM", "RUNTIME"))
CC, CXX = os.environ["TW_TEST_CC"], os.environ["TW_TEST_CXX"]

SESSION = ["tw_session* session"]
CALL = ["const char* cache, *workload", "tw_kernel* kernel", "tw_buffer buffers[3]"]
MODEL = ["float* x, *y", "std::vector<DeviceArray> on_device", "DeviceStream stream"]

# For each file of examples in C++: the namespaces that the examples use, and declarations of the
# names that they expect from the program around them.
EXAMPLES = {
    "docs/api.md": ("tw::dsl tw::db tw::tuner tw::runtime",
                    ["Environment environment", "OnProgress on_progress", "float* a_data, *b_data, *c_data", "ThreadPool pool"]),
    "docs/networks.md": ("tw::runtime", ["float* image, *scores", "std::vector<DeviceArray> on_device",
                                         "DeviceStream stream"]),
    "docs/runtime.md": ("tw::runtime", ["Kernel kernel", "ThreadPool pool", "float* a, *w, *c, *u"]),
    "codegen/compile.h": ("tw::codegen", ["dsl::Workload workload", "schedules::Schedule schedule",
                                          "schedules::Program program", "int64_t flops", "std::string path"]),
    "codegen/export.h": ("tw::codegen", ["KernelSpec spec", "Target target"]),
    "cost_model/cost_model.h": ("tw::cost_model", ["std::vector<Sample> batch", "uint64_t group",
                                                   "std::vector<std::vector<float>> rows"]),
    "db/calibration.h": ("tw::db", ["Store store", "std::string target, device", "Machine machine"]),
    "db/record.h": ("tw::db", []),
    "db/store.h": ("tw::db", ["std::vector<Record> records", "std::string key, target"]),
    "dsl/compute.h": ("tw::dsl", []),
    "dsl/expr.h": ("tw::dsl", ["Tensor a"]),
    "dsl/operators.h": ("tw::dsl", []),
    "dsl/workload.h": ("tw::dsl", []),
    "graph/graph.h": ("tw::graph", ["dsl::Array weights", "dsl::Workload conv"]),
    "graph/onnx/import.h": ("tw::graph", []),
    "graph/passes.h": ("tw::graph", ["Graph graph"]),
    "runtime/device.h": ("tw::runtime", ["std::string cubin", "float* numbers, *results", "int64_t bytes, blocks",
                                         "DeviceBuffer y"]),
    "runtime/devices/device_kernel.h": ("tw::runtime", ["Artifact artifact", "std::shared_ptr<Device> device",
                                                        "std::vector<Buffer> arrays", *MODEL[1:]]),
    "runtime/kernel.h": ("tw::runtime", ["std::string path", "float* a, *b, *c"]),
    "runtime/model.h": ("tw::runtime", MODEL),
    "runtime/session.h": ("tw::runtime", ["std::string cache, workload_key", "std::vector<Buffer> buffers",
                                          "std::vector<DeviceArray> arrays", "DeviceStream stream"]),
    "schedules/schedule.h": ("tw::schedules", ["dsl::Compute gemm"]),
    "tuner/network/network.h": ("tw::tuner", ["graph::Graph graph", "Target target", "NetworkOptions options",
                                              "db::Store store", "Environment environment", "OnProgress progress",
                                              "std::string name"]),
    "tuner/network/tune_model.h": ("tw::tuner", ["Target target", "db::Store store", "Environment environment"]),
    "tuner/tune.h": ("tw::tuner", ["dsl::Workload workload", "Environment environment"]),
    "tuner/workers/environment.h": ("tw::tuner", ["dsl::Workload workload"]),
    "tuner/workers/workers.h": ("tw::tuner", ["Workers workers", "std::string key, schedule, text",
                                              "ReferenceKernel reference"]),
}

# Declarations of the names that each example in C expects. The key is the file and the example's
# index in the file.
EXAMPLES_IN_C = {
    ("docs/networks.md", 0): ["tw_buffer buffers[2]"],
    ("docs/runtime.md", 0): ["const char* cache_directory, *workload", "tw_buffer buffers[3]"],
    ("docs/runtime.md", 1): ["float *a, *b, *c"],
    ("docs/runtime.md", 2): SESSION + ["const char* cache_directory, *workload", "tw_kernel* kernel",
                                       "tw_buffer on_device[3]", "void* stream"],
    ("docs/runtime.md", 3): ["tw_kernel* kernel", "DLManagedTensor* a, *b, *c"],
    ("docs/runtime.md", 4): [],
    ("runtime/tilewright.h", 0): CALL[:1] + CALL[2:],
    ("runtime/tilewright.h", 1): SESSION + CALL + ["void* stream"],
    ("runtime/tilewright.h", 2): SESSION + ["tw_model* model", "tw_buffer buffers[2]"],
}


def examples_of_page(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```$", path.read_text(), re.M | re.S)


def examples_of_header(path, mark):
    """Returns the examples in the comment at the top of a header: its indented parts that have a
    statement. The lines of the comment begin with `mark`."""
    parts, part = [], []
    for line in path.read_text().splitlines():
        if line.startswith("#include"):
            break
        indented = re.match(rf"{mark} {{3,}}(\S.*)$|{mark}( {{3,}}.*)$", line)
        if indented:
            part.append(line[len(mark.replace("\\", "")):])
        elif part:
            parts.append("\n".join(part) + "\n")
            part = []
    return [part for part in parts if re.search(r";( *//.*)?$", part, re.M)]


def public_headers():
    listed = re.search(r"set\(tw_public_headers(.*?)\)", (ROOT / "cmake" / "public_headers.cmake").read_text(), re.S)
    return listed.group(1).split()


def pages():
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md"))]


def found_in_cxx():
    """Returns the examples in C++ of each file that has at least one."""
    found = {page: [example for example in examples_of_page(ROOT / page, "cpp") if "#include" not in example]
             for page in pages()}
    found |= {header: examples_of_header(ROOT / header, "//") for header in public_headers()}
    return {file: examples for file, examples in found.items() if examples}


def found_in_c():
    """Returns the examples in C by file and index in the file."""
    found = {page: examples_of_page(ROOT / page, "c") for page in pages()}
    found["runtime/tilewright.h"] = examples_of_header(ROOT / "runtime" / "tilewright.h", r" \*")
    return {(file, place): example for file, examples in found.items() for place, example in enumerate(examples)}


def in_cxx(number, file, examples):
    namespaces, names = EXAMPLES[file]
    lines = [f"namespace example_{number} {{"]
    lines += [f"using namespace {namespace};" for namespace in ["tw", *namespaces.split()]]
    lines += [f"extern {name};" for name in names]
    is_program = "int main(" in examples[0]  # the example is a function by itself
    lines += [] if is_program else ["Status example() {"]
    for place, example in enumerate(examples):
        lines += ["{"] * (place > 0) + [f'#line 1 "example {place + 1} of {file}"', example]
    lines += ["}"] * (len(examples) - 1) + ([] if is_program else ["return {};", "}"])
    return "\n".join(lines) + "\n}\n"


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compiles(self, name, text, *command):
        source = self.folder / name
        source.write_text(text)
        done = subprocess.run([*command, "-I", ROOT, "-I", f"{BUILD}/include", source], cwd=self.folder,
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_examples_in_cxx_compile(self):
        found = found_in_cxx()
        self.assertEqual(sorted(found), sorted(EXAMPLES), "EXAMPLES lists other files than those with examples")
        text = "#include <tilewright/tilewright.hpp>\n#include <iostream>\n"
        text += "".join(in_cxx(number, *found_here) for number, found_here in enumerate(found.items()))
        self.compiles("examples.cpp", text, CXX, "-std=c++20", "-fsyntax-only")

    def test_examples_in_c_compile(self):
        found = found_in_c()
        self.assertEqual(sorted(found), sorted(EXAMPLES_IN_C))
        text = "#include <stdio.h>\n#include <dlpack/dlpack.h>\n#include <tilewright/tilewright.h>\n"
        for number, (key, names) in enumerate(EXAMPLES_IN_C.items()):
            file, place = key
            example = re.sub(r'#include "libgemm.h"\n', "", found[key])
            parameters = ", ".join(parameter for name in names for parameter in one_by_one(name)) or "void"
            text += f'int example_{number}({parameters}) {{\n#line 1 "example {place + 1} of {file}"\n'
            text += f"{example}return 0;\n}}\n"
        text = text.replace("int example_0", "int32_t gemm(const float* a, const float* b, float* c);\nint example_0", 1)
        self.compiles("examples.c", text, CC, "-fsyntax-only", "-Wall", "-Werror")



@unittest.skipIf(not PROGRAM, "[SKIP] the code generator was not built")
class RunExamples(unittest.TestCase):
    """Tunes the product of docs/runtime.md by two trials and calls it as the examples in C of that
    page do."""

    SHAPE = "--op dense --shape m=64,n=32,k=128"
    BEFORE = """#include <stdio.h>
#include <stdlib.h>
%s
static float a[64 * 128], b[128 * 32], c[64 * 32];
int main(void) {
  for (int i = 0; i < 64 * 128; ++i) a[i] = 1;
  for (int i = 0; i < 128 * 32; ++i) b[i] = 2;
%s"""
    AFTER = """
  return c[0] == 256 && c[64 * 32 - 1] == 256 ? 0 : 3;
}
"""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.page = ROOT / "docs" / "runtime.md"
        cls.run_program(f"tune {cls.SHAPE} --trials 2 --budget 5m")

    @classmethod
    def run_program(cls, arguments):
        environment = {**os.environ, "HOME": str(cls.folder), "TILEWRIGHT_DB": str(cls.folder / "team.db"),
                       "XDG_CACHE_HOME": str(cls.folder / "cache")}
        done = subprocess.run([PROGRAM, *arguments.split()], cwd=cls.folder, env=environment, capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)

    def expect_product(self, includes, body, *flags):
        (self.folder / "gemm.c").write_text(self.BEFORE % (includes, body) + self.AFTER)
        done = subprocess.run([CC, "gemm.c", *flags, "-o", "gemm"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = subprocess.run(["./gemm"], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_with_the_runtime(self):
        example = examples_of_page(self.page, "c")[0]
        self.assertIn("tw_session_open", example)
        arrays = """  const int64_t a_shape[] = {64, 128}, b_shape[] = {128, 32}, c_shape[] = {64, 32};
  const tw_buffer buffers[] = {{a, TW_FLOAT32, 2, a_shape, NULL}, {b, TW_FLOAT32, 2, b_shape, NULL},
                               {c, TW_FLOAT32, 2, c_shape, NULL}};
  const char* cache_directory = "cache/tilewright", *workload = "dense m=64 n=32 k=128 f32 fast";
"""
        self.expect_product("#include <tilewright/tilewright.h>", arrays + example, "-I", f"{BUILD}/include", RUNTIME,
                            f"-Wl,-rpath,{pathlib.Path(RUNTIME).parent}")

    def test_without_the_runtime(self):
        command, = re.findall(rf"^\$ \./tw (compile {self.SHAPE} --shared libgemm\.so)", self.page.read_text(), re.M)
        self.run_program(command)
        example, = [text for text in examples_of_page(self.page, "c") if "libgemm.h" in text]
        self.expect_product(*example.split("\n", 1), "./libgemm.so", "-Wl,-rpath,.")


def one_by_one(declaration):
    """Splits a declaration of several names into one per name: "float* a, *b" gives "float* a" and
    "float* b"."""
    first, *others = declaration.split(", ")
    kind = re.match(r"(const )?\w+", first).group()
    return [first, *(f"{kind} {other}" for other in others)]


if __name__ == "__main__":
    unittest.main()
