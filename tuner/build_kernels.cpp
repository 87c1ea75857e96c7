// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "codegen/gpu_compile.h"
#include "schedules/default_schedule.h"

namespace tw::tuner {
namespace {

constexpr double build_timeout_s = 60;

/// Builds as many kernels as there are builders, at the same time.
Result<std::vector<runtime::Artifact>> build_side_by_side(std::span<const KernelRequest> requests,
                                                          const Target& target,
                                                          const Builders& builders) {
  for (size_t i = 0; i < requests.size(); ++i)
    TW_RETURN_IF_ERROR(builders.each[i]->begin({.workload = requests[i].workload.key(),
                                                .schedules = {requests[i].schedule},
                                                .needed = Needed::ForResult}));
  std::vector<BuildOutcome> outcomes;
  for (size_t i = 0; i < requests.size(); ++i)
    outcomes.push_back(std::move(builders.each[i]->finish().front()));
  std::vector<runtime::Artifact> artifacts;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (outcomes[i].artifact.empty())
      return fail(outcomes[i].installation ? ErrorCode::Environment : ErrorCode::Invalid,
                  fmt::format("[compile] {}: {}", requests[i].workload.text(), outcomes[i].reason));
    TW_TRY(runtime::Artifact artifact, builders.artifacts->load(outcomes[i].artifact, target));
    artifacts.push_back(std::move(artifact));
  }
  return artifacts;
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

/// The kernels of the default schedules take the place of those that were predicted and spill.
Status replace_spilling(std::span<const KernelRequest> requests,
                        std::span<runtime::Artifact> artifacts, const Target& target,
                        const Builders& builders) {
  std::vector<size_t> places;
  std::vector<KernelRequest> defaults;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].is_predicted || codegen::check_spills(artifacts[i])) continue;
    TW_TRY(const schedules::Schedule schedule,
           schedules::default_schedule(requests[i].workload, target));
    defaults.push_back({requests[i].workload, schedule.to_string()});
    places.push_back(i);
  }
  TW_TRY(auto built, build_side_by_side(defaults, target, builders));
  for (size_t i = 0; i < built.size(); ++i) {
    TW_RETURN_IF_ERROR(codegen::check_spills(built[i]));
    artifacts[places[i]] = std::move(built[i]);
  }
  return {};
}

}  // namespace

Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     const Builders& builders,
                                                     BuiltKernels& built) {
  const std::vector<KernelRequest> missing = missing_in(built, requests);
  std::span<const KernelRequest> left = missing;
  while (!left.empty()) {
    if (environment.interrupted())
      return fail(ErrorCode::Interrupted, "[compile] interrupted before all kernels were built");
    const auto next = left.first(std::min(builders.each.size(), left.size()));
    TW_TRY(auto artifacts, build_side_by_side(next, target, builders));
    TW_RETURN_IF_ERROR(replace_spilling(next, artifacts, target, builders));
    for (size_t i = 0; i < next.size(); ++i) built[key_of(next[i])] = std::move(artifacts[i]);
    left = left.subspan(next.size());
  }
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
