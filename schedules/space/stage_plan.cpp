// SPDX-License-Identifier: Apache-2.0
#include "schedules/space/stage_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "dsl/selection.h"
#include "schedules/nest.h"
#include "schedules/prepared.h"
#include "schedules/program/affine.h"
#include "schedules/program/dot_products.h"
#include "schedules/schedule.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Compute;
using dsl::Stage;

namespace {

constexpr size_t most_vector_axes = 3;
// The largest distance, in elements, between the places of neighbouring lanes of a vector in the
// result. Elements that are not contiguous are stored one by one. Up to this distance the vectors
// of a tile together still fill cache lines.
constexpr int64_t most_result_stride = 4;
// Bounds on inlining a stage that is read more than once. The first is the number of nodes of the
// largest expression that may result. The second is the factor by which the number of computed
// values may grow. For scale: three rounds of z * z + c are some 250 nodes, and lowering takes some
// 200 ns for each node. A stage that is not inlined costs a store and loads.
constexpr int64_t largest_inlined_body = 256, most_inlined_work = 2;
// A stage that unpacks constants, such as f32(w[k, n]) * scale[n], is computed once for all rows of
// a product if two conditions hold: there are at least `least_sharing_rows` rows, and unpacking an
// element takes at least `least_unpacking_values` reads and operations.
constexpr int64_t least_unpacking_values = 4;
constexpr double least_sharing_rows = 16;
// The largest number of copies of stages that merging may make. Each merge copies all stages of the
// compute, at 0.3 us for each stage. Within this bound, chains of five thousand stages are merged
// completely.
constexpr size_t most_copied_stages = 15'000'000;

bool reduces(const Stage& stage) { return stage.combine != Combine::None; }

bool divides_integers(const dsl::Binary& b) {
  return (b.op == dsl::BinaryOp::Div || b.op == dsl::BinaryOp::Mod) && !is_float(b.b.type());
}

/// Counts the operations that take many times as long as others: functions, floating-point
/// divisions, powers, and integer divisions by anything but literals.
int64_t count_expensive(const Expr& body) {
  int64_t count = 0;
  dsl::for_each(body, [&](const Expr& e) {
    const dsl::Unary* u = e.as<dsl::Unary>();
    count +=
        u && u->op != dsl::UnaryOp::Neg && u->op != dsl::UnaryOp::Not && u->op != dsl::UnaryOp::Abs;
    const dsl::Binary* b = e.as<dsl::Binary>();
    if (!b) return;
    count += b->op == dsl::BinaryOp::Div && is_float(e.type());
    count += b->op == dsl::BinaryOp::Pow;
    count += divides_integers(*b) && !dsl::as_int(b->b);
  });
  return count;
}

/// The stages that read each tensor, found in one pass.
using Readers = std::map<std::string, std::vector<const Stage*>>;

Readers readers_of(const Compute& compute) {
  Readers readers;
  for (const Stage& stage : compute.stages)
    for_each_read(stage.body, [&](const dsl::Read& r) {
      std::vector<const Stage*>& known = readers[r.tensor];
      if (known.empty() || known.back() != &stage) known.push_back(&stage);
    });
  return readers;
}

bool reads_reduction(const Compute& compute, const Stage& stage) {
  bool found = false;
  for_each_read(stage.body, [&](const dsl::Read& r) {
    const Stage* producer = compute.find_stage(r.tensor);
    found |= producer && reduces(*producer);
  });
  return found;
}

/// True if a reader compares floats of the stage for equality. If such an element is computed
/// again, it may differ in its last bits from the element with which it is compared.
bool is_compared(const Stage& stage, const std::vector<const Stage*>& readers) {
  if (!is_float(stage.type)) return false;
  bool compared = false;
  for (const Stage* reader : readers)
    dsl::for_each(reader->body, [&](const Expr& e) {
      const dsl::Binary* b = e.as<dsl::Binary>();
      if (b && (b->op == dsl::BinaryOp::Eq || b->op == dsl::BinaryOp::Ne))
        for_each_read(e, [&](const dsl::Read& r) { compared |= r.tensor == stage.name; });
    });
  return compared;
}

/// Counts the values that are computed or read for one element of a stage: reads, and operations
/// outside of indices. Equal values count once, because compilers compute them once. `known` has
/// the hashes of the values counted before.
int64_t count_values(const Expr& expr, std::unordered_set<size_t>& known) {
  const auto counted = [&](const auto&... operands) {
    const bool is_new = known.insert(expr.hash()).second;
    return is_new ? 1 + (int64_t{0} + ... + count_values(operands, known)) : 0;
  };
  return dsl::visit(
      expr, [&](const dsl::Read&) { return counted(); },
      [&](const dsl::Unary& u) { return counted(u.a); },
      [&](const dsl::Cast& c) { return counted(c.a); },
      [&](const dsl::Binary& b) { return counted(b.a, b.b); },
      [&](const dsl::Select& s) { return counted(s.condition, s.a, s.b); },
      always<dsl::Const, dsl::Var>(int64_t{0}));
}

int64_t count_values(const Stage& stage) {
  std::unordered_set<size_t> known;
  return count_values(stage.body, known);
}

/// True if the stage reads only constant inputs, and these take less memory than the stage's
/// elements.
bool unpacks_constants(const Compute& compute, const Stage& stage) {
  std::map<std::string, double> bytes;
  bool reads_constants = true;
  for_each_read(stage.body, [&](const dsl::Read& read) {
    const dsl::Input* input = compute.find_input(read.tensor);
    reads_constants &= input && input->constant;
    bytes[read.tensor] = dsl::elements_of(compute.shape_of(read.tensor)) * size_bytes(read.type);
  });
  double packed = 0;
  for (const auto& [tensor, size] : bytes) packed += size;
  return reads_constants && !bytes.empty() &&
         packed < dsl::elements_of(stage.shape()) * size_bytes(stage.type);
}

/// True if a sum alone reads the stage, and reads it for so many rows that it should not unpack the
/// constants again for each row.
bool is_unpacked_for_rows(const Compute& compute, const Stage& stage,
                          const std::vector<const Stage*>& readers) {
  if (readers.size() != 1 || readers[0]->combine != Combine::Sum || reduces(stage)) return false;
  return dsl::evaluations_of(*readers[0]) >= least_sharing_rows * dsl::elements_of(stage.shape()) &&
         count_expensive(stage.body) == 0 && count_values(stage) >= least_unpacking_values &&
         unpacks_constants(compute, stage);
}

/// Returns the declared stages of the compute that unpack constants for many rows. They are
/// computed once in each call: they are neither inlined nor prepared, so that the constants stay
/// packed in memory. There are none on GPUs, where each block of threads unpacks an operand only
/// once, into shared memory.
std::set<std::string> unpacked_stages(const Compute& compute, const Compute& declared,
                                      const Target& target) {
  std::set<std::string> unpacked;
  if (target.is_gpu()) return unpacked;
  Readers readers = readers_of(compute);
  for (const Stage& stage : compute.stages)
    if (declared.find_stage(stage.name) &&
        is_unpacked_for_rows(compute, stage, readers[stage.name]))
      unpacked.insert(stage.name);
  return unpacked;
}

/// True if it is cheap to recompute the stage wherever it is read, and the results cannot differ
/// from those of a stored stage in a way that readers notice.
bool should_inline(const Compute& compute, const Stage& stage,
                   const std::vector<const Stage*>& readers) {
  if (reduces(stage) || compute.is_output(stage.name) || is_compared(stage, readers)) return false;
  const bool into_reduction =
      std::any_of(readers.begin(), readers.end(), [](const Stage* r) { return reduces(*r); });
  if ((into_reduction || readers.size() > 1) && count_expensive(stage.body) > 0) return false;
  return !(into_reduction && reads_reduction(compute, stage));
}

/// True if the epilogue's stage can be stored in place of the reduction's result. If their types
/// differ, the reduction needs an accumulator inside of a loop over one of its spatial axes. A
/// scatter cannot have such an accumulator, because it would be as large as the result.
bool can_store(const Stage& epilogue, const Stage& reduction) {
  return epilogue.type == reduction.type || (!reduction.axes.empty() && !dsl::scatters(reduction));
}

/// Counts the work of planning. Planning is over when its allowance of copied stages is used up,
/// which happens at the same stage on every machine, or when the token stops. If the token stops,
/// no plan is returned.
class Planning {
 public:
  explicit Planning(const StopToken& stop) : stop_(stop) {}
  /// Notes that the planning looks at one stage of a compute with `stages` stages, all of which may
  /// be copied for it.
  void looks_at_one_of(size_t stages) {
    copied_ += stages;
    if (!is_stopped_ && stop_.is_stopped()) is_stopped_ = true;
  }
  bool is_over() const { return is_stopped_ || copied_ > most_copied_stages; }

 private:
  const StopToken& stop_;
  size_t copied_ = 0;
  bool is_stopped_ = false;
};

/// Returns the next stage that can become the epilogue of a reduction: an elementwise consumer of
/// the reduction with the reduction's shape. nullopt if there is none, or if planning is over.
std::optional<Epilogue> next_epilogue(const Schedule& schedule, Planning& planning) {
  for (const StageNest& nest : schedule.nest().stages) {
    if (reduces(nest.stage)) continue;
    if (planning.is_over()) return std::nullopt;
    std::vector<std::string> producers;
    for_each_read(nest.stage.body, [&](const dsl::Read& r) { producers.push_back(r.tensor); });
    for (const std::string& producer : producers) {
      const StageNest* into = schedule.nest().find(producer);
      if (!into || !reduces(into->stage) || into->epilogue) continue;
      if (!can_store(nest.stage, into->stage)) continue;
      planning.looks_at_one_of(schedule.nest().stages.size());
      if (!schedule.epilogue(nest.stage.name, producer).error())
        return Epilogue{nest.stage.name, producer};
    }
  }
  return std::nullopt;
}

/// Sizes of a stage and its readers, before and after the stage is inlined into the readers.
struct Growth {
  int64_t reads = 0;         ///< reads of the stage
  int64_t largest_body = 0;  ///< nodes of the largest reader afterwards
  int64_t values_before = 0, values_after = 0;
  /// Numbers of expensive operations. Equal operations are counted separately, because compilers do
  /// not detect that calls of functions are equal.
  int64_t expensive_before = 0, expensive_after = 0;
};

Growth growth_of(const Schedule& before, const Schedule& after, const std::string& inlined) {
  const Compute &old = before.nest().compute, &now = after.nest().compute;
  Growth growth;
  growth.values_before = count_values(*old.find_stage(inlined));
  growth.expensive_before = count_expensive(old.find_stage(inlined)->body);
  for (const Stage* reader : old.consumers(inlined)) {
    for_each_read(reader->body, [&](const dsl::Read& r) { growth.reads += r.tensor == inlined; });
    const Stage& grown = *now.find_stage(reader->name);
    growth.values_before += count_values(*reader);
    growth.values_after += count_values(grown);
    growth.expensive_before += count_expensive(reader->body);
    growth.expensive_after += count_expensive(grown.body);
    growth.largest_body = std::max<int64_t>(growth.largest_body, grown.body.node().size);
  }
  return growth;
}

/// True if inlining repeats too much work. A stage that is read once costs the same wherever it is
/// computed. A stage that is read more often is computed once for each different read, and its
/// expression is repeated for each read. Along a chain of such stages the expressions grow
/// exponentially.
bool multiplies_work(const Growth& growth) {
  return growth.reads > 1 && (growth.largest_body > largest_inlined_body ||
                              growth.values_after > most_inlined_work * growth.values_before ||
                              growth.expensive_after > growth.expensive_before);
}

/// True if inlining the stage is legal and repeats little work. The step `inline` is tried on a
/// compute of this stage and its readers alone. Copying the whole nest for each stage would make
/// planning quadratic.
bool can_inline(const Compute& compute, const Stage& stage,
                const std::vector<const Stage*>& readers) {
  Compute part;
  part.stages.push_back(*compute.find_stage(stage.name));
  for (const Stage* reader : readers) part.stages.push_back(*compute.find_stage(reader->name));
  const Schedule before(std::move(part));
  const Schedule after = before.inlined(stage.name);
  return !after.error() && !multiplies_work(growth_of(before, after, stage.name));
}

/// Returns the schedule with the steps that inline stages and make epilogues. Stages that were not
/// looked at when planning is over stay as they are.
Schedule plan_prologue(Schedule schedule, const Compute& declared,
                       const std::set<std::string>& unpacked, Planning& planning) {
  const Compute compute = schedule.nest().compute;
  Readers readers = readers_of(compute);
  for (const Stage& stage : compute.stages) {
    // An algorithm decides itself which of its own stages are inlined.
    if (!declared.find_stage(stage.name) || unpacked.contains(stage.name)) continue;
    if (planning.is_over()) return schedule;
    planning.looks_at_one_of(schedule.nest().stages.size());
    // Inlining a stage adds readers only to stages before it, so this stage still has its declared
    // readers.
    const std::vector<const Stage*>& stage_readers = readers[stage.name];
    if (should_inline(compute, stage, stage_readers) &&
        can_inline(schedule.nest().compute, stage, stage_readers))
      schedule.add(Inline{stage.name});
  }
  while (const auto epilogue = next_epilogue(schedule, planning)) schedule.add(*epilogue);
  return schedule;
}

/// Returns the nested stages (StagePlan::nested). The map has, for the name of each nested stage,
/// the name of the stage in whose innermost loop it is computed. A nested stage chooses its
/// expression by an index, as the transforms of an algorithm do. Exactly one other stage reads it,
/// and that stage does not reduce.
std::map<std::string, std::string> nested_stages(const Nest& nests) {
  const Readers readers = readers_of(nests.compute);
  std::map<std::string, std::string> owners;
  for (size_t i = nests.stages.size(); i > 0; --i) {
    const StageNest& nest = nests.stages[i - 1];
    const std::string& name = nest.stage.name;
    if (nest.prepared || nest.epilogue || reduces(nest.stage) || nests.compute.is_output(name))
      continue;
    const auto found = readers.find(name);
    if (found == readers.end() || found->second.size() != 1 || reduces(*found->second[0])) continue;
    if (!nests.find(found->second[0]->name) || choosing_axes(nest.stage.body).empty()) continue;
    const auto owner = owners.find(found->second[0]->name);
    owners[name] = owner == owners.end() ? found->second[0]->name : owner->second;
  }
  return owners;
}

/// Returns, for each tensor, the indices of the planned stages that read it. Planned stages are
/// counted from the last stage of the compute, consumers first. A read by a nested stage counts as
/// a read by the stage in which it is nested.
std::map<std::string, std::vector<size_t>> reading_nests(
    const Nest& nests, const std::map<std::string, std::string>& nested) {
  std::map<std::string, std::vector<size_t>> readers;
  std::map<std::string, size_t> places;
  for (size_t i = nests.stages.size(); i > 0; --i) {
    const StageNest& nest = nests.stages[i - 1];
    if (nest.prepared) continue;
    const auto owner = nested.find(nest.stage.name);
    const size_t place = owner == nested.end() ? places.size() : places.at(owner->second);
    if (owner == nested.end()) places[nest.stage.name] = place;
    const auto note = [&](const dsl::Read& r) {
      std::vector<size_t>& known = readers[r.tensor];
      if (std::find(known.begin(), known.end(), place) == known.end()) known.push_back(place);
    };
    for_each_read(nest.stage.body, note);
    if (nest.epilogue) for_each_read(nest.epilogue->body, note);
  }
  return readers;
}

/// True if this stage may be computed inside of loops of its readers.
bool may_be_inside_readers(const Stage& stage) {
  // The reader of a scan rarely reads the whole scan at once. A scatter inside of its reader would
  // read all updates for each part of the result.
  return !stage.scan && !dsl::scatters(stage);
}

/// Returns the one stage in whose loops all readers are computed or may be computed; a reader with
/// its own phase is computed in its own loops. Empty if there is no such stage, or if there are no
/// readers. Requires: the readers are planned already.
std::string common_owner(const std::vector<const StagePlan*>& readers) {
  std::string owner;
  for (const StagePlan* reader : readers) {
    if (owner.empty()) owner = reader->placeable() ? reader->owner : reader->name;
    if (owner != reader->name && owner != reader->owner) return "";
  }
  return owner;
}

/// Use of an axis by the indices of one read.
struct AxisUse {
  int dimensions = 0;       ///< number of dimensions whose index depends on the axis
  bool contiguous = false;  ///< the axis has stride 1 in the contiguous dimension
  bool packable = false;    ///< the axis alone is the index of a dimension
};

/// Analyses how the indices of the read use the axis. `last` is the dimension that is contiguous in
/// memory.
AxisUse use_of(const dsl::Read& read, const std::string& axis, size_t last) {
  AxisUse use;
  for (size_t d = 0; d < read.indices.size(); ++d) {
    if (!dsl::uses_var(read.indices[d], axis)) continue;
    ++use.dimensions;
    // The iterations in which clamps take effect are peeled off.
    const Expr index = d == last ? unclamp(read.indices[d]).index : read.indices[d];
    const Affine affine = to_affine(index);
    Affine rest = affine;
    rest.add(dsl::var(axis), -affine.coefficient(dsl::var(axis)));
    const bool unit =
        affine.coefficient(dsl::var(axis)) == 1 && !dsl::uses_var(to_expr(rest), axis);
    use.contiguous |= unit && d == last;
    use.packable |= unit && rest.is_constant() && rest.constant == 0;
  }
  return use;
}

AxisUse use_of(const dsl::Read& read, const std::string& axis) {
  return use_of(read, axis, read.indices.size() - 1);
}

/// Returns the innermost part of the layout that has more than one element, or the last part if
/// there is none. The dimension of this part is contiguous in memory.
dsl::Layout::Part innermost_part(const dsl::Layout& layout, const std::vector<int64_t>& shape) {
  const std::vector<int64_t> extents = layout.storage_shape(shape);
  size_t last = extents.size() - 1;
  while (last > 0 && extents[last] == 1) --last;
  return layout.parts()[extents[last] == 1 ? extents.size() - 1 : last];
}

/// Decisions about tensors that are made before any stage is scheduled.
struct Fixed {
  const Compute& compute;
  std::vector<std::string> scratch;  ///< tensors that a stage writes and another reads: they are
                                     ///< not packed
  const std::map<std::string, dsl::Layout>& layouts;  ///< the layouts that the problem asks for

  /// Returns the layout that the problem asks for; nullptr if the layout is free.
  const dsl::Layout* layout_of(const std::string& tensor) const {
    const auto found = layouts.find(tensor);
    return found == layouts.end() ? nullptr : &found->second;
  }
  bool has(const std::string& tensor) const {
    return layout_of(tensor) || std::find(scratch.begin(), scratch.end(), tensor) != scratch.end();
  }
};

/// True if the tensor of the read has a layout that the problem asks for, and vectors of `width`
/// elements along the axis are contiguous in it.
bool is_contiguous(const dsl::Read& read, const std::string& axis, const Fixed& fixed,
                   int64_t width) {
  const dsl::Layout* layout = fixed.layout_of(read.tensor);
  if (!layout) return false;
  const dsl::Layout::Part last = innermost_part(*layout, fixed.compute.shape_of(read.tensor));
  const AxisUse use = use_of(read, axis, static_cast<size_t>(last.dim));
  if (use.dimensions != 1 || !use.contiguous) return false;
  return last.factor == 0 || (use.packable && last.factor % width == 0);
}

/// Returns the distance in memory, in elements of the stage's result, between neighbours along the
/// axis. nullopt if the result does not have the axis, or if a vector of `width` elements would
/// extend over several blocks of the layout.
std::optional<int64_t> result_stride(const Stage& stage, const std::string& axis,
                                     const dsl::Layout& layout, int64_t width) {
  const std::vector<int64_t> extents = layout.storage_shape(stage.shape());
  int64_t stride = 1;
  for (size_t p = extents.size(); p > 0; --p) {
    const dsl::Layout::Part part = layout.parts()[p - 1];
    const bool is_along = stage.axes[static_cast<size_t>(part.dim)].name == axis;
    if (is_along) return part.factor % width == 0 ? std::optional(stride) : std::nullopt;
    stride *= extents[p - 1];
  }
  return std::nullopt;
}

/// True if the lanes of a vector along the axis read different elements. For example, all lanes of
/// a vector of 8 along x have the same value of the index x / 16, because vectors begin at
/// multiples of their width, and the divisor 16 is a multiple of the width.
bool varies_in_vector(const dsl::Read& read, const std::string& axis, int64_t width) {
  const auto is_shared = [&](const Expr& e) {
    const dsl::Binary* b = e.as<dsl::Binary>();
    const dsl::Var* v = b && b->op == dsl::BinaryOp::Div ? b->a.as<dsl::Var>() : nullptr;
    const auto divisor = v ? dsl::as_int(b->b) : std::nullopt;
    return divisor && v->name == axis && *divisor % width == 0;
  };
  const auto varies = [&](const Expr& index) {
    return dsl::uses_var(dsl::transform(index,
                                        [&](const Expr& e) -> std::optional<Expr> {
                                          return is_shared(e) ? std::optional(Expr(0))
                                                              : std::nullopt;
                                        }),
                         axis);
  };
  return std::any_of(read.indices.begin(), read.indices.end(), varies);
}

/// Returns `axis` as a vector axis of a stage, or nullopt if it cannot be one. For each tensor that
/// the stage reads one of these must be true: all lanes of a vector read the same element, the
/// tensor is contiguous along the axis, or the tensor is packable. A tensor is packable if it is an
/// argument whose layout is not fixed, and the axis alone is the index of one dimension. In a
/// result with a fixed layout, neighbours along the axis must be at most `most_stride` elements
/// apart.
std::optional<VectorAxis> as_vector_axis(const StageNest& nest, const std::string& axis,
                                         int64_t lanes, const Fixed& fixed, int64_t most_stride) {
  const Stage& stage = nest.stage;
  const int64_t width = std::min(lanes, extent_of(stage, axis));
  if (const dsl::Layout* result = fixed.layout_of(nest.result())) {
    const auto stride = result_stride(stage, axis, *result, width);
    if (!stride || *stride > most_stride) return std::nullopt;
  }
  VectorAxis choice{axis, {}};
  bool possible = true;
  for_each_read(stage.body, [&](const dsl::Read& r) {
    const AxisUse use = use_of(r, axis);
    const dsl::Layout* layout = fixed.layout_of(r.tensor);
    if (!varies_in_vector(r, axis, width) || is_contiguous(r, axis, fixed, width)) return;
    if (!layout && use.dimensions == 1 && use.contiguous) return;
    const bool is_fixed = fixed.has(r.tensor);
    if (use.dimensions > 1 || !use.packable || is_fixed) possible = false;
    choice.packed.push_back(r.tensor);
  });
  if (!possible) return std::nullopt;
  return choice;
}

std::vector<VectorAxis> vector_axes(const StageNest& nest, const Target& target,
                                    const Fixed& fixed) {
  const Stage& stage = nest.stage;
  const int64_t lanes = vector_lanes(target, stage);
  const auto axes_within = [&](int64_t most_stride) {
    std::vector<VectorAxis> axes;
    for (size_t a = stage.axes.size(); a > 0; --a) {
      const Axis& axis = stage.axes[a - 1];
      if (axis.extent < 2) continue;
      if (const auto choice = as_vector_axis(nest, axis.name, lanes, fixed, most_stride))
        axes.push_back(*choice);
    }
    return axes;
  };
  // For example, if a depthwise convolution has two outputs for each channel, its outputs are
  // contiguous only along the axis of these two.
  std::vector<VectorAxis> axes = axes_within(1);
  const bool has_vectors = std::any_of(axes.begin(), axes.end(), [&](const VectorAxis& choice) {
    return extent_of(stage, choice.axis) >= lanes;
  });
  if (!has_vectors) axes = axes_within(most_result_stride);
  // Long axes first: short ones leave lanes idle.
  const auto merit = [&](const VectorAxis& choice) {
    return std::pair(std::min(extent_of(stage, choice.axis), lanes), choice.packed.size());
  };
  std::stable_sort(axes.begin(), axes.end(),
                   [&](const VectorAxis& x, const VectorAxis& y) { return merit(x) > merit(y); });
  if (axes.size() > most_vector_axes) axes.resize(most_vector_axes);
  return axes;
}

/// True if the stage has a long reduction along an axis that is contiguous in memory.
bool reduces_rows(const Stage& stage, const Target& target, const Fixed& fixed) {
  if (stage.reduction.empty() || stage.reduction.back().extent < 32) return false;
  const std::string& axis = stage.reduction.back().name;
  const int64_t width = target.is_gpu() ? 1 : vector_lanes(target, stage);
  bool found = false;
  for_each_read(stage.body, [&](const dsl::Read& r) {
    found |= fixed.layout_of(r.tensor) ? is_contiguous(r, axis, fixed, width)
                                       : use_of(r, axis).contiguous;
  });
  return found;
}

/// True if every element of the tensors that the stage reads is used only once in each reduction,
/// i.e. all spatial axes are in the indices of every read. Packing would then cost as much as the
/// reduction itself.
bool uses_elements_once(const Stage& stage) {
  bool alone = true;
  for_each_read(stage.body, [&](const dsl::Read& r) {
    for (const Axis& axis : stage.axes)
      alone &= axis.extent < 2 || use_of(r, axis.name).dimensions > 0;
  });
  return alone;
}

/// True if lanes that hold partial results are better than vectors along axes of the result. This
/// is the case if there are no vector axes, if vectors would need packing that costs as much as a
/// row sum, or if the vector axis has fewer than 4 elements and the last reduction axis at least
/// 16.
bool prefers_lanes(const Stage& stage, const std::vector<VectorAxis>& axes, bool reduces_rows) {
  if (axes.empty()) return true;
  if (!axes.front().packed.empty() && reduces_rows && uses_elements_once(stage)) return true;
  return extent_of(stage, axes.front().axis) < 4 && !stage.reduction.empty() &&
         stage.reduction.back().extent >= 16;
}

/// True if a tile can have dot products whose terms lie along the axis `terms`. This needs a dot
/// product instruction whose depth divides the extent of the axis. The axis alone must be an index
/// of the factor that all lanes share, and the other factor must be packed along a vector axis, on
/// which the lanes lie.
bool has_dot_tiles(const Nest& nests, const Stage& stage, const Axis& terms, const Target& target,
                   const std::vector<VectorAxis>& vector_axes) {
  const std::vector<StageDot> dots = dots_along(target, stage, terms.name);
  return std::any_of(dots.begin(), dots.end(), [&](const StageDot& dot) {
    if (!dot.is_shared_along || terms.extent % dot.instruction->depth != 0) return false;
    return std::any_of(vector_axes.begin(), vector_axes.end(), [&](const VectorAxis& vector) {
      return vector.axis == dot.lanes && is_packed_along(nests, vector, dot.own);
    });
  });
}

/// Chooses the reduction axis that is split into blocks. It is the longest of those axes along
/// which tiles can have dot products. If there are no such axes, it is the longest of all. No axis
/// is chosen if all are shorter than least_blocked_extent.
void choose_blocked_reduction(const Nest& nests, const Stage& stage, const Target& target,
                              StagePlan& plan) {
  std::pair<bool, int64_t> best;
  for (const Axis& axis : stage.reduction) {
    if (axis.extent < least_blocked_extent) continue;
    const std::pair rank(has_dot_tiles(nests, stage, axis, target, plan.vector_axes), axis.extent);
    if (!plan.main_reduction.empty() && rank <= best) continue;
    plan.main_reduction = axis.name;
    plan.has_dots = rank.first;
    best = rank;
  }
}

void plan_reduction(const Nest& nests, const StageNest& nest, const Target& target,
                    const Fixed& fixed, StagePlan& plan) {
  const Stage& stage = nest.stage;
  plan.vector_axes = vector_axes(nest, target, fixed);
  plan.reduces_rows = reduces_rows(stage, target, fixed);
  plan.prefers_lanes = prefers_lanes(stage, plan.vector_axes, plan.reduces_rows);
  if (!stage.reduction.empty()) plan.lane_axis = stage.reduction.back().name;
  choose_blocked_reduction(nests, stage, target, plan);
  for (const Axis& axis : stage.axes)
    if (axis.extent > 1) plan.tile_axes.push_back(axis.name);
  if (plan.tile_axes.size() > most_tile_axes)
    plan.tile_axes.erase(plan.tile_axes.begin(), plan.tile_axes.end() - most_tile_axes);
}

std::string contiguous_axis(const StageNest& nest, const Fixed& fixed) {
  const std::vector<Axis>& axes = nest.stage.axes;
  if (axes.empty()) return "";
  const dsl::Layout* layout = fixed.layout_of(nest.result());
  if (!layout) return axes.back().name;
  return axes[static_cast<size_t>(innermost_part(*layout, nest.stage.shape()).dim)].name;
}

ProductAxes product_axes(const Stage& stage, const std::string& contiguous) {
  const dsl::Binary* product = stage.body.as<dsl::Binary>();
  if (stage.combine != Combine::Sum || stage.scan || !product || product->op != dsl::BinaryOp::Mul)
    return {};
  ProductAxes axes;
  for (const Axis& axis : stage.axes) {
    const bool first = dsl::uses_var(product->a, axis.name);
    const bool second = dsl::uses_var(product->b, axis.name);
    (first == second ? axes.batch : first ? axes.rows : axes.columns).push_back(axis.name);
  }
  if (axes.rows.empty() || axes.columns.empty()) return {};
  // A block of the reduction must be a block of both operands.
  for (const Axis& axis : stage.reduction)
    if (!dsl::uses_var(product->a, axis.name) || !dsl::uses_var(product->b, axis.name)) return {};
  for (auto* side : {&axes.batch, &axes.rows, &axes.columns})
    *side = contiguous_last(std::move(*side), contiguous);
  return axes;
}

/// True if the axis is padded: the condition of a select depends on it.
bool is_padded(const Stage& stage, const std::string& axis) {
  bool guarded = false;
  dsl::for_each(stage.body, [&](const Expr& e) {
    const dsl::Select* s = e.as<dsl::Select>();
    guarded |= s && dsl::uses_var(s->condition, axis);
  });
  return guarded;
}

/// Returns the last run of adjacent tile axes that belong to the same operand. A padded axis ends a
/// run, because separate loops skip the padding, while a fused tile would test each element in the
/// innermost loop.
std::vector<std::string> fused_axes(const Stage& stage, const StagePlan& plan) {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::string> last;
  for (const auto* operand : {&plan.product.rows, &plan.product.columns}) {
    std::vector<std::string> run;
    for (const Axis& axis : stage.axes) {
      const bool fuses = has(*operand, axis.name) && has(plan.tile_axes, axis.name) &&
                         !is_padded(stage, axis.name);
      if (!fuses) run.clear();
      if (fuses) run.push_back(axis.name);
      if (run.size() > 1) last = run;
    }
  }
  return last;
}

/// Returns the tensors that stages write and other stages read, which have fixed layouts. On CPUs,
/// tensors of prepared stages are left out, because strategies choose their layouts, as they do for
/// constants.
std::vector<std::string> scratch_tensors(const Nest& nests, const Target& target) {
  std::vector<std::string> names;
  for (const StageNest& nest : nests.stages) {
    if (nest.prepared && !target.is_gpu()) continue;
    if (!nests.compute.is_output(nest.result())) names.push_back(nest.result());
  }
  return names;
}

/// Adds the step `prepare` for the stages that read only constants, except for those in `unpacked`.
/// Prepared stages take no time in calls, so no strategy schedules them, and no decision affects
/// them.
void prepare_constant_stages(const std::set<std::string>& unpacked, Schedule& prologue) {
  for (size_t i = 0; i < prologue.nest().stages.size(); ++i) {
    const StageNest& stage = prologue.nest().stages[i];
    if (unpacked.contains(stage.stage.name) || !can_be_prepared(prologue.nest(), stage)) continue;
    const std::string name = stage.stage.name;
    const std::vector<NestLoop> loops = stage.loops;
    prologue.add(Prepare{name});
    if (!loops.empty() && !loops[0].reduction) prologue.add(Parallel{name, loops[0].name});
  }
}

}  // namespace

std::map<std::string, int64_t> choosing_axes(const Expr& body) {
  std::map<std::string, int64_t> axes;
  dsl::for_each(body, [&](const Expr& e) {
    const dsl::Binary* equal = dsl::choosing_comparison(e);
    if (!equal) return;
    if (const dsl::Var* v = equal->a.as<dsl::Var>()) axes.emplace(v->name, 0);
    const dsl::Binary* mod = equal->a.as<dsl::Binary>();
    if (!mod || mod->op != dsl::BinaryOp::Mod) return;
    const dsl::Var* v = mod->a.as<dsl::Var>();
    if (const auto factor = dsl::as_int(mod->b); v && factor) axes.emplace(v->name, *factor);
  });
  return axes;
}

bool has_dot_tiles(const ComputePlan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const StagePlan& stage) { return stage.has_dots; });
}

bool is_packed_along(const Nest& nests, const VectorAxis& vector, const std::string& tensor) {
  const dsl::Input* input = nests.compute.find_input(tensor);
  return (input ? input->constant : is_kernel_argument(nests, tensor)) ||
         std::find(vector.packed.begin(), vector.packed.end(), tensor) != vector.packed.end();
}

const Stage& ComputePlan::stage(const StagePlan& plan) const {
  return *compute.find_stage(plan.name);
}

Result<ComputePlan> plan_stages(const Problem& problem, const Target& target, const StopToken& stop,
                                const Rewritten* rewritten) {
  const Compute& compute = problem.compute;
  Planning planning(stop);
  Schedule prologue = rewritten ? rewritten->schedule : Schedule(compute);
  const std::set<std::string> unpacked = unpacked_stages(prologue.nest().compute, compute, target);
  prologue = plan_prologue(std::move(prologue), compute, unpacked, planning);
  TW_RETURN_IF_ERROR(check_not_stopped(stop, "space"));
  std::map<std::string, dsl::Layout> layouts;
  for (const auto& [tensor, text] : problem.layouts) {
    TW_TRY(dsl::Layout layout, dsl::parse_layout(compute, tensor, text));
    if (!layout.is_row_major()) prologue.add(SetLayout{tensor, text});
    layouts.emplace(tensor, std::move(layout));
  }
  if (prologue.error()) return tl::unexpected(*prologue.error());
  prepare_constant_stages(unpacked, prologue);
  ComputePlan plan{{}, target, std::move(layouts), std::move(prologue), {}, problem.state};
  if (rewritten) {
    plan.algorithm = rewritten->algorithm;
    plan.expected_error = rewritten->expected_error;
  }
  const Nest& nests = plan.prologue.nest();
  plan.compute = nests.compute;
  const Fixed fixed{plan.compute, scratch_tensors(nests, target), plan.layouts};
  const auto nested = rewritten ? nested_stages(nests) : std::map<std::string, std::string>();
  auto readers = reading_nests(nests, nested);
  for (size_t i = nests.stages.size(); i > 0; --i) {
    const StageNest& nest = nests.stages[i - 1];
    if (nest.prepared) continue;
    if (const auto owner = nested.find(nest.stage.name); owner != nested.end()) {
      const auto of =
          std::find_if(plan.stages.begin(), plan.stages.end(),
                       [&](const StagePlan& planned) { return planned.name == owner->second; });
      of->nested.push_back(nest.stage.name);
      continue;
    }
    StagePlan stage;
    stage.name = nest.stage.name;
    stage.contiguous = contiguous_axis(nest, fixed);
    if (!nests.compute.is_output(nest.result())) {
      std::vector<const StagePlan*> planned;
      for (const size_t reader : readers[nest.result()]) planned.push_back(&plan.stages[reader]);
      for (const StagePlan* reader : planned) stage.readers.push_back(reader->name);
      if (may_be_inside_readers(nest.stage)) stage.owner = common_owner(planned);
    }
    stage.reduces = reduces(nest.stage);
    stage.scans = nest.stage.scan.has_value();
    if (stage.reduces && !stage.scans) plan_reduction(nests, nest, target, fixed, stage);
    stage.selection = dsl::selection_of(nest.stage);
    stage.product = product_axes(nest.stage, stage.contiguous);
    stage.fused_axes = fused_axes(nest.stage, stage);
    plan.stages.push_back(std::move(stage));
  }
  return plan;
}

size_t contiguous_dimension(const ComputePlan& plan, const dsl::Read& read) {
  const auto layout = plan.layouts.find(read.tensor);
  if (layout == plan.layouts.end()) return read.indices.size() - 1;
  return static_cast<size_t>(
      innermost_part(layout->second, plan.compute.shape_of(read.tensor)).dim);
}

std::vector<std::string> contiguous_last(std::vector<std::string> axes,
                                         const std::string& contiguous) {
  std::stable_partition(axes.begin(), axes.end(),
                        [&](const std::string& axis) { return axis != contiguous; });
  return axes;
}

int64_t vector_lanes(const Target& target, const Stage& stage) {
  return std::max(1, target.machine.core.vector_bytes / std::max(size_bytes(stage.type), 1));
}

int64_t extent_of(const Stage& stage, const std::string& axis) {
  for (const auto* axes : {&stage.axes, &stage.reduction})
    for (const Axis& a : *axes)
      if (a.name == axis) return a.extent;
  TW_CHECK(false, "an axis of the stage");
}

}  // namespace tw::schedules
