// SPDX-License-Identifier: Apache-2.0
#include "tuner/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tw::tuner {
namespace {

using db::TrialStatus;

Verdict compare_with(const Fill& fill, const dsl::Arrays& got, std::string_view data) {
  Verdict verdict;
  for (const auto& [name, array] : fill.outputs) {
    const bool overflows = fill.overflowing.contains(name);
    const double error = relative_error(got.at(name), array, overflows);
    const double allowed = fill.allowed.at(name);
    if (!(error <= allowed))
      return {TrialStatus::Wrong,
              fmt::format("differs by {:.3g} of the largest element{}, at most {:.3g} is allowed",
                          error, data, allowed),
              0};
    verdict.error = std::max(verdict.error, error);
  }
  return verdict;
}

}  // namespace

bool same_bytes(const dsl::Arrays& a, const dsl::Arrays& b) {
  for (const auto& [name, array] : a)
    if (array.data != b.at(name).data) return false;
  return true;
}

tl::unexpected<Verdict> rejected(TrialStatus status, std::string reason) {
  return tl::unexpected(Verdict{status, std::move(reason), 0});
}

Verdict judge(const Reference& reference,
              const std::function<Outputs(const Fill& fill, Pass pass)>& run,
              const std::function<Repeated(const dsl::Arrays& outputs)>& repeat) {
  const Outputs integers = run(reference.integers, Pass::Integers);
  if (!integers) return integers.error();
  if (const Verdict verdict = compare_with(reference.integers, *integers, " on integer data");
      verdict.status != TrialStatus::Ok)
    return verdict;

  const Outputs normal = run(reference.normal, Pass::Normal);
  if (!normal) return normal.error();
  const Verdict verdict = compare(*normal, reference);
  if (verdict.status != TrialStatus::Ok) return verdict;
  const Repeated is_same = repeat(*normal);
  if (!is_same) return is_same.error();
  if (!*is_same) return {TrialStatus::Nondeterministic, "two runs on the same data differ", 0};
  return verdict;
}

Verdict compare(const dsl::Arrays& outputs, const Reference& reference) {
  return compare_with(reference.normal, outputs, "");
}

}  // namespace tw::tuner
