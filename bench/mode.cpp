// SPDX-License-Identifier: Apache-2.0
#include "bench/mode.h"

#include <fmt/format.h>

#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "bench/summary.h"
#include "runtime/private_file.h"
#include "tools/reports/report.h"

namespace tw::bench {

Result<std::vector<tuner::Recording>> recordings_in(const std::vector<std::string>& paths) {
  std::vector<tuner::Recording> recordings;
  for (const std::string& path : paths) {
    std::ifstream file(path);
    if (!file) return fail(ErrorCode::Usage, fmt::format("[bench] '{}' cannot be read", path));
    TW_TRY(std::vector<tuner::Recording> read, tuner::read_recordings(file));
    std::move(read.begin(), read.end(), std::back_inserter(recordings));
  }
  // Each file numbers its groups from 0, so the groups get new numbers here.
  for (size_t i = 0; i < recordings.size(); ++i)
    for (cost_model::Sample& trial : recordings[i].trials) trial.group = i;
  return recordings;
}

std::string date_of(int64_t now_ms) {
  const std::time_t seconds = static_cast<std::time_t>(now_ms / 1000);
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

tuner::TuneOptions Call::tuning(int thread_count) const {
  tuner::TuneOptions options;
  options.budget_s = flags.budget_s;
  options.effort = tuner::Effort::Full;
  options.seed = static_cast<uint64_t>(flags.seed);
  options.threads = thread_count;
  return options;
}

bool Call::interrupted() const { return environment.interrupted(); }

Status publish(const Call& call, nlohmann::json document, const std::string& table) {
  const nlohmann::json common = {{"schema_version", results_schema_version},
                                 {"date", date_of(call.here.environment.now_ms())},
                                 {"program_version", call.here.environment.program_version},
                                 {"machine", machine_json(call.target)}};
  document.insert(common.begin(), common.end());
  const Flags& flags = call.flags;
  const Status printed =
      tools::print(flags.format == tools::Format::Json ? document.dump(2) + "\n" : table);
  if (!flags.output.empty())
    TW_RETURN_IF_ERROR(runtime::replace_file(
        flags.output, row_lines(flags.trace ? document : summary_of(document))));
  return printed;
}

}  // namespace tw::bench
