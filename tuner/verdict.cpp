// SPDX-License-Identifier: Apache-2.0
#include "tuner/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tw::tuner {
namespace {

using db::TrialStatus;

bool same_bytes(const dsl::Arrays& a, const dsl::Arrays& b) {
  for (const auto& [name, array] : a)
    if (array.data != b.at(name).data) return false;
  return true;
}

double worst_error(const dsl::Arrays& got, const dsl::Arrays& expected) {
  double worst = 0;
  for (const auto& [name, array] : expected)
    worst = std::max(worst, relative_error(got.at(name), array));
  return worst;
}

}  // namespace

tl::unexpected<Verdict> rejected(TrialStatus status, std::string reason) {
  return tl::unexpected(Verdict{status, std::move(reason), 0});
}

Verdict judge(const Reference& reference,
              const std::function<Outputs(const Fill& fill, Pass pass)>& run) {
  const Outputs integers = run(reference.integers, Pass::Integers);
  if (!integers) return integers.error();
  const double allowed = reference.exact ? 0 : reference.tolerance;
  if (const double error = worst_error(*integers, reference.integers.outputs); !(error <= allowed))
    return {TrialStatus::Wrong,
            fmt::format("differs by {:.3g} of the largest element on integer data", error), 0};

  const Outputs normal = run(reference.normal, Pass::Normal);
  if (!normal) return normal.error();
  const Verdict verdict = compare(*normal, reference);
  if (verdict.status != TrialStatus::Ok) return verdict;
  const Outputs again = run(reference.normal, Pass::Again);
  if (!again) return again.error();
  if (!same_bytes(*normal, *again))
    return {TrialStatus::Nondeterministic, "two runs on the same data differ", 0};
  return verdict;
}

Verdict compare(const dsl::Arrays& outputs, const Reference& reference) {
  const double error = worst_error(outputs, reference.normal.outputs);
  if (error <= reference.tolerance) return {TrialStatus::Ok, "", error};
  return {TrialStatus::Wrong,
          fmt::format("differs by {:.3g} of the largest element, at most {:.3g} is allowed", error,
                      reference.tolerance),
          0};
}

}  // namespace tw::tuner
