// SPDX-License-Identifier: Apache-2.0
// The worker program as tests start it, and a whole tuning run that can be killed:
//
//   tuning_worker build <store> ... | run <store>
//   tuning_worker disturbed <times> build <store> ... | run <store>
//       A runner that runs nothing. It reports each kernel as disturbed <times> times, and after
//       that with a latency: 1 ms for the first kernel, and 1 us less for each further one. It
//       cannot calibrate.
//   tuning_worker tune <database> <workload> <trials>    a line for each report: the trials so far
#include <cstdio>
#include <cstdlib>
#include <map>

#include "tests/tuner/tuning.h"
#include "tuner/frame.h"
#include "tuner/jobs.h"
#include "tuner/process.h"

namespace {

using namespace tw::tuner;

struct DisturbedRunner {
  int times;
  std::map<std::string, int> asked = {};
  std::map<std::string, double> latencies_ns = {};

  std::string answer(const MeasureJob& job) {
    MeasureReply reply;
    if (job.verify_only) return encode(reply);
    if (++asked[job.artifact] <= times)
      return encode(MeasureReply{.status = tw::db::TrialStatus::Unstable, .reason = "as told"});
    const double next_ns = 1e6 - 1e3 * static_cast<double>(latencies_ns.size());
    reply.latency_ns = reply.low_ns = reply.high_ns =
        latencies_ns.try_emplace(job.artifact, next_ns).first->second;
    reply.samples_ns = {reply.latency_ns};
    return encode(reply);
  }
  std::string answer(const PrepareJob&) { return encode(PrepareReply{.reference_ns = 2e6}); }
  std::string answer(const CompareJob&) { return encode(CompareReply{}); }
  std::string answer(const PeakJob&) { return encode(PeakReply{"", 1e3}); }
  std::string answer(const DescribeJob&) { return encode(DescribeReply{}); }
  std::string answer(const CalibrateJob&) { return encode(CalibrateReply{.error = "as told"}); }
  std::string answer(const BuildJob&) { return encode(BuildReply{}); }

  int serve() {
    if (!enter_worker()) return 1;
    while (true) {
      const auto request = read_frame(worker_fd);
      if (!request || !*request) return 0;
      const auto job = decode_job(**request);
      if (!job) return 1;
      const std::string reply = std::visit([this](const auto& j) { return answer(j); }, *job);
      if (!write_frame(worker_fd, reply)) return 0;
    }
  }
};

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
  if (arguments.size() > 2 && arguments[0] == "disturbed") {
    if (arguments[2] == "run") return DisturbedRunner{std::atoi(arguments[1].c_str())}.serve();
    return worker_main({arguments.begin() + 2, arguments.end()});
  }
  return worker_main(arguments);
}
