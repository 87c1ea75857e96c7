// SPDX-License-Identifier: Apache-2.0
#include "schedules/schedule.h"

#include <fmt/format.h>

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

Schedule Schedule::split(std::string stage, std::string loop, int64_t factor, Tail tail) const {
  return then(Split{std::move(stage), std::move(loop), factor, tail});
}
Schedule Schedule::fuse(std::string stage, std::string outer, std::string inner) const {
  return then(Fuse{std::move(stage), std::move(outer), std::move(inner)});
}
Schedule Schedule::reorder(std::string stage, std::vector<std::string> loops) const {
  return then(Reorder{std::move(stage), std::move(loops)});
}
Schedule Schedule::unroll(std::string stage, std::string loop) const {
  return then(Unroll{std::move(stage), std::move(loop)});
}
Schedule Schedule::vectorize(std::string stage, std::string loop) const {
  return then(Vectorize{std::move(stage), std::move(loop)});
}
Schedule Schedule::parallel(std::string stage, std::string loop) const {
  return then(Parallel{std::move(stage), std::move(loop)});
}
Schedule Schedule::bind(std::string stage, std::string loop) const {
  return then(Bind{std::move(stage), std::move(loop)});
}
Schedule Schedule::compute_at(std::string stage, std::string consumer, std::string loop) const {
  return then(ComputeAt{std::move(stage), std::move(consumer), std::move(loop)});
}
Schedule Schedule::inlined(std::string stage) const { return then(Inline{std::move(stage)}); }
Schedule Schedule::epilogue(std::string stage, std::string into) const {
  return then(Epilogue{std::move(stage), std::move(into)});
}
Schedule Schedule::cache_write(std::string stage, std::string loop, Scope scope) const {
  return then(CacheWrite{std::move(stage), std::move(loop), scope});
}
Schedule Schedule::cache_read(std::string tensor, std::string stage, std::string loop) const {
  return then(CacheRead{std::move(tensor), std::move(stage), std::move(loop)});
}
Schedule Schedule::cache_operand(std::string stage, int64_t operand, std::string loop,
                                 std::vector<std::string> loops) const {
  return then(CacheOperand{std::move(stage), operand, std::move(loop), std::move(loops)});
}
Schedule Schedule::tensorize(std::string stage, std::string loop, std::string tile) const {
  return then(Tensorize{std::move(stage), std::move(loop), std::move(tile)});
}
Schedule Schedule::pipeline(std::string stage, int64_t depth) const {
  return then(Pipeline{std::move(stage), depth});
}
Schedule Schedule::bulk(std::string stage) const { return then(Bulk{std::move(stage)}); }
Schedule Schedule::specialise(std::string stage) const {
  return then(Specialise{std::move(stage)});
}
Schedule Schedule::pad(std::string stage, std::string loop, int64_t elements) const {
  return then(Pad{std::move(stage), std::move(loop), elements});
}
Schedule Schedule::swizzle(std::string stage, int64_t bytes) const {
  return then(Swizzle{std::move(stage), bytes});
}
Schedule Schedule::rfactor(std::string stage, std::string axis, int64_t factor,
                           Partition partition) const {
  return then(Rfactor{std::move(stage), std::move(axis), factor, partition});
}
Schedule Schedule::set_layout(std::string tensor, std::string layout) const {
  return then(SetLayout{std::move(tensor), std::move(layout)});
}

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
