# SPDX-License-Identifier: Apache-2.0
"""Builds programs outside the project that use an installed tree or the checkout: in C by
pkg-config and by CMake, in C++ by CMake."""
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = re.search(r"project\(tilewright VERSION (\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text()).group(1)

C_PROGRAM = """
#include <stdio.h>
#include <tilewright/tilewright.h>
int main(void) { return printf("%s\\n", tw_version()) < 0; }
"""


CMAKE_PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES C CXX)
{find}
add_executable(outside outside.{suffix})
target_link_libraries(outside PRIVATE tilewright::{target})
"""

# Declares a workload, tunes it by a few trials, and runs the kernel that was found. The workers are
# processes of this program itself.
CXX_PROGRAM = """
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <tilewright/tilewright.hpp>

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


def program_of_the_page():
    """Returns the C++ program of docs/api.md, and the last lines of its CMake project from
    find_package() on."""
    page = (ROOT / "docs" / "api.md").read_text()
    program, = re.findall(r"^```cpp\n(#include.*?)^```$", page, re.M | re.S)
    find, = re.findall(r"^```cmake\n(find_package.*?)^```$", page, re.M | re.S)
    return program, find


def build_the_page(cmake, folder, *arguments, find=None):
    """Builds the program of docs/api.md by the CMake project there, and returns its path. `find`
    replaces find_package() in the project unless it is None."""
    program, project = program_of_the_page()
    if find:
        project = project.replace("find_package(Tilewright REQUIRED)", find)
    source, build = folder / "mine", folder / "mine_build"
    for made in (source, build):
        shutil.rmtree(made, ignore_errors=True)
    source.mkdir()
    (source / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(mine LANGUAGES C CXX)\n{project}")
    (source / "mine.cpp").write_text(program)
    configure_and_build(cmake, source, build, "mine", *arguments)
    return build / "mine"


def configure_and_build(cmake, source, build, target, *arguments):
    for command in ([cmake, "-S", source, "-B", build, *arguments],
                    [cmake, "--build", build, "--parallel", "2", "--target", target]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)


def compilers():
    """Returns the arguments of CMake for each compiler of this machine that programs may use: GCC,
    and the newest Clang from 16 to 20."""
    found = [()]
    for version in range(20, 15, -1):
        if shutil.which(f"clang++-{version}"):
            return [*found, (f"-DCMAKE_C_COMPILER=clang-{version}", f"-DCMAKE_CXX_COMPILER=clang++-{version}")]
    print("[SKIP] Clang: no clang++-16 or newer is installed", flush=True)
    return found


def build_c_program(prefix, folder):
    """Builds the C program with the flags that pkg-config gives for the tree at `prefix`. Returns
    its path."""
    library = prefix / "lib"
    environment = {**os.environ, "PKG_CONFIG_PATH": str(library / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "tilewright"], env=environment, check=True,
                           capture_output=True, text=True).stdout.split()
    source, binary = folder / "version.c", folder / "version"
    source.write_text(C_PROGRAM)
    subprocess.run([shutil.which("gcc") or "cc", source, *flags, f"-Wl,-rpath,{library}", "-o", binary], check=True)
    return binary


def build_project(cmake, folder, find, target, source, suffix, *arguments):
    """Builds a program in a CMake project that runs `find` and links `target`. Returns its path."""
    project, build = folder / f"outside_{target}", folder / f"outside_{target}_build"
    project.mkdir()
    (project / "CMakeLists.txt").write_text(CMAKE_PROJECT.format(find=find, target=target, suffix=suffix))
    (project / f"outside.{suffix}").write_text(source)
    configure_and_build(cmake, project, build, "outside", *arguments)
    return build / "outside"


def build_cxx_program(cmake, prefix, folder):
    """Builds the C++ program in a project that finds the CMake package at `prefix`. Returns its
    path."""
    return build_project(cmake, folder, f"find_package(Tilewright {VERSION} REQUIRED)", "tilewright", CXX_PROGRAM, "cpp",
                         f"-DCMAKE_PREFIX_PATH={prefix}")


def build_c_program_by_cmake(cmake, prefix, folder):
    """Builds the C program in a project that finds only the runtime, without the packages that C++
    needs. Returns its path."""
    return build_project(cmake, folder, f"find_package(Tilewright {VERSION} REQUIRED COMPONENTS runtime)", "runtime",
                         C_PROGRAM, "c", f"-DCMAKE_PREFIX_PATH={prefix}",
                         "-DCMAKE_DISABLE_FIND_PACKAGE_tl-expected=ON")


def build_c_program_with(cmake, checkout, folder):
    """Builds the C program in a project that has the checkout as a subfolder. Returns its path."""
    return build_project(cmake, folder, f'add_subdirectory("{checkout}" tilewright EXCLUDE_FROM_ALL)', "runtime",
                         C_PROGRAM, "c", "-GNinja", "-DCMAKE_BUILD_TYPE=Debug", "-DTW_TOGETHER=8")
