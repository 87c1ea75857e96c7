// SPDX-License-Identifier: Apache-2.0
// The worker program as tests start it, and a whole tuning run that can be killed:
//
//   tuning_worker build <directory> | run
//   tuning_worker tune <database> <workload> <trials>    a line for each report: the trials so far
#include <cstdio>
#include <cstdlib>

#include "tests/tuner/tuning.h"

namespace {

int tune_and_tell(const std::vector<std::string>& arguments) {
  tw::tuner::TuneOptions options;
  options.trials = std::atoll(arguments[3].c_str());
  options.batch = 4;
  auto store = tw::tuner::open_store(arguments[1]);
  const auto tell = [](const tw::tuner::Progress& progress) {
    int64_t trials = 0;
    for (const auto& [status, count] : progress.trials) trials += count;
    std::printf("%lld\n", static_cast<long long>(trials));
    std::fflush(stdout);
  };
  const auto tuned = tw::tuner::tune(tw::tuner::workload_of(arguments[2]), tw::host_target(),
                                     options, store, tw::tuner::test_environment(), tell);
  return tuned ? 0 : static_cast<int>(tuned.error().code);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 4 && arguments[0] == "tune") return tune_and_tell(arguments);
  return tw::tuner::worker_main(arguments);
}
