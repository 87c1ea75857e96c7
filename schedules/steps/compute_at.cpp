// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <map>
#include <optional>

#include "schedules/program/interval.h"
#include "schedules/steps/editing.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// The region that several reads access along one dimension.
class Region {
 public:
  explicit Region(int64_t extent) : last_(extent - 1) {}

  /// Adds the elements that one read accesses: those of the interval, or any elements for nullopt.
  /// If the interval begins at min(e, last), the index is cut off at the last element of the
  /// dimension: the read accesses elements from e on, or the last element.
  void add(std::optional<Interval> interval) {
    if (!interval) {
      whole_ = true;
    } else if (const auto cut = interval->low.as<dsl::Binary>();
               cut && cut->op == dsl::BinaryOp::Min && dsl::is_int(cut->b, last_)) {
      cut_.push_back(std::move(*interval));
    } else {
      extend(*interval);
    }
  }

  /// Returns an interval with all added elements; nullopt stands for the whole dimension.
  std::optional<Interval> covered() && {
    for (const Interval& cut : cut_) {
      // The first element of the box is read without a cut. It is at most the last element of the
      // dimension, or else the schedule is illegal. If e is not before this first element, min(e,
      // last) lies between the first element and e, so a box up to e has all elements that the cut
      // read accesses.
      const Interval uncut{cut.low.as<dsl::Binary>()->a, cut.extent};
      const auto both = box_ ? cover(*box_, uncut) : std::nullopt;
      const bool begins_alike = both && dsl::equal(both->low, box_->low);
      extend(begins_alike ? uncut : cut);
    }
    return whole_ || (box_ && box_->extent > last_) ? std::nullopt : box_;
  }

 private:
  void extend(const Interval& interval) {
    const auto both = box_ ? cover(*box_, interval) : interval;
    if (!both) whole_ = true;
    if (both) box_ = both;
  }

  int64_t last_;
  std::optional<Interval> box_;
  std::vector<Interval> cut_;
  bool whole_ = false;
};

/// Returns the region of `tensor` that one iteration of loop `index` of `consumer` reads, as one
/// interval for each dimension. The region covers the reads of `consumer` and of all stages that
/// are computed inside of the loop. Fails if a stage outside of the loop reads the tensor, or if a
/// stage between reader and loop has a window (store_at).
Result<std::vector<Interval>> required_box(const Nest& nest, const std::string& tensor,
                                           const StageNest& consumer, int index,
                                           const std::vector<int64_t>& shape) {
  std::vector<Region> regions(shape.begin(), shape.end());
  std::map<std::string, int64_t> inside;
  for (size_t i = static_cast<size_t>(index) + 1; i < consumer.loops.size(); ++i)
    inside[consumer.loops[i].variable] = consumer.loops[i].extent;

  const auto add_reads = [&](const StageNest& reader, const Stage& body) {
    auto inner = inside;
    if (&reader != &consumer)
      for (const StageNest* stage : placed_inside(nest, reader, consumer.stage.name))
        for (const NestLoop& loop : stage->loops) inner[loop.variable] = loop.extent;
    dsl::Substitution axis = reader.axis;
    if (&body != &reader.stage)  // an epilogue's axes stand for those of its stage, in order
      for (size_t i = 0; i < body.axes.size(); ++i)
        axis[body.axes[i].name] = reader.axis.at(reader.stage.axes[i].name);
    for_each_read(body.body, [&](const dsl::Read& r) {
      if (r.tensor != tensor) return;
      for (size_t d = 0; d < shape.size(); ++d)
        regions[d].add(interval_of(dsl::substitute(r.indices[d], axis), inner));
    });
  };
  for (const StageNest& reader : nest.stages) {
    if (!reads(reader, tensor)) continue;
    const auto chain = placed_inside(nest, reader, consumer.stage.name);
    for (const StageNest* stage : chain)
      if (stage->window)
        return illegal("compute_at",
                       fmt::format("'{}' is read by '{}', which computes a part of its window in "
                                   "an iteration: place it before the store_at",
                                   tensor, stage->stage.name));
    const bool is_inside = !chain.empty() && consumer.find_loop(chain.back()->at->loop) >= index;
    if (&reader != &consumer && !is_inside)
      return illegal("compute_at",
                     fmt::format("'{}' is also read by '{}', which is not inside that loop", tensor,
                                 reader.stage.name));
    add_reads(reader, reader.stage);
    if (reader.epilogue) add_reads(reader, *reader.epilogue);
  }
  std::vector<Interval> result;
  for (size_t d = 0; d < shape.size(); ++d)
    result.push_back(std::move(regions[d]).covered().value_or(Interval{Expr(0), shape[d]}));
  return result;
}

}  // namespace

Status apply(Nest& nest, const ComputeAt& s) {
  TW_TRY(StageNest * stage, stage_of(nest, s.name, s.stage));
  TW_TRY(const StageNest* consumer, stage_of(nest, s.name, s.consumer));
  if (stage == consumer) return illegal(s.name, "a stage cannot be computed inside itself");
  if (nest.compute.is_output(stage->result()))
    return illegal(s.name, fmt::format("'{}' is an output: it has a nest of its own", s.stage));
  if (!has_fresh_loops(nest, *stage))
    return illegal(
        s.name, fmt::format("'{}' has steps already: place it first, then schedule it", s.stage));
  if (nest.layouts.contains(stage->result()))
    return illegal(s.name, fmt::format("'{}' has a layout: a box of it has none", s.stage));
  if (!reads(*consumer, stage->result())) {
    bool inside = false;
    for (const StageNest& other : nest.stages)
      inside |= reads(other, stage->result()) && !placed_inside(nest, other, s.consumer).empty();
    if (!inside)
      return illegal(s.name, fmt::format("'{}' does not read '{}'", s.consumer, s.stage));
  }
  TW_TRY(const int index, loop_index(*consumer, s.name, s.loop));
  TW_TRY(const auto box,
         required_box(nest, stage->result(), *consumer, index, stage->stage.shape()));
  stage->at = StageNest::Placement{s.consumer, s.loop};
  stage->region_offset.clear();
  stage->region_extent.clear();
  for (const Interval& interval : box) {
    stage->region_offset.push_back(interval.low);
    stage->region_extent.push_back(interval.extent);
  }
  if (stage->stage.scan && !dsl::is_int(box[stage->stage.scanned_axis()].low, 0))
    return illegal(s.name, fmt::format("'{}' is a scan along '{}', and what an iteration of loop "
                                       "'{}' reads of it does not begin at 0",
                                       s.stage, stage->stage.scan->along, s.loop));
  compute_region(*stage, stage->region_offset, stage->region_extent);
  return {};
}

}  // namespace tw::schedules
