// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/workers.h"

#include <fmt/format.h>

#include <algorithm>

namespace tw::tuner {

Result<BuildOutcome> build_one(Builder& builder, const BuildRequest& request) {
  TW_CHECK(request.kernels.size() == 1);
  TW_RETURN_IF_ERROR(builder.begin(request));
  const BuildOutcome built = builder.finish()[0];
  if (!built.artifact.empty()) return built;
  const ErrorCode code = built.status == db::TrialStatus::Illegal ? ErrorCode::Invalid
                         : built.status == db::TrialStatus::Lost  ? ErrorCode::TryLater
                                                                  : ErrorCode::Environment;
  return fail(code, fmt::format("{}: {}", db::to_string(built.status), built.reason));
}

/// A runner with one device measures one kernel after the other, so it begins nothing ahead.
Status Runner::begin(const std::vector<MeasureJob>&) { return {}; }

void BusyTime::add(int64_t from_ns, int64_t to_ns) {
  from_ns = std::max(from_ns, until_ns_);
  if (to_ns <= from_ns) return;
  seconds_ += static_cast<double>(to_ns - from_ns) * 1e-9;
  until_ns_ = to_ns;
}

tl::unexpected<Error> interrupted_at_start() {
  return fail(ErrorCode::Interrupted, "[tune] interrupted before any candidate was measured");
}

}  // namespace tw::tuner
