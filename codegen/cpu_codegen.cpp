// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu_codegen.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/own_files.h"
#include "codegen/installation.h"
#include "codegen/prefetch_hints.h"

namespace tw::codegen {
namespace {

constexpr std::string_view plugin_name = "libtw_halide.so";

Result<void*> open_plugin(const std::vector<std::string>& directories) {
  std::string reason = "it was not found";
  for (const std::string& directory : directories) {
    const std::string path = fmt::format("{}/{}", directory, plugin_name);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) continue;
    // The plugin is never closed, because LLVM does not survive being unloaded.
    if (void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
    reason = dlerror();
  }
  return fail(
      ErrorCode::Environment,
      fmt::format("[codegen] the CPU compiler {} cannot be opened ({}), looked in {}: install "
                  "the Python package halide==21.0.0 into .venv and build again",
                  plugin_name, reason, fmt::join(directories, ", ")));
}

template <typename Function>
Result<Function*> find_function(void* plugin, const char* name) {
  if (void* address = dlsym(plugin, name)) return reinterpret_cast<Function*>(address);
  return fail(ErrorCode::Environment,
              fmt::format("[codegen] {} has no function {}: build it with this program",
                          plugin_name, name));
}

Status check_version(void* plugin) {
  TW_TRY(PluginVersion * version, find_function<PluginVersion>(plugin, "tw_halide_version"));
  if (version() == plugin_version) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[codegen] {} has version {}, expected {}: build it with this program",
                          plugin_name, version(), plugin_version));
}

template <typename Function>
Result<Function*> open_function(const CpuCodegenOptions& options, const char* name) {
  const auto& given = options.plugin_directories;
  TW_TRY(void* plugin, open_plugin(given.empty() ? plugin_directories() : given));
  TW_RETURN_IF_ERROR(check_version(plugin));
  return find_function<Function>(plugin, name);
}

bool has_prefetches(const NamedProgram& named) {
  bool found = false;
  for (const schedules::Phase& phase : named.program->phases)
    schedules::for_each(*phase.body, [&](const schedules::Stmt& stmt) {
      found |= stmt.as<schedules::PrefetchLines>() != nullptr;
    });
  return found;
}

}  // namespace

std::vector<std::string> plugin_directories() {
  std::vector<std::string> directories;
  const OwnFiles files = own_files();
  if (files.program) {
    const auto folder = files.program->parent_path();
    directories = {folder.string(), (folder.parent_path() / plugin_install_directory()).string()};
  }
  // A program that links libtilewright.so has the plugin in a folder beside that library.
  if (files.library) directories.push_back((files.library->parent_path() / "tilewright").string());
  directories.push_back(plugin_build_directory());
  return directories;
}

Result<CompiledObjects> compile_cpu(std::span<const NamedProgram> programs, const Target& target,
                                    const CpuCodegenOptions& options) {
  TW_TRY(PluginCompile * compile, open_function<PluginCompile>(options, "tw_halide_compile"));
  Result<CompiledObjects> result;
  compile(programs.data(), programs.size(), &target, &result);
  if (result && std::ranges::any_of(programs, has_prefetches)) {
    TW_TRY(result->object, with_temporal_prefetches(std::move(result->object), target));
  }
  return result;
}

Result<std::string> cpu_toolchain(const CpuCodegenOptions& options) {
  TW_TRY(PluginToolchain * toolchain,
         open_function<PluginToolchain>(options, "tw_halide_toolchain"));
  return std::string(toolchain());
}

Result<std::map<std::string, AccessCounts>> count_accesses(const schedules::Program& program,
                                                           const Target& target,
                                                           const CpuCodegenOptions& options) {
  TW_TRY(PluginCounts * count, open_function<PluginCounts>(options, "tw_halide_count"));
  Result<std::map<std::string, AccessCounts>> result;
  count(&program, &target, &result);
  return result;
}

}  // namespace tw::codegen
