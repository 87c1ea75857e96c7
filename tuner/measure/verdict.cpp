// SPDX-License-Identifier: Apache-2.0
#include "tuner/measure/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "schedules/schedule.h"

namespace tw::tuner {
using db::TrialStatus;

tl::unexpected<Verdict> rejected(TrialStatus status, std::string reason) {
  return tl::unexpected(Verdict{status, std::move(reason), 0});
}

const Fill& fill_of(const Reference& reference, Pass pass) {
  return pass == Pass::Normal ? reference.normal : reference.integers;
}

double allowed_error(const Reference& reference, Pass pass, const std::string& output) {
  const Fill& fill = fill_of(reference, pass);
  return (pass == Pass::RoundedIntegers ? fill.tolerated : fill.allowed).at(output);
}

Pass pass_on_integers(const std::string& schedule) {
  return schedules::algorithm_text(schedule).empty() ? Pass::Integers : Pass::RoundedIntegers;
}

Verdict judge(const std::string& schedule, const std::function<Verdict(Pass pass)>& run,
              const std::function<Repeated()>& repeat) {
  Verdict verdict = run(pass_on_integers(schedule));
  if (verdict.status != TrialStatus::Ok) return verdict;
  verdict = run(Pass::Normal);
  if (verdict.status != TrialStatus::Ok) return verdict;
  const Repeated is_same = repeat();
  if (!is_same) return is_same.error();
  if (!*is_same) return {TrialStatus::Nondeterministic, "two runs on the same data differ", 0};
  return verdict;
}

Verdict compare(const Reference& reference, Pass pass, const ErrorOf& error_of) {
  Verdict verdict;
  for (const std::string& name : std::views::keys(fill_of(reference, pass).allowed)) {
    const double allowed = allowed_error(reference, pass, name);
    const auto error = error_of(name);
    if (!error) return error.error();
    if (!(*error <= allowed))
      return {TrialStatus::Wrong,
              fmt::format("differs by {:.4g} of the largest element{}, at most {:.4g} is allowed",
                          *error, pass == Pass::Normal ? "" : " on integer data", allowed),
              0};
    verdict.error = std::max(verdict.error, *error);
  }
  return verdict;
}

Verdict compare(const Reference& reference, Pass pass, const dsl::Arrays& outputs) {
  const Fill& fill = fill_of(reference, pass);
  return compare(reference, pass, [&](const std::string& name) {
    return relative_error(outputs.at(name), fill.outputs.at(name), fill.overflowing.contains(name),
                          left_out_of(fill, name));
  });
}

}  // namespace tw::tuner
