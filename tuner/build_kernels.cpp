// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "codegen/gpu_compile.h"
#include "schedules/default_schedule.h"

namespace tw::tuner {
namespace {

constexpr double build_timeout_s = 60;

Result<runtime::Artifact> build(const KernelRequest& request, const Target& target,
                                const ArtifactStore& artifacts, Builder& builder) {
  TW_RETURN_IF_ERROR(builder.begin({.workload = request.workload.key(),
                                    .schedules = {request.schedule},
                                    .needed = Needed::ForResult}));
  const BuildOutcome built = std::move(builder.finish().front());
  if (!built.artifact.empty()) return artifacts.load(built.artifact, target);
  return fail(built.installation ? ErrorCode::Environment : ErrorCode::Invalid,
              fmt::format("[compile] {}: {}", request.workload.text(), built.reason));
}

/// The requests in the order in which they are begun. Kernels with long schedules take the longest,
/// and would be waited for if they were the last.
std::vector<size_t> longest_first(std::span<const KernelRequest> requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(),
                           [&](size_t i) { return requests[i].schedule.size(); });
  return order;
}

/// What became of each request; nullopt: it was not begun, after an interrupt or a failure.
using Outcomes = std::vector<std::optional<Result<runtime::Artifact>>>;

/// Each builder takes the next request when it is done with one.
Outcomes build_side_by_side(std::span<const KernelRequest> requests, const Target& target,
                            const Environment& environment, const Builders& builders) {
  const std::vector<size_t> order = longest_first(requests);
  Outcomes built(requests.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> has_failed = false;
  const auto work = [&](Builder& builder) {
    while (!has_failed && !environment.interrupted()) {
      const size_t taken = next++;
      if (taken >= order.size()) return;
      const size_t i = order[taken];
      built[i] = build(requests[i], target, *builders.artifacts, builder);
      if (!*built[i]) has_failed = true;
    }
  };
  std::vector<std::jthread> threads;
  for (size_t i = 0; i < std::min(builders.each.size(), requests.size()); ++i)
    threads.emplace_back([&, i] { work(*builders.each[i]); });
  threads.clear();
  return built;
}

std::pair<std::string, std::string> key_of(const KernelRequest& request) {
  return {request.workload.key(), request.schedule};
}

std::vector<KernelRequest> missing_in(const BuiltKernels& built,
                                      std::span<const KernelRequest> requests) {
  std::vector<KernelRequest> missing;
  for (const KernelRequest& request : requests)
    if (!built.contains(key_of(request))) missing.push_back(request);
  return missing;
}

std::vector<runtime::Artifact> taken_from(const BuiltKernels& built,
                                          std::span<const KernelRequest> requests) {
  std::vector<runtime::Artifact> artifacts;
  for (const KernelRequest& request : requests) artifacts.push_back(built.at(key_of(request)));
  return artifacts;
}

bool is_replaced(const KernelRequest& request,
                 const std::optional<Result<runtime::Artifact>>& outcome) {
  return request.is_predicted && outcome && *outcome && !codegen::check_spills(**outcome);
}

/// The kernels of the default schedules take the place of those that were predicted and spill.
void replace_spilling(std::span<const KernelRequest> requests, Outcomes& outcomes,
                      const Target& target, const Environment& environment,
                      const Builders& builders) {
  std::vector<size_t> places;
  std::vector<KernelRequest> defaults;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!is_replaced(requests[i], outcomes[i])) continue;
    const auto schedule = schedules::default_schedule(requests[i].workload, target);
    if (!schedule) {
      outcomes[i] = tl::unexpected(schedule.error());
      continue;
    }
    defaults.push_back({requests[i].workload, schedule->to_string()});
    places.push_back(i);
  }
  Outcomes built = build_side_by_side(defaults, target, environment, builders);
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
  Outcomes outcomes = build_side_by_side(missing, target, environment, builders);
  replace_spilling(missing, outcomes, target, environment, builders);
  Status failed;
  bool is_interrupted = false;
  for (size_t i = 0; i < missing.size(); ++i) {
    if (!outcomes[i])
      is_interrupted = true;
    else if (*outcomes[i])
      built[key_of(missing[i])] = std::move(**outcomes[i]);
    else if (failed)
      failed = tl::unexpected(outcomes[i]->error());
  }
  TW_RETURN_IF_ERROR(failed);
  if (is_interrupted)
    return fail(ErrorCode::Interrupted, "[compile] interrupted before all kernels were built");
  return taken_from(built, requests);
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
