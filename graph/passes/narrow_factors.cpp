// SPDX-License-Identifier: Apache-2.0
// Makes sums of integers read data of 8 bits, if the target has dot products of 8-bit data with
// 8-bit weights:
//
//   t = i16(i32(q) - zero)                     q of 8 bits, zero one number
//   y = sum(i32(t) * i32(w))           ->      y = sum(i32(q) * i32(w)) - zero * sum(i32(w))
//   z = f32(i32(t)) * scale                    z = f32(i32(q) - zero) * scale
//
// The sums of the weights are constants. If the target multiplies numbers of the other signedness,
// the operator of t writes q shifted by 128, as in u8(i32(q) + 128), and the zero point is shifted
// too. Either all readers of t read q or none does; otherwise both tensors would be written. A
// padding adds zeros to t. The same padding of q would have to add zero points, so that padded sums
// are rewritten only if the zero point is 0.

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "graph/passes/access.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/quantized.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Axis;
using dsl::Cast;
using dsl::Compute;
using dsl::Expr;
using dsl::Read;
using dsl::Select;
using dsl::Stage;

/// Number of adjacent terms that an instruction for dot products of 8-bit numbers sums at once.
constexpr int64_t terms_at_once = 4;
/// The largest magnitude of a number of 8 bits.
constexpr int64_t largest_byte = 255;
/// u8(q + 128) and i8(q - 128) convert between both types of 8 bits.
constexpr int64_t sign_shift = 128;

/// Returns the number that is added to convert from the other 8-bit type to `type`: 128 for u8,
/// -128 for i8.
int64_t shift_to(DType type) { return type == UInt8 ? sign_shift : -sign_shift; }

/// A zero point that is the same for all elements: `offset` or, if there is a tensor, its element
/// plus `offset`.
struct ZeroPoint {
  std::string tensor = {};  ///< name of a tensor of the graph; empty if there is none
  DType type = UInt8;       ///< type of the tensor, which has one element
  std::vector<int64_t> shape = {};
  int64_t offset = 0;  ///< the zero point, or the number added to the element

  bool is_known() const { return tensor.empty(); }
  bool is_known_as(int64_t number) const { return is_known() && offset == number; }
};

/// t = i16(i32(q) - zero), element by element.
struct Centered {
  std::string tensor;  ///< name of q in the graph
  DType type = UInt8;  ///< type of q
  Expr number;         ///< i32(q), in the names of the operator
  ZeroPoint zero;
};

/// Returns the zero point if it is a literal of magnitude 255 or less or an 8-bit tensor of one
/// element; else nullopt.
std::optional<ZeroPoint> zero_point(const Operator& op, const Expr& zero,
                                    const std::map<std::string, Constant>& constants) {
  if (const auto literal = dsl::as_int(zero))
    return std::abs(*literal) <= largest_byte ? std::optional(ZeroPoint{.offset = *literal})
                                              : std::nullopt;
  const Read* read = widened_byte(zero);
  const Compute& compute = op.workload.compute;
  if (!read || dsl::elements_of(compute.shape_of(read->tensor)) != 1) return std::nullopt;
  const std::string& tensor = op.inputs[input_number(compute, read->tensor)];
  if (const auto known = constants.find(tensor); known != constants.end())
    return ZeroPoint{.offset = known->second.array->get_int(0)};
  return ZeroPoint{tensor, read->type, compute.shape_of(read->tensor)};
}

std::optional<Centered> as_centered(const Operator& op,
                                    const std::map<std::string, Constant>& constants) {
  const Stage* stage = only_stage(op);
  const Cast* narrowed = stage && stage->type == Int16 ? stage->body.as<Cast>() : nullptr;
  if (!narrowed) return std::nullopt;
  const Compute& compute = op.workload.compute;
  const auto offset = as_offset_byte(narrowed->a);
  if (!offset || !is_pointwise(*offset->byte, stage->axes) ||
      compute.shape_of(offset->byte->tensor) != stage->shape())
    return std::nullopt;
  const auto zero =
      offset->zero.defined() ? zero_point(op, offset->zero, constants) : std::optional(ZeroPoint());
  if (!zero) return std::nullopt;
  return Centered{op.inputs[input_number(compute, offset->byte->tensor)], offset->byte->type,
                  offset->number, *zero};
}

/// The tensor of 8 bits that is read in place of a tensor t of 16 bits: t = i32(tensor) - zero.
struct Bytes {
  std::string tensor;
  DType type = UInt8;
  ZeroPoint zero;
};

/// Returns the read of the input in i32(read) or i32(select(condition, read, 0)); nullptr for other
/// expressions. Such a select is a guard.
const Read* widened_read(const Expr& expr, const std::string& input) {
  const Cast* cast = expr.as<Cast>();
  if (!cast || cast->type != Int32) return nullptr;
  const Select* guard = cast->a.as<Select>();
  if (guard && !dsl::is_zero_bytes(guard->b)) return nullptr;
  const Read* read = (guard ? guard->a : cast->a).as<Read>();
  return read && read->tensor == input ? read : nullptr;
}

bool has_guard(const Expr& widened) { return widened.as<Cast>()->a.as<Select>(); }

/// True if each read of the input is converted to i32 directly or, if `guarded`, after a guard.
bool reads_wide(const Expr& expr, const std::string& input, bool guarded) {
  int wide = 0;
  dsl::for_each(expr, [&](const Expr& e) {
    wide += widened_read(e, input) && (guarded || !has_guard(e)) ? 1 : 0;
  });
  return wide == count_reads(expr, input);
}

/// Returns the expression `widened`, an i32(read) with or without a guard, in which the read has
/// the 8-bit type `type`.
Expr wide_byte(const Expr& widened, const Read& read, DType type) {
  const Expr byte = dsl::read(read.tensor, read.indices, type);
  const Select* guard = widened.as<Cast>()->a.as<Select>();
  return dsl::cast(Int32,
                   guard ? dsl::select(guard->condition, byte, dsl::constant_int(type, 0)) : byte);
}

/// The dimensions of the weights that a sum keeps, and for each of them the index of the axis of
/// the sum that indexes it.
struct Kept {
  std::vector<size_t> dimensions, axes;
};
/// Returns the dimensions of the weights that the sum keeps. For each element of the sum, the sum
/// must read every weight that has the indices of this element in the kept dimensions, exactly once
/// and unchanged; nullopt otherwise. Requires: the weights are an input of the compute.
std::optional<Kept> kept_dimensions(const Compute& compute, const Stage& sum, const Read& weights) {
  const std::vector<int64_t>& shape = compute.shape_of(weights.tensor);
  Kept kept;
  std::set<size_t> axes, summed;
  for (size_t i = 0; i < weights.indices.size(); ++i) {
    if (const auto axis = axis_number(sum.axes, weights.indices[i])) {
      axes.insert(*axis);
      kept.dimensions.push_back(i);
      kept.axes.push_back(*axis);
      continue;
    }
    const auto term = axis_number(sum.reduction, weights.indices[i]);
    if (!term || sum.reduction[*term].extent != shape[i]) return std::nullopt;
    summed.insert(*term);
  }
  const bool all_differ = axes.size() + summed.size() == weights.indices.size();
  const bool all_are_summed = summed.size() == sum.reduction.size();
  return all_differ && all_are_summed && reads_wide(sum.body, weights.tensor, false)
             ? std::optional(kept)
             : std::nullopt;
}

class FactorNarrower {
 public:
  FactorNarrower(const Graph& graph, const std::set<DType>& multiplied)
      : graph_(graph), multiplied_(multiplied), uses_(graph), names_(graph) {}

  Result<Graph> run() {
    result_ = {graph_.inputs, graph_.constants, {}, graph_.outputs};
    for (const Operator& op : graph_.operators) choose(op);
    if (bytes_.empty()) return graph_;
    for (const Operator& op : graph_.operators) {
      TW_TRY(Operator narrow, rewritten(op));
      result_.operators.push_back(std::move(narrow));
    }
    return drop_dead(result_);
  }

 private:
  // ---- choice -----------------------------------------------------------------------------------

  /// The readers of a tensor and of its reshapes and transposes.
  struct Readers {
    std::vector<std::string> moved = {};  ///< results of reshapes and transposes
    bool can_narrow = true;               ///< true if all readers can read numbers of 8 bits
    bool has_dot_product = false;         ///< true if a reader gains by reading 8 bits
  };

  void choose(const Operator& op) {
    const auto centered = as_centered(op, graph_.constants);
    const auto type = centered ? multiplied_type(centered->type) : std::nullopt;
    if (!type) return;
    Bytes bytes{centered->tensor, *type, centered->zero};
    if (*type != centered->type) {
      bytes.tensor = op.outputs.front();
      bytes.zero.offset += shift_to(*type);
    }
    const Readers readers = readers_of(op.outputs.front(), bytes.zero);
    if (!readers.can_narrow || !readers.has_dot_product) return;
    bytes_[op.outputs.front()] = bytes;
    for (const std::string& moved : readers.moved) bytes_[moved] = {moved, *type, bytes.zero};
  }

  /// Returns the 8-bit type that the target multiplies with i8 weights, `type` if possible.
  std::optional<DType> multiplied_type(DType type) const {
    for (const DType candidate : {type, type == UInt8 ? Int8 : UInt8})
      if (multiplied_.contains(candidate)) return candidate;
    return std::nullopt;
  }

  Readers readers_of(const std::string& tensor, const ZeroPoint& zero) const {
    Readers readers;
    std::vector<std::string> pending = {tensor};
    while (!pending.empty()) {
      const std::string read = std::move(pending.back());
      pending.pop_back();
      if (uses_.is_output(read)) readers.can_narrow = false;
      for (const size_t reader : uses_.readers(read)) {
        const Operator& op = graph_.operators[reader];
        if (is_move(op)) {
          readers.moved.push_back(op.outputs.front());
          pending.push_back(op.outputs.front());
          continue;
        }
        for (size_t i = 0; i < op.inputs.size(); ++i)
          if (op.inputs[i] == read)
            check_reader(op, op.workload.compute.inputs[i].name, zero, readers);
      }
    }
    return readers;
  }

  void check_reader(const Operator& op, const std::string& input, const ZeroPoint& zero,
                    Readers& readers) const {
    const Compute& compute = op.workload.compute;
    for (const Stage& stage : compute.stages) {
      if (count_reads(stage.body, input) == 0) continue;
      const auto sum = weighted_sum(compute, op.inputs, stage, graph_.constants);
      const bool is_dot = sum && sum->data.read->tensor == input && is_dot_product(stage, *sum);
      readers.has_dot_product = readers.has_dot_product || is_dot;
      const bool can_subtract = zero.is_known_as(0) || stage.combine == dsl::Combine::None ||
                                (is_dot && kept_dimensions(compute, stage, *sum->weights.read));
      if (!can_subtract || !reads_wide(stage.body, input, zero.is_known_as(0)))
        readers.can_narrow = false;
    }
  }

  /// True if the target has dot products for the 8-bit types of the sum, and if the sum, and the
  /// sum of zero point times weights, fit 32 bits.
  bool is_dot_product(const Stage& stage, const WeightedSum& sum) const {
    if (stage.type != Int32 || sum.weights.read->type != Int8 || !has_dot_products(stage, sum))
      return false;
    const auto largest_term =
        static_cast<double>((largest_byte + sign_shift) * -integer_limits(Int8).least);
    const auto longest = std::ranges::max_element(stage.reduction, {}, &Axis::extent);
    return longest->extent % terms_at_once == 0 && fits_32_bits(stage, largest_term);
  }

  // ---- rewriting --------------------------------------------------------------------------------

  Result<Operator> rewritten(const Operator& op) {
    const auto written = bytes_.find(op.outputs.front());
    if (written != bytes_.end())
      return is_move(op) ? moved(op, written->second) : in_bytes(op, written->second);
    if (std::ranges::none_of(op.inputs, [&](const std::string& t) { return bytes_.contains(t); }))
      return op;
    Spelled narrow = in_canonical_names(op);
    const size_t inputs = narrow.inputs.size();  // read_bytes() adds further inputs
    for (size_t i = 0; i < inputs; ++i)
      if (const auto bytes = bytes_.find(narrow.inputs[i]); bytes != bytes_.end())
        read_bytes(narrow, i, bytes->second);
    // Inlining may keep a -0.0 that a strict operator makes 0.
    const Compute compute = is_fast(op) ? inline_stages(narrow.compute) : narrow.compute;
    return make_operator(compute, narrow.inputs, op.outputs, result_.constants, &op.workload);
  }

  Result<Operator> moved(const Operator& op, const Bytes& bytes) const {
    return make_operator(move_of_type(op, bytes.type), {bytes_.at(op.inputs.front()).tensor},
                         op.outputs, graph_.constants, &op.workload);
  }

  /// Returns the operator of t, rewritten to compute q shifted by 128 if readers cannot read q
  /// directly.
  Result<Operator> in_bytes(const Operator& op, const Bytes& bytes) const {
    // All readers of t read q, and drop_dead() removes t.
    if (bytes.tensor != op.outputs.front()) return op;
    Compute compute = op.workload.compute;
    Stage& stage = compute.stages.front();
    stage.type = bytes.type;
    stage.body = dsl::cast(bytes.type, as_centered(op, graph_.constants)->number +
                                           dsl::constant_int(Int32, shift_to(bytes.type)));
    return make_operator(compute, op.inputs, op.outputs, graph_.constants, &op.workload);
  }

  /// Binds an input that reads t to the tensor `bytes` of 8 bits. The zero point is subtracted from
  /// the results of sums, and in other stages from each element.
  void read_bytes(Spelled& op, size_t number, const Bytes& bytes) {
    const std::string input = op.compute.inputs[number].name;
    const bool is_centered = bytes.zero.is_known_as(0);
    if (!is_centered)
      for (size_t i = 0; i < op.compute.stages.size(); ++i)
        if (const Stage& stage = op.compute.stages[i];
            stage.combine != dsl::Combine::None && count_reads(stage.body, input) > 0)
          subtract_zeros(op, i, bytes.zero, input);
    for (Stage& stage : op.compute.stages) {
      const bool is_uncorrected = is_centered || stage.combine != dsl::Combine::None;
      stage.body = dsl::transform(stage.body, [&](const Expr& e) -> std::optional<Expr> {
        const Read* read = widened_read(e, input);
        if (!read) return std::nullopt;
        const Expr byte = wide_byte(e, *read, bytes.type);
        return is_uncorrected ? byte : byte - number_of(op, bytes.zero, input);
      });
    }
    op.compute.inputs[number].type = bytes.type;
    op.compute.inputs[number].constant = false;
    op.inputs[number] = bytes.tensor;
  }

  /// Returns the zero point of an input as an i32 expression. A zero point that is known only when
  /// the network runs becomes a further input.
  static Expr number_of(Spelled& op, const ZeroPoint& zero, const std::string& input) {
    const Expr offset = dsl::constant_int(Int32, zero.offset);
    if (zero.is_known()) return offset;
    const std::string name = input + "_zero";
    if (!op.compute.find_input(name)) {
      op.compute.inputs.push_back({name, zero.type, zero.shape, false, ""});
      op.inputs.push_back(zero.tensor);
    }
    const std::vector<Expr> first(zero.shape.size(), Expr(0));
    return dsl::cast(Int32, dsl::read(name, first, zero.type)) + offset;
  }

  /// Replaces a sum of products with t by the sum of products with the bytes q, minus the zero
  /// point times the sums of the weights.
  void subtract_zeros(Spelled& op, size_t number, const ZeroPoint& zero, const std::string& input) {
    const Stage sum = op.compute.stages[number];
    const auto factors = weighted_sum(op.compute, op.inputs, sum, graph_.constants);
    const auto kept = kept_dimensions(op.compute, sum, *factors->weights.read);
    const std::string& weights = op.inputs[factors->weights.input];
    dsl::Array sums = sums_along(*graph_.constants.at(weights).array, kept->dimensions);
    if (zero.is_known())
      for (int64_t i = 0; i < sums.size(); ++i) sums.set_int(i, sums.get_int(i) * zero.offset);
    op.compute.inputs.push_back({sum.name + "_sums", Int32, sums.shape, true, ""});
    op.inputs.push_back(names_.make(weights + ".sums"));
    result_.constants[op.inputs.back()] = make_constant(std::move(sums));

    std::vector<Expr> at;
    for (const size_t axis : kept->axes) at.push_back(sum.axes[axis]);
    const Expr of_weights = dsl::read(sum.name + "_sums", at, Int32);
    Stage difference = {sum.name, Int32, sum.axes, {}, dsl::Combine::None, Expr(), sum.letters};
    op.compute.stages[number].name = sum.name + "_total";
    difference.body = dsl::read(sum.name + "_total", {sum.axes.begin(), sum.axes.end()}, Int32) -
                      (zero.is_known() ? of_weights : number_of(op, zero, input) * of_weights);
    op.compute.stages.insert(op.compute.stages.begin() + static_cast<std::ptrdiff_t>(number) + 1,
                             std::move(difference));
  }

  const Graph& graph_;
  const std::set<DType>& multiplied_;
  Uses uses_;
  FreshNames names_;
  /// By the names of the tensors of 16 bits that they replace.
  std::map<std::string, Bytes> bytes_;
  Graph result_;
};

}  // namespace

Result<Graph> narrow_factors(const Graph& graph, const PassOptions& options) {
  return FactorNarrower(graph, options.multiplied).run();
}

}  // namespace tw::graph
