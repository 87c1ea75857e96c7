// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.h"

#include <fmt/format.h>

#include <tuple>
#include <type_traits>

#include "base/hash.h"
#include "base/text.h"
#include "schedules/lower.h"
#include "schedules/nest.h"

namespace tw::schedules {

Schedule::Schedule(dsl::Compute compute)
    : compute_(std::make_shared<const dsl::Compute>(std::move(compute))),
      nest_(std::make_shared<Nest>(default_nest(*compute_))) {}

Schedule Schedule::then(Step step) const {
  Schedule next = *this;
  next.add(std::move(step));
  return next;
}

Schedule Schedule::then(const std::vector<Step>& steps) const {
  Schedule next = *this;
  for (const Step& step : steps) next.add(step);
  return next;
}

void Schedule::add(Step step) {
  if (error_) return;
  if (nest_.use_count() > 1) nest_ = std::make_shared<Nest>(*nest_);
  if (const Status status = schedules::apply(*nest_, step); !status) {
    error_ = status.error();
  } else {
    steps_.push_back(std::move(step));
  }
}

// Checks that each step has a method whose parameters are the step's fields in order.
template <typename S, typename... T>
std::tuple<T...> types_of(const std::tuple<Field<S, T>...>&);
template <typename... T>
std::tuple<T...> types_of(Schedule (Schedule::*)(T...) const);
#define X(Type, method) \
  static_assert(        \
      std::is_same_v<decltype(types_of(Type::fields())), decltype(types_of(&Schedule::method))>);
TW_STEPS(X)
#undef X

Result<Program> Schedule::program(const Limits& limits) const {
  if (error_) return tl::unexpected<Error>(*error_);
  return lower(*nest_, limits);
}

std::string Schedule::to_string() const {
  std::string text(schedule_version);
  for (const Step& step : steps_) text += "\n" + schedules::to_string(step);
  return text;
}

std::string Schedule::hash() const { return short_hash(to_string()); }

Result<Schedule> parse_schedule(const dsl::Compute& compute, std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string& line : tw::split(text, '\n'))
    for (const std::string& part : tw::split(line, ';'))
      if (!trim(part).empty()) lines.emplace_back(trim(part));
  if (lines.empty() || lines[0] != schedule_version)
    return fail(ErrorCode::Invalid,
                fmt::format("[schedule] the text begins with '{}', expected the version '{}'",
                            lines.empty() ? "" : lines[0].substr(0, 40), schedule_version));
  Schedule schedule(compute);
  for (size_t i = 1; i < lines.size(); ++i) {
    TW_TRY(Step step, parse_step(lines[i]));
    schedule.add(std::move(step));
    if (schedule.error()) return tl::unexpected<Error>(*schedule.error());
  }
  return schedule;
}

}  // namespace tw::schedules
