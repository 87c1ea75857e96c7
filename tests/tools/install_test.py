# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` makes works where it lies: the program, its alias, libraries, headers and their
packages, the manual and the completions."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import program

C_PROGRAM = """
#include <stdio.h>
#include <tilewright/tilewright.h>
int main(void) { return printf("%s\\n", tw_version()) < 0; }
"""


CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES CXX)
find_package(Tilewright 0.1 REQUIRED)
add_executable(outside outside.cpp)
target_link_libraries(outside PRIVATE Tilewright::tilewright)
"""

# Declares, tunes by a few trials in workers that are this program, and runs what was found.
CXX_PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "codegen/cpu_codegen.h"
#include "dsl/interpret.h"
#include "runtime/kernel.h"
#include "tuner/device.h"
#include "tuner/tune.h"

using namespace tw;

template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\\n", result.error().message.c_str());
  std::exit(1);
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "worker")
    return tuner::worker_main({argv + 2, argv + argc});
  const dsl::Axis m("m", 24), n("n", 32), k("k", 16);
  const dsl::Tensor a = dsl::input("a", Float32, {m, k}), b = dsl::weight("b", Float32, {k, n});
  const dsl::Workload product =
      must(dsl::workload(dsl::compute("c", {m, n}, dsl::sum(k, a(m, k) * b(k, n)))));

  tuner::Environment environment;
  environment.worker = {std::filesystem::canonical("/proc/self/exe").string(), "worker"};
  environment.clock = tuner::monotonic_clock();
  environment.now_ms = [] { return int64_t{0}; };
  environment.host = environment.session = environment.program_version = "outside";
  db::Store store = must(db::Store::open("outside.db", db::OpenMode::ReadWrite));
  const tuner::Tuned tuned =
      must(tuner::tune(product, host_target(), {.budget_s = 600, .trials = 4}, store, environment, nullptr));

  Random random(1);
  dsl::Arrays inputs = {{"a", must(dsl::Array::make(Float32, {24, 16}))},
                        {"b", must(dsl::Array::make(Float32, {16, 32}))}};
  for (auto& [name, array] : inputs) dsl::fill_integers(array, random);
  dsl::Array c = must(dsl::Array::make(Float32, {24, 32}));
  const runtime::Kernel kernel = must(runtime::Kernel::load(tuned.artifact));
  runtime::ThreadPool pool;
  const std::vector<runtime::Buffer> arrays = {{inputs.at("a").data.data(), Float32, {24, 16}, {}},
                                               {inputs.at("b").data.data(), Float32, {16, 32}, {}},
                                               {c.data.data(), Float32, {24, 32}, {}}};
  if (const auto ran = kernel.call(arrays, pool); !ran) {
    std::fprintf(stderr, "%s\\n", ran.error().message.c_str());
    return 1;
  }
  const dsl::Arrays expected = must(dsl::interpret(product.compute, inputs));
  std::printf("%s\\n", expected.at("c").data == c.data ? "the same" : "different");
  for (const std::string& folder : codegen::plugin_directories())
    if (std::filesystem::exists(folder + "/libtw_halide.so"))
      return std::printf("%s\\n", folder.c_str()) < 0;
}
"""


class Installed(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name)
        subprocess.run([os.environ["TW_TEST_CMAKE"], "--install", os.environ["TW_TEST_BUILD"], "--prefix",
                        cls.prefix], check=True, capture_output=True)

    def test_tune_is_the_program_with_the_verb_implied(self):
        environment = {**self.environment, "PATH": f"{self.prefix / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["tune", *program.SMALL, "--trials", "1", *program.AMPLE, "--db", self.db],
                              env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("replay       tilewright replay --db", done.stdout)

    def found(self, name):
        """The one file of that name below the prefix."""
        (path,) = self.prefix.rglob(name)
        return path

    def test_pkg_config_links_a_c_program(self):
        environment = {**self.environment, "PKG_CONFIG_PATH": str(self.found("tilewright.pc").parent)}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tilewright"], env=environment, check=True,
                               capture_output=True, text=True).stdout.split()
        folder = self.found("libtilewright_runtime.so").parent
        source = self.home / "version.c"
        source.write_text(C_PROGRAM)
        binary = self.home / "version"
        subprocess.run([shutil.which("gcc") or "cc", source, *flags, f"-Wl,-rpath,{folder}", "-o", binary],
                       check=True)
        done = subprocess.run([binary], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"\A\d+\.\d+\.\d+\n\Z")

    def test_pkg_config_names_folders_that_are_absolute(self):
        build = self.home / "build"
        done = subprocess.run([os.environ["TW_TEST_CMAKE"], "-S", pathlib.Path(__file__).parents[2], "-B", build,
                               "-DTW_BUILD_TESTS=OFF", "-DCMAKE_INSTALL_PREFIX=/opt/tw",
                               "-DCMAKE_INSTALL_LIBDIR=/opt/libraries"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", build / "tilewright.pc"], check=True,
                               capture_output=True, text=True).stdout.split()
        self.assertEqual(flags, ["-I/opt/tw/include", "-L/opt/libraries", "-ltilewright_runtime"])

    def test_find_package_serves_a_program_that_tunes(self):
        source, build = self.home / "outside", self.home / "outside_build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CMAKE_PROJECT)
        (source / "outside.cpp").write_text(CXX_PROGRAM)
        cmake = os.environ["TW_TEST_CMAKE"]
        for command in ([cmake, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                        [cmake, "--build", build]):
            done = subprocess.run(command, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([build / "outside"], env=self.environment, cwd=self.home, capture_output=True,
                              text=True)
        plugin = self.found("libtw_halide.so").parent
        self.assertEqual(plugin.parent, self.found("libtilewright.so").parent)
        self.assertEqual((done.returncode, done.stdout), (0, f"the same\n{plugin}\n"), done.stderr)

    def test_installed_headers_include_no_other(self):
        include = self.prefix / "include" / "tilewright"
        headers = sorted(str(path.relative_to(include)) for path in include.glob("*/*.h"))
        for module in ("base", "dsl", "schedules", "db", "runtime", "codegen", "cost_model", "tuner"):
            self.assertTrue(any(header.startswith(module + "/") for header in headers), module)
        source = self.home / "headers.cpp"
        source.write_text("".join(f'#include "{header}"\n' for header in headers))
        done = subprocess.run([shutil.which("g++") or "c++", "-std=c++20", "-fsyntax-only", "-I", include, source],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_reference_names_headers_that_are_installed(self):
        """And in each row at least one of them has each name."""
        page = (pathlib.Path(__file__).parents[2] / "docs" / "api.md").read_text()
        rows = [row for row in re.findall(r"^\| (?:.*?) \| (`.*?) \| (`.*?) \|$", page, re.M) if ".h`" in row[0]]
        self.assertGreater(len(rows), 12)
        for headers, names in rows:
            texts = [(self.prefix / "include" / "tilewright" / header).read_text()
                     for header in re.findall(r"`(.*?\.h)`", headers)]
            for name in re.findall(r"`(.*?)`", names):
                word = name.removesuffix("()").split("::")[-1].split("<")[0]
                self.assertTrue(any(re.search(rf"\b{word}\b", text) for text in texts), (headers, name))

    def test_manual_and_completions_know_the_verbs(self):
        for name in ("tilewright.1", "_tilewright", "tilewright.fish"):
            text = self.found(name).read_text().replace("\\-", "-")
            for word in ("tune", "doctor", "budget", "recover"):
                self.assertIn(word, text, name)
        bash = self.prefix / "share" / "bash-completion" / "completions"
        self.assertEqual((bash / "tune").read_text(), (bash / "tilewright").read_text())
        subprocess.run(["bash", "-n", bash / "tilewright"], check=True)
        manual = self.found("tilewright.1")
        self.assertEqual(manual.with_name("tune.1").read_bytes(), manual.read_bytes())
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", manual], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    program.main()
