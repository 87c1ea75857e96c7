// SPDX-License-Identifier: Apache-2.0
#include "tools/outputs.h"

#include <fmt/format.h>

#include <filesystem>

#include "db/server_address.h"
#include "tools/flags/quote.h"

namespace tw::tools {

namespace {

/// True if both paths lead to the same file. The file need not exist.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  const auto whole = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return whole(a) == whole(b);
}

}  // namespace

Status check_separate(const std::vector<std::string>& inputs,
                      const std::vector<std::string>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].empty()) continue;
    for (const std::string& input : inputs)
      if (!input.empty() && input != "-" && is_same_file(input, outputs[i]))
        return fail(ErrorCode::Usage,
                    fmt::format("[output] {} would replace {}, which is read: name another file",
                                shell_quoted(outputs[i]), shell_quoted(input)));
    for (size_t j = 0; j < i; ++j)
      if (!outputs[j].empty() && is_same_file(outputs[j], outputs[i]))
        return fail(ErrorCode::Usage,
                    fmt::format("[output] {} and {} are one file: name two",
                                shell_quoted(outputs[j]), shell_quoted(outputs[i])));
  }
  return {};
}

tl::unexpected<Error> nothing_to_write(std::string_view verb, const std::string& path,
                                       const dsl::Workload& workload, std::string_view flag) {
  return fail(ErrorCode::Unsupported,
              fmt::format("[{}] {} has no elements and needs no kernel, so {} would not be "
                          "written: leave {} out, or choose a shape with elements",
                          verb, workload.text(), shell_quoted(path), flag));
}

std::string cached_artifact(const PlaceFlags& flags, const Surroundings& here,
                            const runtime::KernelInfo& info) {
  return (std::filesystem::path(cache_directory(flags, here)) /
          runtime::artifact_name(info.workload, info.schedule, info.target, info.codegen_abi))
      .string();
}

Result<std::string> store_in_cache(const PlaceFlags& flags, const Surroundings& here,
                                   const runtime::Artifact& artifact) {
  TW_RETURN_IF_ERROR(check_cache(flags, here));
  std::string path = cached_artifact(flags, here, artifact.info);
  TW_RETURN_IF_ERROR(runtime::write_artifact(path, artifact));
  return path;
}

std::string replay_line(const PlaceFlags& flags, const Surroundings& here,
                        const std::string& hash) {
  std::error_code error;
  std::string path = shown_database(flags, here);
  if (!db::is_server(path)) {
    const auto absolute = std::filesystem::absolute(path, error);
    if (!error) path = absolute.string();
  }
  std::string layers;
  if (!flags.team.empty()) layers += fmt::format(" --team {}", shell_quoted(flags.team));
  if (!flags.team_key.empty())
    layers += fmt::format(" --team-key {}", shell_quoted(flags.team_key));
  if (!flags.shipped.empty()) layers += fmt::format(" --shipped {}", shell_quoted(flags.shipped));
  return fmt::format("{} replay --db {}{} {}", here.invoked_as, shell_quoted(path), layers,
                     hash.substr(0, 16));
}

}  // namespace tw::tools
