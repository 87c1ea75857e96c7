// SPDX-License-Identifier: Apache-2.0
#include "tools/flags/farm_flags.h"

#include "base/text.h"
#include "tools/flags/workload_flags.h"

namespace tw::tools {

std::vector<Flag> flags_of(FarmFlags& flags) {
  return {{"workers",
           Text{&flags.workers},
           "measure on the farm whose Dask scheduler has this address, dask://HOST:8786",
           {"dry-run", "compile-only", "resume"}},
          {"label", Text{&flags.label}, "of --workers: measure on members with this label"},
          {"patience", Seconds{&flags.patience_s},
           "of --workers: how long a scheduler or a device that is gone is waited for"}};
}

std::vector<std::string> farm_program(const std::string& python) {
  std::vector<std::string> program = {python, "-P", "-m", "tilewright.farm"};
  if (python.find('/') == std::string::npos) program.insert(program.begin(), "/usr/bin/env");
  return program;
}

Result<std::optional<tuner::Farm>> chosen_farm(const FarmFlags& flags, const std::string& python,
                                               const std::string& target,
                                               const tuner::Environment& environment,
                                               double timeout_s) {
  if (flags.workers.empty()) return std::optional<tuner::Farm>();
  tuner::FarmOptions options{.client = farm_program(python), .label = flags.label};
  for (const std::string& argument : {std::string("client"), flags.workers,
                                      std::string("--patience"), format_double(flags.patience_s)})
    options.client.push_back(argument);
  // "host" is the default of --target. With a farm it means the members' own device, for which
  // `options.target` stays empty.
  if (target != "host") options.target = target;
  TW_TRY(tuner::Farm farm, tuner::open_farm(options, environment, timeout_s));
  return std::optional(std::move(farm));
}

}  // namespace tw::tools
