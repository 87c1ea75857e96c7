// SPDX-License-Identifier: Apache-2.0
// The worker program that tests start. It can misbehave, and run a whole tuning run that a test can
// kill. In all forms but the last two, `build <store> ...` is a builder and `run <store>` a runner.
//
//   tuning_worker build <store> ... | run <store>
//       The worker program itself.
//   tuning_worker disturbed <times> build <store> ... | run <store>
//       A runner that runs nothing. It reports each kernel as disturbed <times> times, and after
//       that with a latency: 1 ms for the first kernel, and 1 us less for each further one. It
//       cannot calibrate.
//   tuning_worker losing <how> <job> <file> build <store> ... | run <store>
//       The same runner with 0 disturbances, which loses jobs of the kind <job> ("measure", "peak",
//       "prepare" or "calibrate"). The file has the number of jobs to lose, and the runner counts
//       it down. It loses a job by raising the signal <how>, or by a reply that cannot be decoded
//       (if <how> is "garbled" or "renamed").
//   tuning_worker farm <members> <ends> <number>
//       The client of a farm whose only station is in this process. It reports the members of the
//       JSON text <members>, in which DEVICE stands for the resource name of this machine's
//       processor and VERSION for that of this version. It does all jobs one after the other. After
//       <number> measurements, <ends> says what it does at the next one: "lose" reports that the
//       farm is lost, "fault" answers with a fault, "garble" answers with a reply that cannot be
//       decoded, "garble all" does so from there on, and "end" exits. "fault comparison" counts
//       comparisons instead of measurements.
//   tuning_worker tune <database> <workload> <trials>
//       Tunes the workload. Prints the number of trials so far at each report, one a line.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/machine.h"
#include "tests/tuner/tuning.h"
#include "tuner/processes/frame.h"
#include "tuner/processes/process.h"
#include "tuner/workers/farm_jobs.h"
#include "tuner/workers/jobs.h"
#include "tuner/workers/station.h"

namespace {

using namespace tw::tuner;

/// Renames a key of the reply, so that decoders do not know it.
std::string renamed(std::string reply) {
  const size_t at = reply.find("latency_ns");
  if (at != std::string::npos) reply.replace(at, 10, "latency_xx");
  return reply;
}

/// Loses jobs of the kind `job`. The file has the number of jobs that are still to be lost.
struct Losses {
  std::string how = {}, job = {}, file = {};

  bool is_due(const Job& asked) const {
    const bool is_kind = (job == "measure" && std::holds_alternative<MeasureJob>(asked)) ||
                         (job == "prepare" && std::holds_alternative<PrepareJob>(asked)) ||
                         (job == "peak" && std::holds_alternative<PeakJob>(asked)) ||
                         (job == "calibrate" && std::holds_alternative<CalibrateJob>(asked));
    int left = 0;
    if (!is_kind || !(std::ifstream(file) >> left) || left == 0) return false;
    std::ofstream(file) << left - 1;
    return true;
  }
  std::string instead_of(const std::string& reply) const {
    if (how == "garbled") return "no reply";
    if (how == "renamed") return renamed(reply);
    std::raise(std::atoi(how.c_str()));
    return reply;
  }
};

struct DisturbedRunner {
  int times;
  Losses losses = {};
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
      std::string reply = std::visit([this](const auto& j) { return answer(j); }, *job);
      if (losses.is_due(*job)) reply = losses.instead_of(reply);
      if (!write_frame(worker_fd, reply)) return 0;
    }
  }
};

/// Returns a message of the protocol of farm_link.h.
std::string farm_message(const nlohmann::json& header, const std::string& body = "") {
  const std::string text = header.dump();
  std::string message;
  for (size_t i = 0; i < 4; ++i) message += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return message + text + body;
}

class FarmClient {
 public:
  FarmClient(std::string ends, int number) : ends_(std::move(ends)), number_(number) {}

  int serve(std::string members) {
    if (!enter_worker()) return 1;
    for (const auto& [name, resource] :
         {std::pair<std::string, std::string>{"DEVICE", device_resource(tw::host_target())},
          {"VERSION", version_resource()}})
      for (size_t at; (at = members.find(name)) != std::string::npos;)
        members.replace(at, name.size(), resource);
    if (!write_frame(worker_fd, farm_message({{"members", nlohmann::json::parse(members)}})))
      return 1;
    while (true) {
      const auto request = read_frame(worker_fd);
      if (!request || !*request) return 0;
      const auto length = static_cast<size_t>(static_cast<unsigned char>((**request)[0]) +
                                              256 * static_cast<unsigned char>((**request)[1]));
      const auto header = nlohmann::json::parse((**request).substr(4, length));
      if (header.contains("cancel")) continue;
      if (!write_frame(worker_fd, answer(header.at("id"), (**request).substr(4 + length))))
        return 0;
    }
  }

 private:
  std::string answer(uint64_t number, const std::string& body) {
    const auto job = decode_farm_job(body);
    if (!job) std::exit(1);
    const bool measures = std::holds_alternative<MeasureJob>(job->job);
    bool is_garbled = measures && ends_ == "garble all" && number_ < 0;
    const bool is_counted =
        ends_ == "fault comparison" ? std::holds_alternative<CompareJob>(job->job) : measures;
    if (is_counted && number_ >= 0 && number_-- == 0) {
      is_garbled = ends_.starts_with("garble");
      if (ends_ == "lose") return farm_message({{"lost", "the test ends it"}});
      if (ends_.starts_with("fault"))
        return farm_message({{"id", number}, {"fault", "the test says so"}});
      if (ends_ == "end") std::exit(3);
    }
    FarmReply reply = station_.answer(*job);
    reply.host = "fedcba9876543210";
    if (is_garbled) reply.reply = renamed(reply.reply);
    return farm_message({{"id", number}, {"member", "here"}}, encode(reply));
  }

  std::string ends_;
  int number_;
  Station station_ = Station(tw::host_target(), test_environment());
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
  if (arguments.size() == 4 && arguments[0] == "farm")
    return FarmClient(arguments[2], std::atoi(arguments[3].c_str())).serve(arguments[1]);
  if (arguments.size() == 4 && arguments[0] == "tune") return tune_and_tell(arguments);
  if (arguments.size() > 4 && arguments[0] == "losing") {
    if (arguments[4] == "run")
      return DisturbedRunner{0, {arguments[1], arguments[2], arguments[3]}}.serve();
    return worker_main({arguments.begin() + 4, arguments.end()});
  }
  if (arguments.size() > 2 && arguments[0] == "disturbed") {
    if (arguments[2] == "run") return DisturbedRunner{std::atoi(arguments[1].c_str())}.serve();
    return worker_main({arguments.begin() + 2, arguments.end()});
  }
  return worker_main(arguments);
}
