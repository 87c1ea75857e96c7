// SPDX-License-Identifier: Apache-2.0
#include "graph/passes/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Axis;
using dsl::Binary;
using dsl::BinaryOp;
using dsl::Compute;
using dsl::Expr;
using dsl::Read;
using dsl::Stage;

// The average number of reads of an element from which on reads_repeatedly() is true. On a Zen 3,
// products of one thread gain by factors stored as f32 from 4 reads on; threads that share memory
// bandwidth need more.
constexpr double least_reads = 8;

bool is_along(const Read& read, const std::string& axis) {
  return std::ranges::any_of(read.indices,
                             [&](const Expr& index) { return dsl::uses_var(index, axis); });
}

/// True if an index of the read is the axis alone, so that a layout can make the elements along the
/// axis adjacent.
bool is_index(const Read& read, const std::string& axis) {
  return std::ranges::any_of(read.indices, [&](const Expr& index) {
    const dsl::Var* variable = index.as<dsl::Var>();
    return variable && variable->name == axis;
  });
}

/// True if the indices are literals and axes, and the axes are in increasing order.
bool is_broadcast(const Read& read, const std::vector<Axis>& axes) {
  size_t next = 0;
  for (const Expr& index : read.indices) {
    if (dsl::as_int(index)) continue;
    const auto axis = axis_number(axes, index);
    if (!axis || *axis < next) return false;
    next = *axis + 1;
  }
  return true;
}

/// Narrows the box to the part in which low <= axis + offset < high.
void narrow(Ranges& box, const Shifted& at, std::optional<int64_t> low,
            std::optional<int64_t> high) {
  Range& range = box.at(at.axis);
  if (low) range.low = std::max(range.low, *low - at.offset);
  if (high) range.high = std::min(range.high, *high - at.offset);
}

/// Narrows the box by a comparison; false if the comparison is not between an axis and a number.
bool narrow(Ranges& box, const Binary& comparison) {
  if (comparison.op != BinaryOp::Lt && comparison.op != BinaryOp::Le) return false;
  const int64_t equal = comparison.op == BinaryOp::Le ? 1 : 0;
  if (const auto bound = dsl::as_int(comparison.b)) {
    const auto at = as_shifted(comparison.a);
    if (!at || !box.contains(at->axis)) return false;
    narrow(box, *at, std::nullopt, *bound + equal);
    return true;
  }
  const auto bound = dsl::as_int(comparison.a);
  const auto at = as_shifted(comparison.b);
  if (!bound || !at || !box.contains(at->axis)) return false;
  narrow(box, *at, *bound + 1 - equal, std::nullopt);
  return true;
}

bool narrow_by(Ranges& box, const Expr& condition) {
  const Binary* b = condition.as<Binary>();
  if (!b) return dsl::is_int(condition, 1);
  if (b->op == BinaryOp::And) return narrow_by(box, b->a) && narrow_by(box, b->b);
  return narrow(box, *b);
}

/// Reads the pieces of a concatenation off its nested selects, from the first to the last.
class Pieces {
 public:
  explicit Pieces(const Operator& op) : op_(op), stage_(*only_stage(op)) {}

  std::optional<Concatenation> find() {
    if (!stage_.body.as<dsl::Select>() || !find_dimension()) return std::nullopt;
    const int64_t extent = stage_.axes[result_.dimension].extent;
    if (!collect(stage_.body, {0, extent}) || covered_ != extent) return std::nullopt;
    return std::move(result_);
  }

 private:
  /// Finds the dimension whose axis the outermost condition uses; false if it uses none.
  bool find_dimension() {
    const Expr& condition = stage_.body.as<dsl::Select>()->condition;
    for (size_t i = 0; i < stage_.axes.size(); ++i)
      if (dsl::uses_var(condition, stage_.axes[i].name)) {
        result_.dimension = i;
        return true;
      }
    return false;
  }

  bool collect(const Expr& expr, Range range) {
    if (const Read* r = expr.as<Read>()) return collect(*r, range);
    const dsl::Select* s = expr.as<dsl::Select>();
    if (!s) return false;
    const Axis& axis = stage_.axes[result_.dimension];
    const auto box = box_of(s->condition, {axis});
    if (!box) return false;
    const Range held = box->at(axis.name);
    if (held.low <= range.low)
      return collect(s->a, {range.low, held.high}) && collect(s->b, {held.high, range.high});
    if (held.high >= range.high)
      return collect(s->b, {range.low, held.low}) && collect(s->a, {held.low, range.high});
    return false;
  }

  bool collect(const Read& read, Range range) {
    if (range.low != covered_ || range.high <= range.low) return false;
    const Compute& compute = op_.workload.compute;
    const size_t number = input_number(compute, read.tensor);
    const std::vector<int64_t>& shape = compute.inputs[number].shape;
    if (shape.size() != stage_.axes.size()) return false;
    for (size_t i = 0; i < shape.size(); ++i) {
      const int64_t low = i == result_.dimension ? range.low : 0;
      const int64_t extent =
          i == result_.dimension ? range.high - range.low : stage_.axes[i].extent;
      if (shape[i] != extent || !is_at(read.indices[i], stage_.axes[i], low)) return false;
    }
    result_.inputs.push_back(number);
    covered_ = range.high;
    return true;
  }

  /// True if the index is axis - low.
  static bool is_at(const Expr& index, const Axis& axis, int64_t low) {
    const auto at = as_shifted(index);
    return at && at->axis == axis.name && at->offset == -low;
  }

  const Operator& op_;
  const Stage& stage_;
  Concatenation result_;
  int64_t covered_ = 0;  ///< end of the last piece found so far, along the dimension
};

}  // namespace

bool is_pointwise(const Read& read, const std::vector<Axis>& axes) {
  if (read.indices.size() != axes.size()) return false;
  for (size_t i = 0; i < axes.size(); ++i) {
    // The only element of a dimension may be spelled as 0.
    const bool is_only = axes[i].extent == 1 && dsl::is_int(read.indices[i], 0);
    if (!is_only && axis_number(axes, read.indices[i]) != i) return false;
  }
  return true;
}

Spelled in_canonical_names(const Operator& op) {
  Canonical form = canonical(op.workload.compute);
  std::map<std::string, std::string> tensors;
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (const auto name = form.names.find(op.workload.compute.inputs[i].name);
        name != form.names.end())
      tensors[name->second] = op.inputs[i];
  Spelled spelled{std::move(form.compute), {}};
  for (const dsl::Input& input : spelled.compute.inputs)
    spelled.inputs.push_back(tensors.at(input.name));
  return spelled;
}

std::vector<int64_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::optional<size_t> axis_number(const std::vector<Axis>& axes, const Expr& index) {
  const dsl::Var* v = index.as<dsl::Var>();
  if (!v) return std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == v->name) return i;
  return std::nullopt;
}

int count_reads(const Expr& expr, const std::string& tensor) {
  int count = 0;
  dsl::for_each(expr, [&](const Expr& e) {
    const Read* read = e.as<Read>();
    count += read && read->tensor == tensor;
  });
  return count;
}

bool is_choice(const Expr& expr) { return count_moved(expr, "").has_value(); }

std::optional<int> count_moved(const Expr& expr, const std::string& tensor) {
  if (const Read* read = expr.as<Read>()) return read->tensor == tensor ? 1 : 0;
  if (expr.as<dsl::Const>()) return 0;
  const dsl::Select* select = expr.as<dsl::Select>();
  if (!select || dsl::reads_tensors(select->condition)) return std::nullopt;
  const auto a = count_moved(select->a, tensor), b = count_moved(select->b, tensor);
  return a && b ? std::optional(*a + *b) : std::nullopt;
}

const Read* widened_byte(const Expr& expr) {
  const dsl::Cast* cast = expr.as<dsl::Cast>();
  const Read* read = cast && cast->type == Int32 ? cast->a.as<Read>() : nullptr;
  return read && (read->type == UInt8 || read->type == Int8) ? read : nullptr;
}

std::optional<OffsetByte> as_offset_byte(const Expr& expr) {
  OffsetByte offset{expr, Expr(), nullptr};
  if (const Binary* difference = expr.as<Binary>(); difference && difference->op == BinaryOp::Sub) {
    offset.number = difference->a;
    offset.zero = difference->b;
  }
  offset.byte = widened_byte(offset.number);
  return offset.byte ? std::optional(offset) : std::nullopt;
}

bool is_move(const Operator& op) { return is_reshape(op) || as_transpose(op); }

Compute move_of_type(const Operator& op, DType type) {
  Compute compute = op.workload.compute;
  Stage& stage = compute.stages.front();
  const Read read = *stage.body.as<Read>();
  stage.body = dsl::read(read.tensor, read.indices, type);
  compute.inputs.front().type = stage.type = type;
  return compute;
}

bool fits_32_bits(const Stage& sum, double largest_term) {
  double terms = 1;
  for (const Axis& axis : sum.reduction) terms *= static_cast<double>(axis.extent);
  return terms * largest_term <= static_cast<double>(integer_limits(Int32).largest);
}

const Read* factor_read(const Expr& factor) {
  if (const dsl::Cast* cast = factor.as<dsl::Cast>())
    return size_bytes(cast->a.type()) < size_bytes(cast->type) ? factor_read(cast->a) : nullptr;
  const dsl::Select* guard = factor.as<dsl::Select>();
  if (guard && !dsl::is_zero_bytes(guard->b)) return nullptr;
  return guard ? factor_read(guard->a) : factor.as<Read>();
}

std::optional<std::pair<const Read*, const Read*>> factors_of(const Stage& stage) {
  const Binary* product = stage.body.as<Binary>();
  if (stage.combine != dsl::Combine::Sum || stage.scan || !product || product->op != BinaryOp::Mul)
    return std::nullopt;
  const Read *a = factor_read(product->a), *b = factor_read(product->b);
  if (!a || !b) return std::nullopt;
  return std::pair(a, b);
}

bool takes_epilogue(const Operator& op) {
  return is_fast(op) && op.outputs.size() == 1 && has_reduction(op.workload.compute) &&
         op.workload.op != "attention";
}

std::optional<WeightedSum> weighted_sum(const Compute& compute,
                                        const std::vector<std::string>& tensors, const Stage& stage,
                                        const std::map<std::string, Constant>& constants) {
  const auto factors = factors_of(stage);
  if (!factors) return std::nullopt;
  const std::vector<dsl::Input>& inputs = compute.inputs;
  const auto factor_of = [&](const Read* read) -> std::optional<WeightedSum::Factor> {
    const auto input = std::ranges::find(inputs, read->tensor, &dsl::Input::name);
    if (input == inputs.end()) return std::nullopt;
    return WeightedSum::Factor{read, static_cast<size_t>(input - inputs.begin())};
  };
  const auto a = factor_of(factors->first), b = factor_of(factors->second);
  if (!a || !b) return std::nullopt;
  const bool is_first = constants.contains(tensors[a->input]);
  if (is_first == constants.contains(tensors[b->input])) return std::nullopt;
  return is_first ? WeightedSum{*b, *a} : WeightedSum{*a, *b};
}

bool has_dot_products(const Stage& stage, const WeightedSum& sum) {
  const Read &data = *sum.data.read, &weights = *sum.weights.read;
  const auto longest = std::ranges::max_element(stage.reduction, {}, &Axis::extent);
  if (longest == stage.reduction.end() || longest->extent < 4 || longest->extent % 2 != 0 ||
      !is_index(data, longest->name) || !is_index(weights, longest->name))
    return false;
  return std::ranges::any_of(stage.axes, [&](const Axis& axis) {
    return axis.extent > 1 && is_index(weights, axis.name) && !is_along(data, axis.name);
  });
}

bool reads_repeatedly(const Compute& compute, const dsl::Input& input) {
  return std::ranges::any_of(compute.stages, [&](const Stage& stage) {
    return stage.combine != dsl::Combine::None && count_reads(stage.body, input.name) > 0 &&
           dsl::evaluations_of(stage) >= least_reads * dsl::elements_of(input.shape);
  });
}

const Read* only_read(const Expr& expr, const std::string& tensor) {
  const Read* found = nullptr;
  int count = 0;
  dsl::for_each(expr, [&](const Expr& node) {
    const Read* r = node.as<Read>();
    if (!r || r->tensor != tensor) return;
    found = r;
    ++count;
  });
  return count == 1 ? found : nullptr;
}

size_t input_number(const Compute& compute, const std::string& input) {
  return static_cast<size_t>(compute.find_input(input) - compute.inputs.data());
}

bool has_reduction(const Compute& compute) {
  return std::ranges::any_of(
      compute.stages, [](const Stage& stage) { return stage.combine != dsl::Combine::None; });
}

bool have_few_inputs(const Operator& writer, const Operator& reader) {
  std::set<std::string> inputs(writer.inputs.begin(), writer.inputs.end());
  inputs.insert(reader.inputs.begin(), reader.inputs.end());
  // One of the inputs is the tensor between the operators, which the fused operator does not read.
  return inputs.size() <= most_fused_inputs + 1;
}

const Stage* only_stage(const Operator& op) {
  const Compute& compute = op.workload.compute;
  if (compute.stages.size() != 1 || has_reduction(compute)) return nullptr;
  return &compute.stages.front();
}

bool is_elementwise(const Operator& op) {
  const Stage* stage = only_stage(op);
  if (!stage || !is_fast(op)) return false;
  bool all = true;
  dsl::for_each(stage->body, [&](const Expr& node) {
    const Read* r = node.as<Read>();
    all = all && (!r || is_broadcast(*r, stage->axes));
  });
  return all;
}

std::optional<int> count_pointwise_reads(const Compute& compute, const Stage& stage,
                                         const std::string& tensor) {
  if (compute.shape_of(tensor) != stage.shape()) return std::nullopt;
  int count = 0;
  bool all = true;
  dsl::for_each(stage.body, [&](const Expr& node) {
    const Read* r = node.as<Read>();
    if (!r || r->tensor != tensor) return;
    ++count;
    all = all && is_pointwise(*r, stage.axes);
  });
  if (!all) return std::nullopt;
  return count;
}

std::optional<int> count_pointwise_reads(const Operator& op, const std::string& tensor) {
  const Compute& compute = op.workload.compute;
  int count = 0;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (op.inputs[i] != tensor) continue;
    const auto reads =
        count_pointwise_reads(compute, compute.stages.front(), compute.inputs[i].name);
    if (!reads) return std::nullopt;
    count += *reads;
  }
  return count;
}

std::optional<std::string> input_for(const Operator& op, const std::string& tensor) {
  if (std::ranges::count(op.inputs, tensor) != 1) return std::nullopt;
  const size_t at = static_cast<size_t>(std::ranges::find(op.inputs, tensor) - op.inputs.begin());
  return op.workload.compute.inputs[at].name;
}

std::optional<Shifted> as_shifted(const Expr& expr) {
  if (const dsl::Var* v = expr.as<dsl::Var>()) return Shifted{v->name, 0};
  const Binary* b = expr.as<Binary>();
  if (!b || (b->op != BinaryOp::Add && b->op != BinaryOp::Sub)) return std::nullopt;
  const bool is_sum = b->op == BinaryOp::Add;
  const auto literal = dsl::as_int(b->b);
  if (literal) {
    auto at = as_shifted(b->a);
    if (at) at->offset += is_sum ? *literal : -*literal;
    return at;
  }
  const auto first = dsl::as_int(b->a);
  if (!first || !is_sum) return std::nullopt;
  auto at = as_shifted(b->b);
  if (at) at->offset += *first;
  return at;
}

std::optional<Ranges> box_of(const Expr& condition, const std::vector<Axis>& axes) {
  Ranges box;
  for (const Axis& axis : axes) box[axis.name] = {0, axis.extent};
  if (!narrow_by(box, condition)) return std::nullopt;
  return box;
}

std::optional<Padding> as_padding(const Operator& op) {
  const Stage* stage = only_stage(op);
  const dsl::Select* select = stage ? stage->body.as<dsl::Select>() : nullptr;
  const Read* read = select ? select->a.as<Read>() : nullptr;
  if (!read || !select->b.as<dsl::Const>() || read->indices.size() != stage->axes.size())
    return std::nullopt;
  const auto box = box_of(select->condition, stage->axes);
  if (!box) return std::nullopt;
  const std::vector<int64_t> shape = op.workload.compute.shape_of(read->tensor);
  Padding padding{{}, {}, select->b};
  for (size_t i = 0; i < shape.size(); ++i) {
    const Axis& axis = stage->axes[i];
    const auto at = as_shifted(read->indices[i]);
    if (!at || at->axis != axis.name) return std::nullopt;
    const int64_t before = -at->offset, after = axis.extent - shape[i] - before;
    const Range& inside = box->at(axis.name);
    if (before < 0 || after < 0 || inside.low != before || inside.high != before + shape[i])
      return std::nullopt;
    padding.before.push_back(before);
    padding.after.push_back(after);
  }
  return padding;
}

std::optional<Concatenation> as_concatenation(const Operator& op) {
  if (!only_stage(op)) return std::nullopt;
  return Pieces(op).find();
}

Result<Compute> concatenate(DType dtype, const std::vector<std::vector<int64_t>>& shapes,
                            size_t dimension) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < shapes.front().size(); ++i)
    axes.emplace_back(fmt::format("d{}", i), shapes.front()[i]);
  axes[dimension].extent = 0;
  std::vector<Expr> pieces;
  std::vector<int64_t> ends;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<Axis> extents;
    for (const int64_t extent : shapes[i])
      extents.emplace_back(fmt::format("e{}", extents.size()), extent);
    std::vector<Expr> indices(axes.begin(), axes.end());
    indices[dimension] = indices[dimension] - Expr(axes[dimension].extent);
    const dsl::Tensor piece = dsl::input(fmt::format("in{}", i), dtype, extents);
    pieces.push_back(piece.read_at(std::move(indices)));
    axes[dimension].extent += shapes[i][dimension];
    ends.push_back(axes[dimension].extent);
  }
  Expr body = pieces.back();
  for (size_t i = pieces.size() - 1; i-- > 0;)
    body = dsl::select(Expr(axes[dimension]) < Expr(ends[i]), pieces[i], body);
  return dsl::build(dsl::compute("out", axes, body));
}

}  // namespace tw::graph
