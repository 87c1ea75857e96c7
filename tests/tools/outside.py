# SPDX-License-Identifier: Apache-2.0
"""Programs outside the project that use an installed tree: one in C by pkg-config, one in C++ by CMake."""
import os
import shutil
import subprocess

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
#include "tuner/workers/device.h"
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


def build_c_program(prefix, folder):
    """The path of the C program, linked with what pkg-config says of the tree at `prefix`."""
    library = prefix / "lib"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tilewright"], env=environment, check=True,
                           capture_output=True, text=True).stdout.split()
    source, binary = folder / "version.c", folder / "version"
    source.write_text(C_PROGRAM)
    subprocess.run([shutil.which("gcc") or "cc", source, *flags, f"-Wl,-rpath,{library}", "-o", binary], check=True)
    return binary


def build_cxx_program(cmake, prefix, folder):
    """The path of the C++ program, built by a project that finds the CMake package at `prefix`."""
    source, build = folder / "outside", folder / "outside_build"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(CMAKE_PROJECT)
    (source / "outside.cpp").write_text(CXX_PROGRAM)
    for command in ([cmake, "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}"],
                    [cmake, "--build", build]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
    return build / "outside"
