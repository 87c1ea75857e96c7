// SPDX-License-Identifier: Apache-2.0
#include "tools/outputs.h"

#include <fmt/format.h>

#include <filesystem>

#include "db/server_address.h"
#include "tools/flags/quote.h"

namespace tw::tools {

Status check_keeps(const std::string& input, const std::string& output) {
  std::error_code error;
  if (!std::filesystem::equivalent(input, output, error)) return {};
  return fail(ErrorCode::Usage, fmt::format("[output] {} would replace {}, which is read: name "
                                            "another file",
                                            shell_quoted(output), shell_quoted(input)));
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
