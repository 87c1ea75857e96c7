// SPDX-License-Identifier: Apache-2.0
#include "schedules/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/integer.h"
#include "base/text.h"
#include "schedules/affine.h"
#include "schedules/nest.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Compute;
using dsl::Stage;

namespace {

// Unrolled multiply-accumulates beyond which LLVM starts to spill: measured on Zen 4, tiles of up
// to 28 accumulators times their unrolling stay free of spills below about 400.
constexpr int64_t most_unrolled = 448;

/// How a stage takes part in the schedule.
enum class Role {
  Inlined,
  Epilogue,  ///< written where its producer is
  Tiled,     ///< a reduction with a vector axis
  Lanes,     ///< a reduction along the contiguous axis: rfactor first
  Elementwise,
};

/// One choice of a vector axis: what it asks of each tensor.
struct VectorAxis {
  std::string axis;
  std::vector<std::string> packed;  ///< tensors that must be packed so that the axis is contiguous
};

struct StagePlan {
  std::string name;
  Role role = Role::Elementwise;
  std::string into;                     ///< of an epilogue
  bool placeable = false;               ///< may be computed inside its consumer
  std::string owner;                    ///< the stage in whose loops it would be computed
  std::vector<VectorAxis> vector_axes;  ///< Tiled
  std::vector<std::string> tile_axes;   ///< Tiled: spatial axes that may join the register tile
  std::string main_reduction;  ///< Tiled: the longest reduction axis, blocked; may be empty
  std::string lane_axis;       ///< Lanes
};

int64_t extent_of(const Stage& stage, const std::string& axis) {
  for (const auto* axes : {&stage.axes, &stage.reduction})
    for (const Axis& a : *axes)
      if (a.name == axis) return a.extent;
  TW_CHECK(false, "an axis of the stage");
}

void for_each_read(const Expr& body, const std::function<void(const dsl::Read&)>& visit) {
  dsl::for_each(body, [&](const Expr& e) {
    if (const dsl::Read* r = e.as<dsl::Read>()) visit(*r);
  });
}

bool is_expensive(const Expr& body) {
  bool found = false;
  dsl::for_each(body, [&](const Expr& e) {
    const dsl::Unary* u = e.as<dsl::Unary>();
    found |=
        u && u->op != dsl::UnaryOp::Neg && u->op != dsl::UnaryOp::Not && u->op != dsl::UnaryOp::Abs;
    const dsl::Binary* b = e.as<dsl::Binary>();
    found |= b && b->op == dsl::BinaryOp::Div && is_float(e.type());
  });
  return found;
}

/// Whether `axis` can be the vector axis of `stage`: each tensor either ignores it, is contiguous
/// in it, or is an argument (or scratch) that uses it alone in one dimension and so can be packed.
std::optional<VectorAxis> as_vector_axis(const Stage& stage, const std::string& axis,
                                         const std::vector<std::string>& fixed) {
  VectorAxis choice{axis, {}};
  bool possible = true;
  for_each_read(stage.body, [&](const dsl::Read& r) {
    int uses = 0;
    bool contiguous = false, packable = false;
    for (size_t d = 0; d < r.indices.size(); ++d) {
      if (!dsl::uses_var(r.indices[d], axis)) continue;
      ++uses;
      const Affine affine = to_affine(r.indices[d]);
      Affine rest = affine;
      rest.add(dsl::var(axis), -affine.coefficient(dsl::var(axis)));
      const bool unit =
          affine.coefficient(dsl::var(axis)) == 1 && !dsl::uses_var(to_expr(rest), axis);
      contiguous |= unit && d + 1 == r.indices.size();
      packable |= unit && rest.is_constant() && rest.constant == 0;
    }
    if (uses == 0 || (uses == 1 && contiguous)) return;
    const bool is_fixed = std::find(fixed.begin(), fixed.end(), r.tensor) != fixed.end();
    if (uses > 1 || !packable || is_fixed) possible = false;
    choice.packed.push_back(r.tensor);
  });
  if (!possible) return std::nullopt;
  return choice;
}

/// Sizes for a register tile along an axis: those that waste at most a tenth of the work.
std::vector<int64_t> tile_sizes(int64_t extent, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t t = 1; t <= std::min(extent, most); ++t) {
    const double efficiency =
        static_cast<double>(extent) / static_cast<double>(round_up(extent, t));
    if (efficiency >= 0.9 || t == 1) sizes.push_back(t);
  }
  return sizes;
}

/// Powers of two up to the extent, divisors near them preferred, and the extent itself.
std::vector<int64_t> block_sizes(int64_t extent, int64_t least, int64_t most) {
  std::vector<int64_t> sizes;
  for (int64_t b = least; b <= std::min(extent, most); ++b)
    if (extent % b == 0 && (b % 4 == 0 || b == extent || extent < 16)) sizes.push_back(b);
  if (sizes.empty())
    for (int64_t b = least; b <= std::min(extent, most); b *= 2) sizes.push_back(b);
  if (extent <= most && (sizes.empty() || sizes.back() != extent)) sizes.push_back(extent);
  return sizes;
}

}  // namespace

struct Space::State {
  Compute compute;  // with inlined stages gone: what the analysis saw
  Compute original;
  Target target;
  int threads = 1;
  std::vector<Step> prologue;    // inlines and epilogues, the same for every point
  std::vector<StagePlan> plans;  // consumers first
  std::vector<Knob> knobs;
  std::map<std::string, size_t> index;

  void add_knob(const std::string& name, std::vector<int64_t> values) {
    index[name] = knobs.size();
    knobs.push_back({name, std::move(values)});
  }
  int64_t value(const Point& point, const std::string& name, int64_t otherwise = 0) const {
    const auto found = index.find(name);
    if (found == index.end()) return otherwise;
    return knobs[found->second].values[static_cast<size_t>(point[found->second])];
  }
  int64_t lanes(const Stage& stage) const {
    int bytes = size_bytes(stage.type);
    return std::max(1, target.vector_bytes / std::max(bytes, 1));
  }

  void analyse();
  void add_stage_knobs(const StagePlan& plan, const Stage& stage);
  bool allowed(const Point& point) const;
  Schedule build(const Point& point) const;
  Schedule tiled(Schedule s, const StagePlan& plan, const Point& point, bool is_root) const;
  Schedule lanes_of(Schedule s, const StagePlan& plan, const Point& point, bool is_root) const;
  Schedule elementwise(Schedule s, const StagePlan& plan, const Point& point, bool is_root) const;
  Schedule layouts(Schedule s, const StagePlan& plan, const Point& point, const VectorAxis& vector,
                   int64_t width) const;
  const VectorAxis& vector_axis(const StagePlan& plan, const Point& point) const {
    return plan.vector_axes[static_cast<size_t>(value(point, plan.name + ".vector"))];
  }
};

namespace {

/// Loops that steps named, split into the part outside of the tile and the part inside.
struct TileLoops {
  std::vector<std::string> outer, inner;
};

TileLoops split_axis(Schedule& s, const std::string& stage, const std::string& axis, int64_t extent,
                     int64_t factor) {
  if (factor <= 1) return {{axis}, {}};
  if (factor >= extent) return {{}, {axis}};
  s = s.split(stage, axis, factor);
  return {{axis + ".0"}, {axis + ".1"}};
}

void append(std::vector<std::string>& to, const std::vector<std::string>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

int64_t nest_extent(const Schedule& s, const std::string& stage, const std::string& loop) {
  if (s.error()) return 1;
  const StageNest* nest = s.nest().find(stage);
  const int i = nest ? nest->find_loop(loop) : -1;
  return i < 0 ? 1 : nest->loops[static_cast<size_t>(i)].extent;
}

/// Loops outside of the tile become tasks until there are enough for every thread to get several.
Schedule parallelize(Schedule s, const std::string& stage, const std::vector<std::string>& outer,
                     size_t depth) {
  for (size_t i = 0; i < std::min(depth, outer.size()); ++i) s = s.parallel(stage, outer[i]);
  return s;
}

}  // namespace

void Space::State::analyse() {
  Schedule s(original);
  // Inline what costs nothing to recompute; the rest keeps a nest.
  for (const Stage& stage : original.stages) {
    if (stage.combine != Combine::None || original.is_output(stage.name)) continue;
    const auto readers = original.consumers(stage.name);
    const bool into_reduction = std::any_of(
        readers.begin(), readers.end(), [](const Stage* r) { return r->combine != Combine::None; });
    if (is_expensive(stage.body) && (into_reduction || readers.size() > 1)) continue;
    bool reads_reduction = false;
    for_each_read(stage.body, [&](const dsl::Read& r) {
      const Stage* producer = original.find_stage(r.tensor);
      reads_reduction |= producer && producer->combine != Combine::None;
    });
    if (reads_reduction && into_reduction) continue;
    prologue.push_back(Inline{stage.name});
    s = s.then(prologue.back());
  }
  TW_CHECK(!s.error());
  // Elementwise consumers of a reduction with its shape are written where the reduction is.
  bool changed = true;
  while (changed) {
    changed = false;
    for (const StageNest& nest : s.nest().stages) {
      if (nest.stage.combine != Combine::None) continue;
      std::vector<std::string> producers;
      for_each_read(nest.stage.body, [&](const dsl::Read& r) { producers.push_back(r.tensor); });
      for (const std::string& producer : producers) {
        const StageNest* into = s.nest().find(producer);
        if (!into || into->stage.combine == Combine::None || into->epilogue) continue;
        const Schedule merged = s.epilogue(nest.stage.name, producer);
        if (merged.error()) continue;
        prologue.push_back(Epilogue{nest.stage.name, producer});
        s = merged;
        changed = true;
        break;
      }
      if (changed) break;
    }
  }
  compute = s.nest().compute;
  const std::vector<StageNest>& nests = s.nest().stages;
  for (size_t i = nests.size(); i > 0; --i) {
    const StageNest& nest = nests[i - 1];
    const Stage& stage = nest.stage;
    StagePlan plan;
    plan.name = stage.name;
    // Every stage that is not an output may be computed in a loop of the last stage that needs it.
    if (!compute.is_output(nest.result())) {
      for (const StagePlan& later : plans) {
        const StageNest* reader = s.nest().find(later.name);
        bool reads = false;
        for_each_read(reader->stage.body,
                      [&](const dsl::Read& r) { reads |= r.tensor == nest.result(); });
        if (reader->epilogue)
          for_each_read(reader->epilogue->body,
                        [&](const dsl::Read& r) { reads |= r.tensor == nest.result(); });
        if (!reads) continue;
        plan.placeable =
            plan.owner.empty() || plan.owner == later.name || plan.owner == later.owner;
        if (plan.owner.empty()) plan.owner = later.owner.empty() ? later.name : later.owner;
      }
    }
    std::vector<std::string> fixed;
    for (const StageNest& other : nests)
      if (!compute.is_output(other.result())) fixed.push_back(other.result());
    if (stage.combine != Combine::None) {
      for (size_t a = stage.axes.size(); a > 0; --a) {
        const Axis& axis = stage.axes[a - 1];
        if (axis.extent < 2) continue;
        if (const auto choice = as_vector_axis(stage, axis.name, fixed))
          plan.vector_axes.push_back(*choice);
      }
      // Long axes first: short ones leave lanes idle.
      std::stable_sort(
          plan.vector_axes.begin(), plan.vector_axes.end(), [&](const auto& x, const auto& y) {
            const int64_t ex = std::min<int64_t>(extent_of(stage, x.axis), lanes(stage));
            const int64_t ey = std::min<int64_t>(extent_of(stage, y.axis), lanes(stage));
            return std::pair(ex, x.packed.size()) > std::pair(ey, y.packed.size());
          });
      if (plan.vector_axes.size() > 3) plan.vector_axes.resize(3);
      plan.role = plan.vector_axes.empty() ? Role::Lanes : Role::Tiled;
      const auto longest =
          std::max_element(stage.reduction.begin(), stage.reduction.end(),
                           [](const Axis& x, const Axis& y) { return x.extent < y.extent; });
      if (longest != stage.reduction.end()) {
        plan.lane_axis = stage.reduction.back().name;
        if (longest->extent >= 4) plan.main_reduction = longest->name;
      }
      // A short, wide result with a long contiguous reduction (a row sum) is better split into
      // lanes.
      if (plan.role == Role::Tiled && !stage.axes.empty()) {
        const VectorAxis& best = plan.vector_axes.front();
        if (extent_of(stage, best.axis) < 4 && stage.reduction.back().extent >= 16)
          plan.role = Role::Lanes;
      }
      for (const Axis& axis : stage.axes)
        if (axis.extent > 1) plan.tile_axes.push_back(axis.name);
      if (plan.tile_axes.size() > 4)
        plan.tile_axes.erase(plan.tile_axes.begin(), plan.tile_axes.end() - 4);
    }
    plans.push_back(plan);
    add_stage_knobs(plan, stage);
  }
}

void Space::State::add_stage_knobs(const StagePlan& plan, const Stage& stage) {
  const std::string p = plan.name + ".";
  if (plan.placeable)
    add_knob(p + "place", {0, 1});  // 0: a phase of its own, 1: in its owner's loop
  if (plan.role == Role::Tiled) {
    std::vector<int64_t> choices;
    for (size_t i = 0; i < plan.vector_axes.size(); ++i) choices.push_back(static_cast<int64_t>(i));
    add_knob(p + "vector", choices);
    add_knob(p + "vectors", {1, 2, 3, 4, 6, 8});
    for (const std::string& axis : plan.tile_axes)
      add_knob(p + "tile." + axis, tile_sizes(extent_of(stage, axis), 28));
    if (!plan.main_reduction.empty()) {
      const int64_t extent = extent_of(stage, plan.main_reduction);
      add_knob(p + "block", block_sizes(extent, std::min<int64_t>(4, extent), 512));
      add_knob(p + "unroll", {1, 2, 4, 8});
      add_knob(p + "kblock", {0, 2, 4, 8, 16});
    }
    if (stage.reduction.size() > 1) {
      add_knob(p + "taps", {0, 1, 2});  // unrolled window axes: none, the innermost, all
      add_knob(p + "reduction_order", {0, 1, 2});
    }
    add_knob(p + "outer_order", {0, 1, 2});
    add_knob(p + "tasks", {1, 2, 3, 4});
    add_knob(p + "layout.in", {0, 1, 2});  // as declared, blocked, innermost
    add_knob(p + "layout.out", {0, 1, 2});
    return;
  }
  if (plan.role == Role::Lanes) {
    add_knob(p + "lanes", {1, 2, 4});  // vectors of partial results
    add_knob(p + "tile", tile_sizes(stage.axes.empty() ? 1 : stage.axes.back().extent, 16));
    add_knob(p + "tasks", {1, 2, 3});
    return;
  }
  const int64_t rows = stage.axes.size() > 1 ? stage.axes[stage.axes.size() - 2].extent : 1;
  std::vector<int64_t> tiles;
  for (const int64_t t : {1, 2, 4, 8, 16, 32, 64})
    if (t <= rows) tiles.push_back(t);
  add_knob(p + "tile", tiles);
  add_knob(p + "vectors", {1, 2, 4});
  add_knob(p + "columns", {0, 64, 128, 256, 512});
  add_knob(p + "tasks", {1, 2, 3});
}

bool Space::State::allowed(const Point& point) const {
  for (const StagePlan& plan : plans) {
    if (plan.role != Role::Tiled) continue;
    const std::string p = plan.name + ".";
    const Stage& stage = *compute.find_stage(plan.name);
    const VectorAxis& vector = vector_axis(plan, point);
    const int64_t extent = extent_of(stage, vector.axis), width = lanes(stage);
    const int64_t vectors = value(point, p + "vectors");
    if (vectors > 1 && (vectors - 1) * width >= extent) return false;
    int64_t accumulators = vectors;
    for (const std::string& axis : plan.tile_axes)
      if (axis != vector.axis) accumulators *= value(point, p + "tile." + axis, 1);
    if (accumulators > target.vector_registers - 2) return false;
    int64_t taps = 1;
    const int64_t unrolled_taps = value(point, p + "taps");
    for (size_t i = stage.reduction.size(); i > 0 && unrolled_taps > 0; --i) {
      const Axis& axis = stage.reduction[i - 1];
      if (axis.name == plan.main_reduction) continue;
      taps *= axis.extent;
      if (unrolled_taps == 1) break;
    }
    const int64_t block = value(point, p + "block", 1), unroll = value(point, p + "unroll", 1);
    if (unroll > block) return false;
    if (accumulators * taps * unroll > most_unrolled) return false;
    const int64_t kblock = value(point, p + "kblock");
    if (kblock > 0 && kblock * block >= extent_of(stage, plan.main_reduction)) return false;
  }
  return true;
}

// Layouts follow the loops: the vector axis innermost, the blocked reduction axis around it, the
// other dimensions outside in the order of the loops.
Schedule Space::State::layouts(Schedule s, const StagePlan& plan, const Point& point,
                               const VectorAxis& vector, int64_t width) const {
  const std::string p = plan.name + ".";
  const Stage& stage = *compute.find_stage(plan.name);
  const int64_t vectors = value(point, p + "vectors"), block = value(point, p + "block", 1);
  const int64_t order = value(point, p + "reduction_order");
  std::map<std::string, bool> done;

  const auto upper = [](char c) { return static_cast<char>(std::toupper(c)); };
  const auto spell = [&](const std::string& tensor, const std::vector<std::string>& axis_of_dim,
                         bool packed, int64_t choice, int64_t vector_block) {
    const std::string letters = compute.letters_of(tensor);
    const auto shape = compute.shape_of(tensor);
    std::string outer, reduced_inner, vector_inner;
    // Weights are read once a tile in loop order: reduction windows may be inside or outside the
    // blocks.
    const bool windows_inside = packed && order == 2;
    std::string windows;
    for (size_t d = 0; d < letters.size(); ++d) {
      const char letter = letters[d];
      const std::string& axis = axis_of_dim[d];
      const std::string lower(1, static_cast<char>(std::tolower(letter)));
      if (axis == vector.axis && (packed || choice > 0)) {
        if (choice == 2 && !packed) {
          vector_inner = std::string(1, letter);
          continue;
        }
        const int64_t factor = std::min(vector_block, round_up(shape[d], 1));
        if (factor > 1 && factor < shape[d]) {
          outer += letter;
          vector_inner = std::to_string(factor) + lower;
        } else {
          vector_inner = std::string(1, letter);
        }
        continue;
      }
      if (!plan.main_reduction.empty() && axis == plan.main_reduction && (packed || choice > 0)) {
        if (choice == 2 && !packed) {
          reduced_inner = std::string(1, letter);
        } else if (block > 1 && block < shape[d]) {
          outer += letter;
          reduced_inner = std::to_string(block) + lower;
        } else {
          reduced_inner = std::string(1, letter);
        }
        continue;
      }
      const bool is_window = std::any_of(stage.reduction.begin(), stage.reduction.end(),
                                         [&](const Axis& a) { return a.name == axis; });
      (windows_inside && is_window ? windows : outer) += upper(letter);
    }
    return outer + reduced_inner + windows + vector_inner;
  };

  const auto dims_of = [&](const std::vector<Expr>& indices) {
    std::vector<std::string> axes;
    for (const Expr& index : indices) {
      const dsl::Var* v = index.as<dsl::Var>();
      axes.push_back(v ? v->name : "");
    }
    return axes;
  };
  const auto set = [&](const std::string& tensor, const std::vector<std::string>& dims, bool packed,
                       int64_t choice, int64_t vector_block) {
    if (done[tensor]) return;
    done[tensor] = true;
    const std::string text = spell(tensor, dims, packed, choice, vector_block);
    if (text != compute.letters_of(tensor)) s = s.set_layout(tensor, text);
  };

  for_each_read(stage.body, [&](const dsl::Read& r) {
    const dsl::Input* input = compute.find_input(r.tensor);
    if (!input) return;
    const auto dims = dims_of(r.indices);
    const bool uses_vector = std::any_of(r.indices.begin(), r.indices.end(), [&](const Expr& e) {
      return dsl::uses_var(e, vector.axis);
    });
    const bool must_pack =
        std::find(vector.packed.begin(), vector.packed.end(), r.tensor) != vector.packed.end();
    if (uses_vector && (must_pack || input->constant)) {
      const bool named = std::find(dims.begin(), dims.end(), vector.axis) != dims.end();
      if (!named) return;
      // Weights come a whole tile at a time; other packed operands a vector at a time.
      set(r.tensor, dims, true, 1, input->constant ? vectors * width : width);
    } else if (!uses_vector && !input->constant) {
      set(r.tensor, dims, false, value(point, p + "layout.in"), width);
    }
  });
  const auto set_result = [&](const std::string& tensor) {
    std::vector<std::string> dims;
    for (const Axis& axis : stage.axes) dims.push_back(axis.name);
    const bool is_last = stage.axes.back().name == vector.axis;
    const int64_t choice = value(point, p + "layout.out");
    set(tensor, dims, false, choice == 0 && !is_last ? 1 : choice, width);
  };
  const StageNest* nest = s.error() ? nullptr : s.nest().find(plan.name);
  if (!nest) return s;
  if (compute.is_output(nest->result())) set_result(nest->result());
  if (nest->epilogue)
    for_each_read(nest->epilogue->body, [&](const dsl::Read& r) {
      if (r.tensor == plan.name || !compute.find_input(r.tensor)) return;
      if (compute.shape_of(r.tensor) == stage.shape()) set_result(r.tensor);
    });
  return s;
}

Schedule Space::State::tiled(Schedule s, const StagePlan& plan, const Point& point,
                             bool is_root) const {
  const std::string& stage_name = plan.name;
  const std::string p = stage_name + ".";
  const Stage& stage = *compute.find_stage(stage_name);
  const VectorAxis& vector = vector_axis(plan, point);
  const int64_t extent = nest_extent(s, stage_name, vector.axis);
  const int64_t width = std::min(lanes(stage), extent);
  const int64_t vectors = std::min(value(point, p + "vectors"), ceil_div(extent, width));
  if (is_root) s = layouts(std::move(s), plan, point, vector, width);

  // The vector axis: tiles of `vectors` vectors.
  std::vector<std::string> vector_outer, vector_inner;
  std::string lane = vector.axis;
  if (vectors * width < extent) {
    s = s.split(stage_name, lane, vectors * width);
    vector_outer = {lane + ".0"};
    lane += ".1";
  }
  if (vectors > 1) {
    s = s.split(stage_name, lane, width);
    vector_inner = {lane + ".0"};
    lane += ".1";
  }
  // The other axes of the tile.
  std::vector<std::string> outer, inner;
  for (const Axis& axis : stage.axes) {
    if (axis.name == vector.axis) continue;
    const bool tiles =
        std::find(plan.tile_axes.begin(), plan.tile_axes.end(), axis.name) != plan.tile_axes.end();
    const int64_t factor = tiles ? value(point, p + "tile." + axis.name, 1) : 1;
    const TileLoops loops =
        split_axis(s, stage_name, axis.name, nest_extent(s, stage_name, axis.name), factor);
    append(outer, loops.outer);
    append(inner, loops.inner);
  }
  // Where the loop over tiles of the vector axis stands among the outer loops.
  const int64_t outer_order = value(point, p + "outer_order");
  const size_t place = outer_order == 0
                           ? std::min<size_t>(outer.size(), stage.axes.size() > 3 ? 1 : 0)
                       : outer_order == 1 ? outer.size()
                                          : outer.size() - std::min<size_t>(outer.size(), 1);
  outer.insert(outer.begin() + static_cast<ptrdiff_t>(place), vector_outer.begin(),
               vector_outer.end());

  // The reduction: blocks outside, windows, and the inside of a block.
  std::vector<std::string> windows, blocks, inside, unrolled, k_outer;
  for (const Axis& axis : stage.reduction)
    if (axis.name != plan.main_reduction) windows.push_back(axis.name);
  if (!plan.main_reduction.empty()) {
    const std::string& k = plan.main_reduction;
    const int64_t length = extent_of(stage, k);
    const int64_t block = value(point, p + "block"), unroll = value(point, p + "unroll");
    std::string rest = k;
    if (block < length) {
      s = s.split(stage_name, k, block);
      blocks = {k + ".0"};
      rest = k + ".1";
      const int64_t kblock = value(point, p + "kblock");
      if (kblock > 0 && kblock * block < length) {
        s = s.split(stage_name, k + ".0", kblock);
        k_outer = {k + ".0.0"};
        blocks = {k + ".0.1"};
      }
    }
    if (unroll > 1 && unroll < std::min(block, length)) {
      s = s.split(stage_name, rest, unroll);
      inside = {rest + ".0"};
      unrolled = {rest + ".1"};
    } else if (unroll > 1) {
      unrolled = {rest};
    } else {
      inside = {rest};
    }
  }
  const int64_t taps = value(point, p + "taps");
  std::vector<std::string> reduction;
  switch (value(point, p + "reduction_order")) {
    case 0:
      append(reduction, blocks), append(reduction, windows), append(reduction, inside);
      break;
    case 1:
      append(reduction, windows), append(reduction, blocks), append(reduction, inside);
      break;
    default:
      append(reduction, blocks), append(reduction, inside), append(reduction, windows);
      break;
  }
  append(reduction, unrolled);

  const size_t depth =
      is_root ? std::min<size_t>(static_cast<size_t>(value(point, p + "tasks")), outer.size()) : 0;
  // A block of the reduction goes around the loops that its data is to be reused in.
  std::vector<std::string> order(outer.begin(), outer.begin() + static_cast<ptrdiff_t>(depth));
  append(order, k_outer);
  order.insert(order.end(), outer.begin() + static_cast<ptrdiff_t>(depth), outer.end());
  const std::string around = order.empty() ? "" : order.back();
  append(order, reduction);
  append(order, inner);
  append(order, vector_inner);
  order.push_back(lane);
  s = s.reorder(stage_name, order);
  if (!around.empty()) s = s.cache_write(stage_name, around);
  s = s.vectorize(stage_name, lane);
  for (const auto* loops : {&inner, &vector_inner, &unrolled})
    for (const std::string& loop : *loops) s = s.unroll(stage_name, loop);
  for (size_t i = 0; i < windows.size() && taps > 0; ++i)
    if (taps == 2 || i + 1 == windows.size()) s = s.unroll(stage_name, windows[i]);
  return parallelize(std::move(s), stage_name, outer, depth);
}

Schedule Space::State::lanes_of(Schedule s, const StagePlan& plan, const Point& point,
                                bool is_root) const {
  const std::string& name = plan.name;
  const Stage& stage = *compute.find_stage(name);
  const int64_t width = lanes(stage), length = extent_of(stage, plan.lane_axis);
  const int64_t vectors = value(point, name + ".lanes");
  const int64_t factor = std::min(vectors * width, length);
  const bool splits = length > width;
  std::string owner = name, loop;
  const StageNest* nest = s.error() ? nullptr : s.nest().find(name);
  if (!nest) return s;
  std::vector<std::string> outer;
  const std::optional<StageNest::Placement> at = nest->at;
  for (const Axis& axis : stage.axes) outer.push_back(axis.name);
  if (!splits) return is_root ? parallelize(std::move(s), name, outer, outer.size()) : s;
  if (at || outer.empty()) return s;  // placed before it could be split: left as it is
  s = s.rfactor(name, plan.lane_axis, factor);
  s = s.compute_at(name + ".rf", name, outer.back());
  const std::string lane = plan.lane_axis + "_rf";
  const std::string rf = name + ".rf";
  std::vector<std::string> order;
  for (const Axis& axis : stage.axes) order.push_back(axis.name);
  std::string vector_loop = lane;
  std::vector<std::string> unrolled;
  if (factor > width) {
    s = s.split(rf, lane, width);
    unrolled = {lane + ".0"};
    vector_loop = lane + ".1";
  }
  const std::string around = order.back();
  for (const Axis& axis : stage.reduction) order.push_back(axis.name);
  append(order, unrolled);
  order.push_back(vector_loop);
  s = s.reorder(rf, order).cache_write(rf, around).vectorize(rf, vector_loop);
  for (const std::string& l : unrolled) s = s.unroll(rf, l);
  const size_t depth = static_cast<size_t>(value(point, name + ".tasks"));
  return is_root ? parallelize(std::move(s), name, outer, depth) : s;
}

Schedule Space::State::elementwise(Schedule s, const StagePlan& plan, const Point& point,
                                   bool is_root) const {
  const std::string& name = plan.name;
  const Stage& stage = *compute.find_stage(name);
  if (stage.axes.empty()) return s;
  const std::string last = stage.axes.back().name;
  const int64_t extent = nest_extent(s, name, last);
  const int64_t width = std::min(lanes(stage), extent), vectors = value(point, name + ".vectors");
  const int64_t columns = is_root ? value(point, name + ".columns") : 0;
  std::vector<std::string> outer, inner;
  for (size_t i = 0; i + 1 < stage.axes.size(); ++i) {
    const std::string& axis = stage.axes[i].name;
    const bool is_row = i + 2 == stage.axes.size();
    const int64_t tile = is_row && is_root ? value(point, name + ".tile") : 1;
    const TileLoops loops = split_axis(s, name, axis, nest_extent(s, name, axis), tile);
    append(outer, loops.outer);
    append(inner, loops.inner);
  }
  std::string lane = last;
  std::vector<std::string> rest, unrolled;
  if (columns > 0 && columns < extent) {
    s = s.split(name, lane, columns);
    outer.push_back(lane + ".0");
    lane += ".1";
  }
  const int64_t length = nest_extent(s, name, lane);
  if (vectors * width < length) {
    s = s.split(name, lane, vectors * width);
    rest = {lane + ".0"};
    lane += ".1";
    if (vectors > 1) {
      s = s.split(name, lane, width);
      unrolled = {lane + ".0"};
      lane += ".1";
    }
  } else if (length > 64) {
    s = s.split(name, lane, width);
    rest = {lane + ".0"};
    lane += ".1";
  }
  std::vector<std::string> order = outer;
  append(order, inner), append(order, rest), append(order, unrolled);
  order.push_back(lane);
  if (order.size() > 1) s = s.reorder(name, order);
  s = s.vectorize(name, lane);
  for (const std::string& l : unrolled) s = s.unroll(name, l);
  if (!is_root) return s;
  return parallelize(std::move(s), name, outer, static_cast<size_t>(value(point, name + ".tasks")));
}

Schedule Space::State::build(const Point& point) const {
  Schedule s(original);
  s = s.then(prologue);
  std::map<std::string, std::string> site;  // of each root stage: the loop that producers go to
  for (const StagePlan& plan : plans) {
    const bool placed = plan.placeable && value(point, plan.name + ".place") == 1 &&
                        site.contains(plan.owner) && !site[plan.owner].empty();
    if (placed) {
      const Schedule inside = s.compute_at(plan.name, plan.owner, site[plan.owner]);
      if (inside.error()) return inside;
      s = inside;
    }
    switch (plan.role) {
      case Role::Tiled:
        s = tiled(std::move(s), plan, point, !placed);
        break;
      case Role::Lanes:
        s = lanes_of(std::move(s), plan, point, !placed);
        break;
      default:
        s = elementwise(std::move(s), plan, point, !placed);
        break;
    }
    if (placed || s.error()) continue;
    const StageNest* nest = s.nest().find(plan.name);
    std::string& innermost_task = site[plan.name];
    for (const NestLoop& loop : nest->loops)
      if (loop.parallel) innermost_task = loop.name;
  }
  return s;
}

Space Space::derive(const Compute& compute, const Target& target, int threads) {
  auto state = std::make_shared<State>();
  state->original = compute;
  state->target = target;
  state->threads = threads;
  state->analyse();
  return Space(std::move(state));
}

const std::vector<Knob>& Space::knobs() const { return state_->knobs; }

double Space::size() const {
  double size = 1;
  for (const Knob& knob : state_->knobs) size *= static_cast<double>(knob.values.size());
  return size;
}

Point Space::default_point() const {
  // Of many samples, the one with the fullest register tile and the plainest rest.
  Random random(1);
  Point best(state_->knobs.size(), 0);
  double best_score = -1;
  for (int i = 0; i < 400; ++i) {
    const Point point = sample(random);
    double score = 0;
    for (const StagePlan& plan : state_->plans) {
      const std::string p = plan.name + ".";
      if (plan.role != Role::Tiled) continue;
      double tile = static_cast<double>(state_->value(point, p + "vectors"));
      const VectorAxis& vector = state_->vector_axis(plan, point);
      for (const std::string& axis : plan.tile_axes)
        if (axis != vector.axis)
          tile *= static_cast<double>(state_->value(point, p + "tile." + axis, 1));
      score +=
          std::min(tile, 28.0) - 10.0 * static_cast<double>(state_->value(point, p + "vector"));
      score -= static_cast<double>(state_->value(point, p + "unroll"));
      score -= 4.0 * static_cast<double>(state_->value(point, p + "kblock") > 0);
      score += 2.0 * static_cast<double>(state_->value(point, p + "tasks"));
      score += 4.0 * static_cast<double>(state_->value(point, p + "layout.in") == 1);
      score += 4.0 * static_cast<double>(state_->value(point, p + "layout.out") == 1);
      score -= 8.0 * static_cast<double>(state_->value(point, p + "outer_order"));
      score -= 4.0 * static_cast<double>(state_->value(point, p + "reduction_order"));
    }
    if (score <= best_score && best_score >= 0) continue;
    if (!schedule(point).program()) continue;
    best_score = std::max(score, 0.0);
    best = point;
  }
  return best;
}

Point Space::sample(Random& random) const {
  Point point(state_->knobs.size());
  for (int attempt = 0; attempt < 2000; ++attempt) {
    for (size_t i = 0; i < point.size(); ++i)
      point[i] =
          static_cast<int>(random.below(static_cast<int64_t>(state_->knobs[i].values.size())));
    if (state_->allowed(point)) return point;
  }
  std::fill(point.begin(), point.end(), 0);
  return point;
}

Point Space::mutate(const Point& point, Random& random) const {
  if (point.empty()) return point;
  for (int attempt = 0; attempt < 200; ++attempt) {
    Point next = point;
    const int changes = random.chance(0.5) ? 1 : 2;
    for (int c = 0; c < changes; ++c) {
      const size_t k = static_cast<size_t>(random.below(static_cast<int64_t>(point.size())));
      const int count = static_cast<int>(state_->knobs[k].values.size());
      if (random.chance(0.6)) {
        next[k] = std::clamp(next[k] + (random.chance(0.5) ? 1 : -1), 0, count - 1);
      } else {
        next[k] = static_cast<int>(random.below(count));
      }
    }
    if (next != point && state_->allowed(next)) return next;
  }
  return point;
}

Point Space::cross(const Point& a, const Point& b, Random& random) const {
  for (int attempt = 0; attempt < 50; ++attempt) {
    Point child = a;
    for (size_t i = 0; i < child.size(); ++i)
      if (random.chance(0.5)) child[i] = b[i];
    if (state_->allowed(child)) return child;
  }
  return a;
}

std::vector<Point> Space::neighbours(const Point& point) const {
  std::vector<Point> result;
  for (size_t k = 0; k < point.size(); ++k)
    for (int v = 0; v < static_cast<int>(state_->knobs[k].values.size()); ++v) {
      if (v == point[k]) continue;
      Point next = point;
      next[k] = v;
      if (state_->allowed(next)) result.push_back(std::move(next));
    }
  return result;
}

bool Space::allowed(const Point& point) const { return state_->allowed(point); }

Schedule Space::schedule(const Point& point) const { return state_->build(point); }

std::string Space::to_string(const Point& point) const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < point.size(); ++i)
    parts.push_back(fmt::format("{}={}", state_->knobs[i].name,
                                state_->knobs[i].values[static_cast<size_t>(point[i])]));
  return join(parts, " ");
}

std::optional<Point> Space::parse(std::string_view text) const {
  Point point(state_->knobs.size(), -1);
  for (const std::string& part : words(text)) {
    const size_t equals = part.rfind('=');
    if (equals == std::string::npos) return std::nullopt;
    const auto knob = state_->index.find(part.substr(0, equals));
    const auto number = parse_int(std::string_view(part).substr(equals + 1));
    if (knob == state_->index.end() || !number) return std::nullopt;
    const auto& values = state_->knobs[knob->second].values;
    const auto at = std::find(values.begin(), values.end(), *number);
    if (at == values.end()) return std::nullopt;
    point[knob->second] = static_cast<int>(at - values.begin());
  }
  if (std::find(point.begin(), point.end(), -1) != point.end()) return std::nullopt;
  return point;
}

}  // namespace tw::schedules
