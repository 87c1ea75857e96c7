// SPDX-License-Identifier: Apache-2.0
// A stage without a reduction on a CPU, in a compute that an algorithm rewrote. The stage is a
// transform, a copy of data with their padding, or a consumer of the algorithm's result. A
// transform chooses its expression by indices, such as the index of a point of Winograd's algorithm
// or of an output in a tile. Loops along these axes are unrolled, so that each copy of the body has
// one expression, and the copies share the elements that they read. Vectors lie along the last axis
// of the stages that are read.
//
//   parallel columns of vectors
//     parallel n, strips, segments     producers may be computed here: their buffers hold one strip
//       tiles of the strip, vectors
//         nested stages                (StagePlan::nested)
//         unrolled y, x in a tile
//           vectorized k
//
// A strip has several tiles along the rows, and a whole row or a segment of it. Only a stage that
// is an output has strips and columns.

#include <algorithm>
#include <cctype>
#include <map>

#include "base/integer.h"
#include "schedules/nest.h"
#include "schedules/space/strategy.h"
#include "schedules/strategies/cpu_loops.h"
#include "schedules/toom_cook.h"

namespace tw::schedules {
namespace {

using dsl::Axis;
using dsl::Stage;

// The longest axis for which each value of the index gets its own expression. Algorithms have at
// most most_products points, so a condition on a longer axis is one that the user declared.
constexpr int64_t most_choices = most_products;
// The length of the shortest segment of a row of tiles, in tiles. It is longer than a register
// tile. Rows of 24 tiles or more may exceed L2: with 64 channels and 36 points, the data and the
// products of 56 tiles take 1 MiB.
constexpr int64_t least_segment = 12;

struct CpuTransform {
  int64_t strip = 1;    ///< number of tiles of a strip along strip_axis()
  int64_t segment = 0;  ///< number of tiles of a strip along the last axis of tiles; 0: all
  int64_t columns = 0;  ///< number of vectors of a strip; 0: all
  int64_t order = 0;    ///< loop over vectors outside (0) or inside (1) of the loops over tiles
  int64_t tasks = 1;    ///< number of parallel loops of a stage without strips
  int64_t layout = 1;  ///< layout of inputs and outputs: blocks of a vector (1), or lanes innermost
                       ///< (2)
};

class CpuTransformStage : public Configured<CpuTransform> {
 public:
  CpuTransformStage(const ComputePlan& compute, const StagePlan& plan) : Configured(compute, plan) {
    bodies_ = {&stage_};
    for (const std::string& nested : plan.nested)
      bodies_.push_back(compute.compute.find_stage(nested));
    for (const Stage* stage : bodies_)
      for (const auto& [axis, count] : choosing_axes(stage->body)) choosing_.emplace(axis, count);
    lane_ = lane_axis();
    for (size_t i = 1; i < bodies_.size(); ++i)
      nested_loops_.push_back(loops_of_nested(*bodies_[i]));
    arguments_ = arguments();
    for (const Axis& axis : stage_.axes)
      if (axis.name != lane_ && !is_unrolled(axis)) outer_.push_back(axis.name);
    if (has_strips()) {
      add_knob("strip", strips(), &CpuTransform::strip);
      if (const auto lengths = segments(); lengths.size() > 1)
        add_knob("segment", lengths, &CpuTransform::segment);
      add_knob("columns", {0, 1, 2, 4, 8}, &CpuTransform::columns);
    }
    add_knob("order", {0, 1}, &CpuTransform::order);
    if (!has_strips()) add_knob("tasks", {1, 2, 3}, &CpuTransform::tasks);
    if (!arguments_.empty()) add_knob("layout", {1, 2}, &CpuTransform::layout);
  }

 private:
  bool is_output() const { return compute_.compute.is_output(plan_.name); }
  /// True for the last transform of an algorithm. The stages before it may be computed in its
  /// strips.
  bool has_strips() const { return is_output() && !outer_.empty(); }

  /// True if the axis is unrolled as a whole. Such an axis is short. Its index chooses between
  /// expressions, either directly or by a remainder (y % 4) whose divisor is at least the extent of
  /// the axis.
  bool is_unrolled(const Axis& axis) const {
    const auto found = choosing_.find(axis.name);
    return found != choosing_.end() && axis.extent <= most_choices &&
           (found->second == 0 || found->second >= axis.extent);
  }
  /// Returns the number of neighbouring elements of the axis that are unrolled; other loops run
  /// over the rest of the axis.
  int64_t unrolled_along(const std::string& axis) const {
    const auto found = choosing_.find(axis);
    return found == choosing_.end() ? 1 : std::max<int64_t>(found->second, 1);
  }

  bool is_nested(const std::string& stage) const {
    return std::find(plan_.nested.begin(), plan_.nested.end(), stage) != plan_.nested.end();
  }
  bool has_axis(const Stage& stage, const std::string& name) const {
    return std::any_of(stage.axes.begin(), stage.axes.end(),
                       [&](const Axis& axis) { return axis.name == name; });
  }

  /// Returns the axis along which vectors lie: the last axis of the first stage that this stage, or
  /// a stage nested in it, reads from memory. If this stage does not have that axis, the result is
  /// the last axis of this stage.
  std::string lane_axis() const {
    std::string lane;
    for (const Stage* stage : bodies_)
      for_each_read(stage->body, [&](const dsl::Read& read) {
        if (!lane.empty() || read.indices.empty()) return;
        if (!compute_.compute.find_stage(read.tensor) || is_nested(read.tensor)) return;
        const dsl::Var* v = read.indices.back().as<dsl::Var>();
        if (v && has_axis(stage_, v->name)) lane = v->name;
      });
    return lane.empty() ? stage_.axes.back().name : lane;
  }

  /// Returns the axis that is cut into strips: the last but one if there are three or more (n, y,
  /// x), else the last.
  const std::string& strip_axis() const {
    return outer_.size() > 2 ? outer_[outer_.size() - 2] : outer_.back();
  }
  int64_t tiles_along(const std::string& axis) const {
    return ceil_div(extent_of(stage_, axis), unrolled_along(axis));
  }
  /// Returns the lengths of segments, in tiles: 0 for whole rows, and half a row, a quarter and so
  /// on, as long as they are at least least_segment.
  std::vector<int64_t> segments() const {
    std::vector<int64_t> lengths = {0};
    if (strip_axis() == outer_.back()) return lengths;
    for (int64_t length = ceil_div(tiles_along(outer_.back()), 2); length >= least_segment;
         length = ceil_div(length, 2))
      lengths.push_back(length);
    return lengths;
  }
  /// Returns the lengths of strips, in iterations: for each possible number of strips, the shortest
  /// length that gives this number.
  std::vector<int64_t> strips() const {
    const int64_t iterations = tiles_along(strip_axis());
    std::vector<int64_t> lengths;
    for (int64_t length = 1; length <= iterations; ++length)
      if (length == 1 || ceil_div(iterations, length) < ceil_div(iterations, length - 1))
        lengths.push_back(length);
    return lengths;
  }

  /// Returns the inputs and outputs that are read or written along the lanes and whose layouts are
  /// free, except constants. The map has, for each of them, the index of the dimension along which
  /// the lanes lie.
  std::map<std::string, size_t> arguments() const {
    std::map<std::string, size_t> found;
    const auto add = [&](const std::string& tensor, size_t dimension) {
      if (!compute_.layouts.contains(tensor)) found.emplace(tensor, dimension);
    };
    for (size_t d = 0; is_output() && d < stage_.axes.size(); ++d)
      if (stage_.axes[d].name == lane_) add(plan_.name, d);
    const auto add_read = [&](const dsl::Read& read) {
      const dsl::Input* input = compute_.compute.find_input(read.tensor);
      if (!input || input->constant || read.indices.size() < 2) return;
      for (size_t d = 0; d < read.indices.size(); ++d)
        if (const dsl::Var* v = read.indices[d].as<dsl::Var>(); v && v->name == lane_)
          add(read.tensor, d);
    };
    for (const Stage* stage : bodies_) for_each_read(stage->body, add_read);
    return found;
  }

  /// Returns the layout in which blocks of `width` elements along the dimension are innermost, such
  /// as NCHW16c. For a width of 0, the whole dimension is innermost, as in NHWC.
  std::string layout_of(const std::string& tensor, size_t dimension, int64_t width) const {
    const std::string letters = compute_.compute.letters_of(tensor);
    const auto upper = [](char letter) { return static_cast<char>(std::toupper(letter)); };
    std::string text;
    for (size_t d = 0; d < letters.size(); ++d)
      if (d != dimension || width > 0) text += upper(letters[d]);
    if (width == 0) return text + upper(letters[dimension]);
    return text + std::to_string(width) + static_cast<char>(std::tolower(letters[dimension]));
  }

  void choose_layouts(const CpuTransform& config, int64_t width, Construction& c) const {
    c.uses(config.layout);
    for (const auto& [tensor, dimension] : arguments_) {
      const bool is_blocked =
          config.layout == 1 && width < compute_.compute.shape_of(tensor)[dimension];
      const std::string text = layout_of(tensor, dimension, is_blocked ? width : 0);
      if (text != compute_.compute.letters_of(tensor)) c.schedule.add(SetLayout{tensor, text});
    }
  }

  Site append_steps(const CpuTransform& config, const Site* inside,
                    Construction& c) const override {
    const std::string& name = plan_.name;
    const int64_t width = std::min(vector_lanes(compute_.target, stage_), extent_of(stage_, lane_));
    choose_layouts(config, width, c);
    compute_at(c, name, inside);
    Loops strips, tiles, unrolled;
    for (const Axis& axis : stage_.axes)
      if (axis.name != lane_) split_other_axis(config, axis, c, strips, tiles, unrolled);
    std::string lane = lane_;
    Loops vectors, columns;
    if (width < c.extent(name, lane)) vectors = {split_off(c, name, lane, width)};
    if (has_strips() && !vectors.empty()) {
      c.uses(config.columns);
      if (config.columns > 0 && config.columns < c.extent(name, vectors[0]))
        columns = {split_off(c, name, vectors[0], config.columns)};
    }
    c.uses(config.order);
    const Loops inner = config.order == 0 ? concat({vectors, tiles}) : concat({tiles, vectors});
    const Loops around = concat({columns, strips, inner});
    const Loops order = concat({around, unrolled, {lane}});
    if (order.size() > 1) c.schedule.add(Reorder{name, order});
    c.schedule.add(Vectorize{name, lane});
    unroll(c, name, unrolled);
    if (!inside && has_strips()) {
      parallelize(c, name, around, columns.size() + strips.size());
    } else if (!inside) {
      c.uses(config.tasks);
      parallelize(c, name, around, static_cast<size_t>(config.tasks));
    }
    if (!around.empty()) append_nested(around.back(), c);
    return inside ? Site{} : site_of(c, name);
  }

  /// Splits an axis that is not the axis of the lanes, and appends its loops to the lists: loops
  /// over strips, over tiles of a strip, and over unrolled elements in a tile.
  void split_other_axis(const CpuTransform& config, const Axis& axis, Construction& c,
                        Loops& strips, Loops& tiles, Loops& unrolled) const {
    const std::string& name = plan_.name;
    if (is_unrolled(axis)) return unrolled.push_back(axis.name);
    std::string loop = axis.name;
    const int64_t factor = unrolled_along(axis.name);
    if (factor > 1 && factor < c.extent(name, axis.name)) {
      std::string rest = split_off(c, name, loop, factor);
      unrolled.push_back(loop);
      loop = rest;
    } else if (factor > 1) {  // inside of another stage, the extent may be that of one tile
      return unrolled.push_back(loop);
    }
    if (!has_strips()) return tiles.push_back(loop);
    const bool is_cut_into_strips = axis.name == strip_axis();
    if (!is_cut_into_strips && axis.name != outer_.back()) return strips.push_back(loop);
    const int64_t& length = is_cut_into_strips ? config.strip : config.segment;
    c.uses(length);
    if (length > 0 && length < c.extent(name, loop))
      strips.push_back(split_off(c, name, loop, length));
    tiles.push_back(loop);
  }

  /// The loops of a nested stage. `unrolled` are the loops whose indices choose its expression,
  /// `lane` is the loop of its vectors, and `others` are all other loops.
  struct NestedLoops {
    Loops others, unrolled;
    std::string lane;
  };
  NestedLoops loops_of_nested(const Stage& stage) const {
    const auto choosing = choosing_axes(stage.body);
    NestedLoops loops;
    loops.lane = has_axis(stage, lane_) ? lane_ : stage.axes.back().name;
    for (const Axis& axis : stage.axes)
      if (axis.name != loops.lane)
        (choosing.contains(axis.name) ? loops.unrolled : loops.others).push_back(axis.name);
    return loops;
  }

  /// Computes the nested stages in the loop.
  void append_nested(const std::string& loop, Construction& c) const {
    for (size_t i = 0; i < plan_.nested.size(); ++i) {
      const std::string& nested = plan_.nested[i];
      const NestedLoops& loops = nested_loops_[i];
      c.schedule.add(ComputeAt{nested, plan_.name, loop});
      c.schedule.add(Reorder{nested, concat({loops.others, loops.unrolled, {loops.lane}})});
      c.schedule.add(Vectorize{nested, loops.lane});
      unroll(c, nested, loops.unrolled);
    }
  }

  std::vector<const Stage*> bodies_;         // the stage, and the stages nested in it
  std::map<std::string, int64_t> choosing_;  // choosing_axes() of all of bodies_
  std::string lane_;
  std::vector<NestedLoops> nested_loops_;  // in the order of StagePlan::nested
  std::map<std::string, size_t> arguments_;
  Loops outer_;  // axes that are neither the axis of the lanes nor unrolled as a whole
};

}  // namespace

std::unique_ptr<const StageStrategy> cpu_transform(const ComputePlan& plan,
                                                   const StagePlan& stage) {
  if (plan.target.is_gpu() || plan.algorithm.empty() || stage.reduces) return nullptr;
  if (plan.stage(stage).axes.empty()) return nullptr;
  return std::make_unique<CpuTransformStage>(plan, stage);
}

}  // namespace tw::schedules
