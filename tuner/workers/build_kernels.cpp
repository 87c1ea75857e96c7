// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/build_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "codegen/gpu/compile.h"
#include "schedules/space/default_schedule.h"

namespace tw::tuner {
namespace {

constexpr double build_timeout_s = 60;
// Number of kernels in a job. A builder compiles the kernels of a job as one module. A module costs
// about 40 ms in addition to its kernels, which is the time of the smallest kernel.
constexpr size_t most_together = 8;
// Number of jobs that a builder has at a time: one that it works on, and one that waits.
constexpr size_t most_begun = 2;

KernelSource source_of(const KernelRequest& request) {
  return {request.workload.key(), request.schedule};
}

/// The result of each request; nullopt if the request was not begun because of an interrupt or a
/// failure.
using Outcomes = std::vector<std::optional<Result<runtime::Artifact>>>;

/// The indices of the requests of one builder, in the order in which it builds them.
struct Assigned {
  std::deque<size_t> waiting = {};
  std::deque<std::vector<size_t>> begun = {};  ///< the requests of each job
  size_t work = 0;                             ///< work of all requests of this builder
};

/// Gives each builder an even share of the work. The work of a kernel is estimated as the length of
/// its schedule, since kernels with long schedules take the longest to build. Kernels with short
/// schedules are built last.
std::vector<Assigned> assign(std::span<const KernelRequest> requests, size_t builders) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto work_of = [&](size_t i) { return requests[i].schedule.size(); };
  std::ranges::stable_sort(order, std::greater(), work_of);
  std::vector<Assigned> all(builders);
  for (const size_t i : order) {
    Assigned& least = *std::ranges::min_element(all, {}, &Assigned::work);
    least.waiting.push_back(i);
    least.work += work_of(i);
  }
  return all;
}

/// Builds on all builders at the same time. A builder gets its next job before it has finished the
/// present one, so that no builder is idle.
class SideBySide {
 public:
  SideBySide(std::span<const KernelRequest> requests, const Target& target,
             const Environment& environment, const Builders& builders)
      : requests_(requests),
        target_(target),
        environment_(environment),
        builders_(builders),
        assigned_(assign(requests, builders.each.size())),
        outcomes_(requests.size()) {}

  Outcomes build() {
    for (size_t b = 0; b < assigned_.size(); ++b) begin_some(b);
    const auto is_done = [](const Assigned& own) { return own.begun.empty(); };
    while (!std::ranges::all_of(assigned_, is_done))
      for (size_t b = 0; b < assigned_.size(); ++b)
        if (!assigned_[b].begun.empty()) finish_job(b);
    return std::move(outcomes_);
  }

 private:
  void begin_some(size_t b) {
    Assigned& own = assigned_[b];
    while (!own.waiting.empty() && own.begun.size() < most_begun && !has_failed_ &&
           !environment_.interrupted()) {
      std::vector<size_t> job;
      BuildRequest request{.needed = Needed::ForResult};
      while (!own.waiting.empty() && job.size() < most_together) {
        const size_t i = job.emplace_back(own.waiting.front());
        own.waiting.pop_front();
        request.kernels.push_back(source_of(requests_[i]));
      }
      if (const Status begun = builders_.each[b]->begin(request); begun)
        own.begun.push_back(std::move(job));
      else
        for (const size_t i : job) set(i, tl::unexpected(begun.error()));
    }
  }

  void finish_job(size_t b) {
    const std::vector<size_t> job = std::move(assigned_[b].begun.front());
    assigned_[b].begun.pop_front();
    const std::vector<BuildOutcome> outcomes = builders_.each[b]->finish();
    for (size_t k = 0; k < job.size(); ++k) {
      const BuildOutcome& built = outcomes[k];
      if (!built.artifact.empty())
        set(job[k], builders_.artifacts->load(built.artifact, target_));
      else
        set(job[k],
            fail(built.installation ? ErrorCode::Environment : ErrorCode::Invalid,
                 fmt::format("[compile] {}: {}", requests_[job[k]].workload.text(), built.reason)));
    }
    begin_some(b);
  }

  void set(size_t i, Result<runtime::Artifact> outcome) {
    has_failed_ |= !outcome;
    outcomes_[i] = std::move(outcome);
  }

  const std::span<const KernelRequest> requests_;
  const Target& target_;
  const Environment& environment_;
  const Builders& builders_;
  std::vector<Assigned> assigned_;
  Outcomes outcomes_;
  bool has_failed_ = false;
};

std::vector<KernelRequest> missing_in(const BuiltKernels& built,
                                      std::span<const KernelRequest> requests) {
  std::vector<KernelRequest> missing;
  for (const KernelRequest& request : requests)
    if (!built.contains(source_of(request))) missing.push_back(request);
  return missing;
}

std::vector<runtime::Artifact> taken_from(const BuiltKernels& built,
                                          std::span<const KernelRequest> requests) {
  std::vector<runtime::Artifact> artifacts;
  for (const KernelRequest& request : requests) artifacts.push_back(built.at(source_of(request)));
  return artifacts;
}

/// True if the kernel was predicted and spills, so that the default schedule is built instead.
bool is_replaced(const KernelRequest& request, const runtime::Artifact& artifact) {
  return request.is_predicted && !codegen::check_spills(artifact);
}

/// Replaces the kernels for which is_replaced() holds by kernels of the default schedule. Requires:
/// all requests were built.
void replace_spilling(std::span<const KernelRequest> requests, Outcomes& outcomes,
                      const Target& target, const Environment& environment,
                      const Builders& builders) {
  std::vector<size_t> places;
  std::vector<KernelRequest> defaults;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!is_replaced(requests[i], **outcomes[i])) continue;
    const auto schedule = schedules::default_schedule(requests[i].workload, target);
    if (!schedule) {
      outcomes[i] = tl::unexpected(schedule.error());
      continue;
    }
    defaults.push_back({requests[i].workload, schedule->to_string()});
    places.push_back(i);
  }
  Outcomes built = SideBySide(defaults, target, environment, builders).build();
  for (size_t i = 0; i < built.size(); ++i) {
    if (built[i] && *built[i])
      if (const Status fits = codegen::check_spills(**built[i]); !fits)
        built[i] = tl::unexpected(fits.error());
    outcomes[places[i]] = std::move(built[i]);
  }
}

}  // namespace

Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     const Builders& builders,
                                                     BuiltKernels& built) {
  const std::vector<KernelRequest> missing = missing_in(built, requests);
  Outcomes outcomes = SideBySide(missing, target, environment, builders).build();
  const auto is_built = [](const auto& outcome) { return outcome && *outcome; };
  if (std::ranges::all_of(outcomes, is_built))
    replace_spilling(missing, outcomes, target, environment, builders);
  for (size_t i = 0; i < missing.size(); ++i)
    if (is_built(outcomes[i]) && !is_replaced(missing[i], **outcomes[i]))
      built[source_of(missing[i])] = **outcomes[i];
  if (std::ranges::all_of(outcomes, is_built)) return taken_from(built, requests);
  // After an interrupt, some outcomes are errors only because of the interrupt.
  if (!environment.interrupted())
    for (const auto& outcome : outcomes)
      if (outcome && !*outcome) return tl::unexpected(outcome->error());
  return fail(ErrorCode::Interrupted, "[compile] interrupted before all kernels were built");
}

Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     BuiltKernels& built) {
  if (missing_in(built, requests).empty()) return taken_from(built, requests);
  TW_TRY(const Builders builders, start_builders(target, environment, build_timeout_s));
  return build_kernels(requests, target, environment, builders, built);
}

}  // namespace tw::tuner
