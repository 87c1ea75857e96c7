// SPDX-License-Identifier: Apache-2.0
#include "schedules/adapt.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "schedules/loop_names.h"
#include "schedules/nest.h"

namespace tw::schedules {
namespace {

/// Returns the extent of the loop that a split divides; nullopt if there is no such loop.
std::optional<int64_t> divided_extent(const Nest& nest, const Split& s) {
  const StageNest* stage = nest.find(s.stage);
  const int index = stage ? stage->find_loop(derived_name(*stage, s.loop)) : -1;
  if (index < 0) return std::nullopt;
  return stage->loops[static_cast<size_t>(index)].extent;
}

/// Returns the extent of the reduction axis that rfactor divides; nullopt if there is no such axis.
std::optional<int64_t> divided_extent(const Nest& nest, const Rfactor& s) {
  const StageNest* stage = nest.find(s.stage);
  if (!stage) return std::nullopt;
  for (const dsl::Axis& axis : stage->stage.reduction)
    if (axis.name == s.axis) return axis.extent;
  return std::nullopt;
}

std::string tail_note(int64_t extent, int64_t factor) {
  if (extent % factor == 0) return "";
  return fmt::format("the last tile has {} of {} iterations", extent % factor, factor);
}

/// Changes the factor or tail of the step so that it fits the extents of the nest. Returns the
/// reason of the change or a remark on the tail; may be empty.
template <typename S>
std::string fit(const Nest&, S&) {
  return "";
}

std::string fit(const Nest& nest, Split& s) {
  const std::optional<int64_t> extent = divided_extent(nest, s);
  if (!extent) return "";
  if (s.factor > *extent) {
    s.factor = *extent;
    return fmt::format("the extent is {}", *extent);
  }
  if (*extent % s.factor == 0 || s.tail != Tail::Exact) return tail_note(*extent, s.factor);
  s.tail = Tail::Guard;
  return fmt::format("{} does not divide the extent {}: {}", s.factor, *extent,
                     tail_note(*extent, s.factor));
}

std::string fit(const Nest& nest, Rfactor& s) {
  const std::optional<int64_t> extent = divided_extent(nest, s);
  if (!extent || s.factor <= *extent) return "";
  s.factor = *extent;
  return fmt::format("the extent is {}", *extent);
}

std::string fit(const Nest& nest, Winograd& s) {
  const StageNest* stage = nest.find(s.stage);
  if (!stage) return "";
  for (const dsl::Axis& axis : stage->stage.axes)
    if (axis.name == s.axis && axis.extent < s.tile) {
      s.tile = axis.extent;
      return fmt::format("the extent is {}", axis.extent);
    }
  return "";
}

/// Returns the reason alone: "stage 'c' has no loop 'z': its loops are m, n" for the message
/// "[split] stage ...\n  c: for ...".
std::string reason_of(const Error& error) {
  std::string reason = first_lines(error.message, 1);
  if (const size_t tag = reason.find("] "); tag != std::string::npos) reason.erase(0, tag + 2);
  return reason;
}

}  // namespace

bool Adapted::is_unchanged() const {
  return std::all_of(steps.begin(), steps.end(), [](const AdaptedStep& step) {
    return !step.changed && !step.applied.empty();
  });
}

Adapted adapt(const std::vector<Step>& steps, const dsl::Compute& compute) {
  Adapted adapted{Schedule(compute), {}};
  for (const Step& given : steps) {
    AdaptedStep report{to_string(given), "", false, ""};
    Step step = given;
    report.note = std::visit([&](auto& s) { return fit(adapted.schedule.nest(), s); }, step);
    report.changed = to_string(step) != report.given;
    Schedule next = adapted.schedule.then(std::move(step));
    if (next.error()) {
      report.note = reason_of(*next.error());
    } else {
      report.applied = to_string(next.steps().back());
      adapted.schedule = std::move(next);
    }
    adapted.steps.push_back(std::move(report));
  }
  return adapted;
}

std::vector<std::string> notes_of(const Adapted& adapted) {
  std::vector<std::string> lines;
  for (const AdaptedStep& step : adapted.steps) {
    if (step.note.empty()) continue;
    if (step.applied.empty())
      lines.push_back(fmt::format("left out: {}: {}", step.given, step.note));
    else if (step.changed)
      lines.push_back(fmt::format("{} -> {}: {}", step.given, step.applied, step.note));
    else
      lines.push_back(fmt::format("{}: {}", step.given, step.note));
  }
  return lines;
}

}  // namespace tw::schedules
