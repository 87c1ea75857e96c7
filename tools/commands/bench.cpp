// SPDX-License-Identifier: Apache-2.0
// tilewright bench: replaces this process by the benchmark program, which is a separate program.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tools/verbs.h"

namespace tw::tools {
namespace {

/// Returns the path of the benchmark program: tilewright-bench, or tilewright-gpu-bench if there is
/// no tilewright-bench. Either program is looked for beside this program, where both are installed,
/// and in the folder `bench` of a build tree. Returns an empty text if neither program exists.
std::string benchmark_program(const Surroundings& here) {
  const auto folder = std::filesystem::path(here.program).parent_path();
  std::error_code ignored;
  for (const char* name : {"tilewright-bench", "tilewright-gpu-bench"})
    for (const auto& path : {folder / name, folder.parent_path() / "bench" / name})
      if (std::filesystem::exists(path, ignored)) return path.string();
  return "";
}

Result<int> bench_command(const std::vector<std::string>& arguments, const Surroundings& here) {
  const std::string program = benchmark_program(here);
  if (program.empty())
    return fail(ErrorCode::Environment,
                "[bench] tilewright-bench is not beside this program: build it with "
                "`ninja tilewright_bench` in the build tree");
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  return fail(ErrorCode::Environment,
              fmt::format("[bench] {} cannot be started: {}", program, std::strerror(errno)));
}

}  // namespace

Verb bench_verb() {
  auto arguments = std::make_shared<std::vector<std::string>>();
  return {.name = "bench",
          .summary = "compare kernels with other libraries; all arguments are its own",
          .run = [arguments](const Surroundings& here) { return bench_command(*arguments, here); },
          .everything = arguments.get()};
}

}  // namespace tw::tools
