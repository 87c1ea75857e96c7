// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

}  // namespace

Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment,
                                                     const Builders& builders) {
  std::vector<runtime::Artifact> artifacts;
  while (artifacts.size() < requests.size()) {
    if (environment.interrupted())
      return fail(ErrorCode::Interrupted, "[compile] interrupted before all kernels were built");
    const size_t count = std::min(builders.each.size(), requests.size() - artifacts.size());
    TW_TRY(auto built,
           build_side_by_side(requests.subspan(artifacts.size(), count), target, builders));
    std::ranges::move(built, std::back_inserter(artifacts));
  }
  return artifacts;
}

Result<std::vector<runtime::Artifact>> build_kernels(std::span<const KernelRequest> requests,
                                                     const Target& target,
                                                     const Environment& environment) {
  TW_TRY(const Builders builders, start_builders(target, environment, build_timeout_s));
  return build_kernels(requests, target, environment, builders);
}

}  // namespace tw::tuner
