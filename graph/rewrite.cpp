// SPDX-License-Identifier: Apache-2.0
#include "graph/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/integer.h"
#include "dsl/operators.h"
#include "dsl/parse.h"
#include "graph/whole_numbers.h"

namespace tw::graph {
namespace {

using dsl::Axis;
using dsl::Compute;
using dsl::Expr;
using dsl::Input;
using dsl::Read;
using dsl::Stage;

using Names = std::map<std::string, std::string>;

// Limits on the number of expression nodes of a stage that is inlined. Larger stages stay, because
// inlined expressions multiply each other's size. `largest_inlined` is for stages that are read at
// one place. If a stage is read at several places, its expression is repeated at each place, so
// that `largest_repeated` limits its nodes times the number of places.
constexpr int32_t largest_inlined = 2000, largest_repeated = 1000;

/// Returns the expression with tensors renamed; names that are not in the map stay.
Expr rename_tensors(const Expr& expr, const Names& names) {
  return dsl::transform(expr, [&](const Expr& node) -> std::optional<Expr> {
    const Read* r = node.as<Read>();
    if (!r) return std::nullopt;
    const auto found = names.find(r->tensor);
    return dsl::read(found == names.end() ? r->tensor : found->second, r->indices, r->type);
  });
}

Compute rename_tensors(const Compute& compute, const Names& names) {
  const auto renamed = [&](const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  };
  Compute result = compute;
  for (Input& input : result.inputs) input.name = renamed(input.name);
  for (Stage& stage : result.stages) {
    stage.name = renamed(stage.name);
    stage.body = rename_tensors(stage.body, names);
  }
  for (std::string& output : result.outputs) output = renamed(output);
  return result;
}

/// Returns the stage with renamed axes: its axes get the letters of its dimensions, and its reduced
/// axes the names r0, r1, ...
Stage rename_axes(Stage stage, const std::string& letters) {
  dsl::Substitution names;
  const size_t scanned = stage.scan ? stage.scanned_axis() : stage.axes.size();
  for (size_t i = 0; i < stage.axes.size(); ++i) {
    const std::string name(1, static_cast<char>(letters[i] - 'A' + 'a'));
    if (i == scanned) stage.scan->along = name;
    names.emplace(stage.axes[i].name, dsl::var(name));
    stage.axes[i].name = name;
  }
  for (size_t i = 0; i < stage.reduction.size(); ++i) {
    const std::string name = fmt::format("r{}", i);
    names.emplace(stage.reduction[i].name, dsl::var(name));
    stage.reduction[i].name = name;
  }
  stage.body = dsl::substitute(stage.body, names);
  return stage;
}

/// Replaces an index 0 into a dimension of extent 1 by the stage's axis at the same position, if
/// that axis has extent 1 too, so that equal operators have equal text: t[0, c] with an axis n=1
/// becomes t[n, c]. The scanned axis of a scan is not put in, because the terms of a scan cannot
/// refer to it.
Compute with_unit_axes(const Compute& compute) {
  Compute result = compute;
  for (Stage& stage : result.stages) {
    const size_t scanned = stage.scan ? stage.scanned_axis() : stage.axes.size();
    stage.body = dsl::transform(stage.body, [&](const Expr& node) -> std::optional<Expr> {
      const Read* r = node.as<Read>();
      if (!r || r->indices.size() != stage.axes.size()) return std::nullopt;
      const std::vector<int64_t> shape = compute.shape_of(r->tensor);
      std::vector<Expr> indices = r->indices;
      for (size_t i = 0; i < shape.size(); ++i)
        if (i != scanned && shape[i] == 1 && stage.axes[i].extent == 1 &&
            dsl::is_int(indices[i], 0))
          indices[i] = stage.axes[i];
      return dsl::read(r->tensor, std::move(indices), r->type);
    });
  }
  return result;
}

/// Names of inputs in the order in which stages read them.
std::vector<std::string> inputs_as_read(const Compute& compute) {
  std::vector<std::string> order;
  std::set<std::string> seen;
  for (const Stage& stage : compute.stages)
    dsl::for_each(stage.body, [&](const Expr& node) {
      const Read* r = node.as<Read>();
      if (r && compute.find_input(r->tensor) && seen.insert(r->tensor).second)
        order.push_back(r->tensor);
    });
  return order;
}

// ---- inlining -------------------------------------------------------------------------------

struct Reads {
  int count = 0;  ///< number of places that read the stage; a place in a reduction counts once
  /// True if each read is in a stage without a reduction, at that stage's own axes, and inlining
  /// joins all of these stages into one stage, `place`.
  bool are_together = true;
  std::string place;
};

bool is_at_own_axes(const Read& read, const Stage& stage) {
  return std::ranges::equal(read.indices, stage.axes, [](const Expr& index, const Axis& axis) {
    const dsl::Var* v = index.as<dsl::Var>();
    return v && v->name == axis.name;
  });
}

std::map<std::string, Reads> find_reads(const Compute& compute) {
  std::map<std::string, Reads> reads;
  for (auto stage = compute.stages.rbegin(); stage != compute.stages.rend(); ++stage) {
    const Reads& own = reads[stage->name];
    const bool is_elementwise = stage->combine == dsl::Combine::None;
    const bool moves =
        is_elementwise && own.count > 0 && own.are_together && !compute.is_output(stage->name);
    const std::string place = moves ? own.place : stage->name;
    dsl::for_each(stage->body, [&](const Expr& node) {
      const Read* r = node.as<Read>();
      if (!r) return;
      Reads& of = reads[r->tensor];
      if (of.count++ == 0) of.place = place;
      of.are_together =
          of.are_together && is_elementwise && is_at_own_axes(*r, *stage) && of.place == place;
    });
  }
  return reads;
}

/// True if the stage's expression may replace all reads of the stage. Several reads are replaced
/// only if they are in the same iteration, where compilers evaluate the common subexpression once.
bool may_inline(const Stage& stage, const Reads& reads) {
  const int64_t nodes = stage.body.node().size;
  if (stage.combine != dsl::Combine::None || reads.count == 0) return false;
  if (reads.count == 1) return nodes <= largest_inlined;
  return reads.are_together && nodes * reads.count <= largest_repeated;
}

/// Returns the body of an elementwise stage at the given indices.
Expr body_at(const Stage& stage, const std::vector<Expr>& indices) {
  dsl::Substitution at;
  for (size_t i = 0; i < indices.size(); ++i) at.emplace(stage.axes[i].name, indices[i]);
  return dsl::substitute(stage.body, at);
}

bool reads_stage(const Expr& expr, const Compute& compute) {
  bool found = false;
  dsl::for_each(expr, [&](const Expr& node) {
    const Read* r = node.as<Read>();
    found = found || (r && compute.find_stage(r->tensor));
  });
  return found;
}

/// If an operation is commutative, moves the operand that reads a stage to the left, so that equal
/// operators have equal text: a + conv[...] becomes conv[...] + a.
Compute order_operands(Compute compute) {
  const auto is_commutative = [](dsl::BinaryOp op) {
    return op == dsl::BinaryOp::Add || op == dsl::BinaryOp::Mul || op == dsl::BinaryOp::Min ||
           op == dsl::BinaryOp::Max || op == dsl::BinaryOp::BitAnd || op == dsl::BinaryOp::BitOr ||
           op == dsl::BinaryOp::BitXor;
  };
  for (Stage& stage : compute.stages)
    stage.body = dsl::transform(stage.body, [&](const Expr& node) -> std::optional<Expr> {
      const dsl::Binary* b = node.as<dsl::Binary>();
      if (!b || !is_commutative(b->op) || reads_stage(b->a, compute) || !reads_stage(b->b, compute))
        return std::nullopt;
      return dsl::binary(b->op, b->b, b->a);
    });
  return compute;
}

// ---- operators ------------------------------------------------------------------------------

/// A compute and the tensors of the graph for its inputs and outputs.
struct Bound {
  Compute compute;
  std::vector<std::string> inputs, outputs;
};

/// Replaces reads of the inputs in `literals` by their literals. Returns the compute unchanged if
/// it would not be valid with the literals.
Compute with_literals(const Compute& compute, const std::map<std::string, Expr>& literals) {
  if (literals.empty()) return compute;
  Compute result = compute;
  for (Stage& stage : result.stages)
    stage.body = dsl::transform(stage.body, [&](const Expr& node) -> std::optional<Expr> {
      const Read* r = node.as<Read>();
      if (!r) return std::nullopt;
      const auto found = literals.find(r->tensor);
      if (found == literals.end()) return std::nullopt;
      return found->second;
    });
  return dsl::validate(result) ? result : compute;
}

std::optional<Expr> literal_of(const dsl::Array& array) {
  if (array.size() != 1) return std::nullopt;
  return is_float(array.type) ? dsl::constant(array.type, array.get_float(0))
                              : dsl::constant_int(array.type, array.get_int(0));
}

/// Declares the inputs that are bound to constants as weights. Replaces reads of constants that
/// have a single element by literals.
Compute bind_constants(Compute compute, const std::vector<std::string>& inputs,
                       const std::map<std::string, Constant>& constants) {
  std::map<std::string, Expr> literals;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = constants.find(inputs[i]);
    compute.inputs[i].constant = found != constants.end();
    if (found == constants.end()) continue;
    if (auto literal = literal_of(*found->second.array))
      literals.emplace(compute.inputs[i].name, *literal);
  }
  return with_literals(compute, literals);
}

/// Reorders tensors of a graph. `tensors` has the tensor of each input (or output) in
/// `former_names`, and `names` maps former names to new ones. Returns the tensor of each input (or
/// output) in `new_names`.
std::vector<std::string> reordered(const std::vector<std::string>& former_names,
                                   const std::vector<std::string>& tensors, const Names& names,
                                   const std::vector<std::string>& new_names) {
  std::map<std::string, std::string> tensor_of;
  for (size_t i = 0; i < former_names.size(); ++i)
    if (const auto found = names.find(former_names[i]); found != names.end())
      tensor_of[found->second] = tensors[i];
  std::vector<std::string> result;
  for (const std::string& name : new_names) result.push_back(tensor_of.at(name));
  return result;
}

std::vector<std::string> input_names(const Compute& compute) {
  std::vector<std::string> names;
  for (const Input& input : compute.inputs) names.push_back(input.name);
  return names;
}

Bound in_canonical_form(const Bound& given) {
  Canonical form = canonical(given.compute);
  std::vector<std::string> inputs =
      reordered(input_names(given.compute), given.inputs, form.names, input_names(form.compute));
  std::vector<std::string> outputs =
      reordered(given.compute.outputs, given.outputs, form.names, form.compute.outputs);
  return {std::move(form.compute), std::move(inputs), std::move(outputs)};
}

/// Returns the named operator, such as conv2d, that declares the canonical compute. It has the kind
/// and the attributes of the hint, except for flags such as bias=1, of which all settings are
/// tried. nullopt if no setting gives this compute.
std::optional<Operator> named_operator(const Bound& canonical_form, const dsl::Workload& hint) {
  const auto row = dsl::find_operator(hint.op);
  if (!row) return std::nullopt;
  std::vector<std::string> flags;
  for (const dsl::Attribute& attribute : (*row)->attributes)
    if (attribute.is_flag) flags.emplace_back(attribute.name);
  const std::string wanted = dsl::to_line(canonical_form.compute);
  for (size_t set = 0; set < (size_t{1} << flags.size()); ++set) {
    dsl::Attributes attributes = hint.attributes;
    for (size_t i = 0; i < flags.size(); ++i) attributes[flags[i]] = (set >> i) & 1;
    auto workload = dsl::make_workload(hint.op, attributes, hint.dtype, hint.accuracy);
    if (!workload) continue;
    const Canonical form = canonical(workload->compute);
    if (dsl::to_line(form.compute) != wanted) continue;
    std::map<std::string, std::string> tensor_of;
    for (size_t i = 0; i < canonical_form.inputs.size(); ++i)
      tensor_of[canonical_form.compute.inputs[i].name] = canonical_form.inputs[i];
    Operator op = {std::move(*workload), {}, canonical_form.outputs};
    for (const std::string& name : input_names(op.workload.compute))
      op.inputs.push_back(tensor_of.at(form.names.at(name)));
    return op;
  }
  return std::nullopt;
}

/// Joins the computes of several operators into one compute with new names.
class Join {
 public:
  Status add(const Operator& op, size_t number) {
    const Compute compute = with_unit_axes(op.workload.compute);
    Names names;
    for (size_t i = 0; i < op.inputs.size(); ++i)
      names[compute.inputs[i].name] = read(op.inputs[i], compute.inputs[i]);
    for (size_t i = 0; i < compute.stages.size(); ++i)
      names[compute.stages[i].name] = fmt::format("s{}_{}", number, i);
    for (size_t i = 0; i < op.outputs.size(); ++i)
      if (!local_.emplace(op.outputs[i], names.at(compute.outputs[i])).second)
        return fail(ErrorCode::Invalid, fmt::format("[fuse] '{}' is written twice", op.outputs[i]));
    const Compute renamed = rename_tensors(compute, names);
    for (size_t i = 0; i < renamed.stages.size(); ++i)
      joined_.compute.stages.push_back(
          rename_axes(renamed.stages[i], compute.letters_of(compute.stages[i].name)));
    return {};
  }

  Result<Bound> finish(const std::vector<std::string>& outputs) {
    for (const std::string& tensor : outputs) {
      const auto found = local_.find(tensor);
      if (found == local_.end() || joined_.compute.find_input(found->second))
        return fail(ErrorCode::Invalid, fmt::format("[fuse] no operator gives '{}'", tensor));
      joined_.compute.outputs.push_back(found->second);
      joined_.outputs.push_back(tensor);
    }
    TW_RETURN_IF_ERROR(dsl::validate(joined_.compute));
    return std::move(joined_);
  }

 private:
  /// Returns the name, in the joined compute, of a tensor that an operator reads. Declares the
  /// tensor as an input if no operator that was added before writes it.
  std::string read(const std::string& tensor, const Input& declaration) {
    const auto known = local_.find(tensor);
    if (known != local_.end()) return known->second;
    Input input = declaration;
    input.name = fmt::format("x{}_", joined_.inputs.size());
    local_[tensor] = input.name;
    joined_.inputs.push_back(tensor);
    joined_.compute.inputs.push_back(input);
    return input.name;
  }

  Bound joined_;
  Names local_;  ///< tensor of the graph -> its name in the joined compute
};

/// Returns the compute with only the stages that its outputs need.
Compute without_dead_stages(const Compute& compute) {
  std::set<std::string> needed(compute.outputs.begin(), compute.outputs.end());
  Compute result = compute;
  result.stages.clear();
  for (auto stage = compute.stages.rbegin(); stage != compute.stages.rend(); ++stage) {
    if (!needed.contains(stage->name)) continue;
    dsl::for_each(stage->body, [&](const Expr& node) {
      if (const Read* r = node.as<Read>()) needed.insert(r->tensor);
    });
    result.stages.push_back(*stage);
  }
  std::ranges::reverse(result.stages);
  return result;
}

/// Returns the compute with one more input for each tensor that is read both by the output's stage
/// and by another stage. The output's stage reads the new input, as named operators such as conv2d
/// declare their residual. nullopt if there is no such tensor, if there are several outputs, or if
/// the output's stage is a reduction.
///
///   out = sum(...) in0[...] * in1[...] + in0[...]   ->   out = sum(...) in0[...] * in1[...] + in0_
std::optional<Bound> with_own_operands(Bound bound) {
  if (bound.compute.outputs.size() != 1 || bound.compute.stages.size() < 2) return std::nullopt;
  Stage& last = bound.compute.stages.back();
  if (last.combine != dsl::Combine::None) return std::nullopt;
  std::set<std::string> read_before;
  for (size_t i = 0; i + 1 < bound.compute.stages.size(); ++i)
    dsl::for_each(bound.compute.stages[i].body, [&](const Expr& node) {
      if (const Read* r = node.as<Read>()) read_before.insert(r->tensor);
    });
  Names own;
  dsl::for_each(last.body, [&](const Expr& node) {
    const Read* r = node.as<Read>();
    if (r && bound.compute.find_input(r->tensor) && read_before.contains(r->tensor))
      own.emplace(r->tensor, r->tensor + "_");
  });
  if (own.empty()) return std::nullopt;
  last.body = rename_tensors(last.body, own);
  for (size_t i = 0, count = bound.inputs.size(); i < count; ++i) {
    const auto found = own.find(bound.compute.inputs[i].name);
    if (found == own.end()) continue;
    Input input = bound.compute.inputs[i];
    input.name = found->second;
    if (input.shape == last.shape()) input.letters = last.letters;
    bound.compute.inputs.push_back(std::move(input));
    bound.inputs.push_back(bound.inputs[i]);
  }
  return bound;
}

const dsl::Workload* first_by_name(std::span<const Operator> operators) {
  for (const Operator& op : operators)
    if (op.workload.op != "expr") return &op.workload;
  return nullptr;
}

}  // namespace

Canonical canonical(const Compute& given) {
  const Compute compute = with_unit_axes(given);
  Names names;
  Canonical form;
  for (const std::string& input : inputs_as_read(compute)) {
    names[input] = fmt::format("in{}", form.compute.inputs.size());
    form.compute.inputs.push_back(*compute.find_input(input));
  }
  for (size_t i = 0; i < compute.outputs.size(); ++i)
    names[compute.outputs[i]] = compute.outputs.size() == 1 ? "out" : fmt::format("out{}", i);
  form.names = names;
  size_t count = 0;
  for (const Stage& stage : compute.stages)
    if (!compute.is_output(stage.name)) names[stage.name] = fmt::format("t{}", count++);
  // Letters are left out where they are the default ones.
  const auto spelled = [](const std::string& letters, size_t rank) {
    return letters == dsl::default_letters(static_cast<int>(rank)) ? "" : letters;
  };
  for (const Stage& stage : compute.stages) {
    form.compute.stages.push_back(rename_axes(stage, compute.letters_of(stage.name)));
    Stage& last = form.compute.stages.back();
    last.letters = spelled(last.letters, last.axes.size());
  }
  for (Input& input : form.compute.inputs)
    input.letters = spelled(input.letters, input.shape.size());
  form.compute.outputs = compute.outputs;
  form.compute = rename_tensors(form.compute, names);
  return form;
}

Compute inline_stages(const Compute& compute) {
  Compute result = compute;
  std::map<std::string, Reads> reads = find_reads(compute);
  std::map<std::string, Stage> inlined;
  std::vector<Stage> kept;
  for (Stage stage : result.stages) {
    stage.body = dsl::transform(stage.body, [&](const Expr& node) -> std::optional<Expr> {
      const Read* r = node.as<Read>();
      if (!r || !inlined.contains(r->tensor)) return std::nullopt;
      return body_at(inlined.at(r->tensor), r->indices);
    });
    stage.body = without_round_trips(stage.body);
    if (!compute.is_output(stage.name) && may_inline(stage, reads[stage.name]))
      inlined.emplace(stage.name, std::move(stage));
    else
      kept.push_back(std::move(stage));
  }
  result.stages = std::move(kept);
  return result;
}

Result<Operator> make_operator(const Compute& compute, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs,
                               const std::map<std::string, Constant>& constants,
                               const dsl::Workload* hint) {
  if (inputs.size() != compute.inputs.size() || outputs.size() != compute.outputs.size())
    return fail(ErrorCode::Invalid,
                fmt::format("[graph] operator '{}': {} inputs and {} outputs for the {} and {} of "
                            "its compute",
                            outputs.empty() ? "" : outputs.front(), inputs.size(), outputs.size(),
                            compute.inputs.size(), compute.outputs.size()));
  TW_RETURN_IF_ERROR(dsl::validate(compute));
  if (hint) {
    Bound bound{compute, inputs, outputs};
    for (size_t i = 0; i < inputs.size(); ++i)
      bound.compute.inputs[i].constant = constants.contains(inputs[i]);
    if (auto named = named_operator(in_canonical_form(bound), *hint)) return *named;
    if (const auto own = with_own_operands(std::move(bound)))
      if (auto named = named_operator(in_canonical_form(*own), *hint)) return *named;
  }
  const Bound form =
      in_canonical_form({bind_constants(compute, inputs, constants), inputs, outputs});
  const dsl::Accuracy accuracy = hint ? hint->accuracy : dsl::Accuracy::Fast;
  TW_TRY(dsl::Workload workload, dsl::workload(form.compute, accuracy));
  return Operator{std::move(workload), form.inputs, form.outputs};
}

Result<Operator> fuse(std::span<const Operator> operators, const std::vector<std::string>& outputs,
                      const std::map<std::string, Constant>& constants) {
  Join join;
  for (size_t i = 0; i < operators.size(); ++i) TW_RETURN_IF_ERROR(join.add(operators[i], i));
  TW_TRY(const Bound joined, join.finish(outputs));
  const Compute compute = inline_stages(without_dead_stages(joined.compute));
  return make_operator(order_operands(compute), joined.inputs, joined.outputs, constants,
                       first_by_name(operators));
}

Result<Compute> reshape(DType dtype, const std::vector<int64_t>& from,
                        const std::vector<int64_t>& to) {
  const auto size = checked_product(from);
  if (!size || size != checked_product(to))
    return fail(ErrorCode::Invalid, "[reshape] the shapes have different numbers of elements");
  std::vector<Axis> axes, extents;
  Expr position = Expr(0);
  for (size_t i = 0; i < to.size(); ++i) {
    axes.emplace_back(fmt::format("d{}", i), to[i]);
    position = position * Expr(to[i]) + Expr(axes.back());
  }
  std::vector<Expr> indices(from.size(), Expr(0));
  int64_t stride = 1;
  for (size_t i = from.size(); i-- > 0;) {
    const int64_t extent = std::max<int64_t>(from[i], 1);
    const Expr digit = stride == 1 ? position : position / Expr(stride);
    indices[i] = stride * extent == *size ? digit : digit % Expr(extent);
    if (extent == 1) indices[i] = Expr(0);
    stride *= extent;
  }
  if (from == to) indices = {axes.begin(), axes.end()};
  for (size_t i = 0; i < from.size(); ++i) extents.emplace_back(fmt::format("e{}", i), from[i]);
  const dsl::Tensor in = dsl::input("in", dtype, extents);
  return dsl::build({dsl::compute("out", axes, in.read_at(std::move(indices)))});
}

bool is_reshape(const Operator& op) {
  const Compute& compute = op.workload.compute;
  if (op.workload.op != "expr" || compute.inputs.size() != 1 || compute.outputs.size() != 1 ||
      compute.stages.size() != 1 || compute.inputs[0].type != compute.stages[0].type ||
      !compute.stages[0].body.as<Read>())
    return false;
  const auto plain =
      reshape(compute.inputs[0].type, compute.inputs[0].shape, compute.stages[0].shape());
  // Letters do not change where elements go, so they are not compared.
  Canonical given = canonical(compute);
  given.compute.inputs[0].letters.clear();
  Stage& stage = given.compute.stages[0];
  stage = rename_axes(stage, dsl::default_letters(static_cast<int>(stage.axes.size())));
  stage.letters.clear();
  Compute expected = plain ? canonical(*plain).compute : Compute{};
  given.compute.inputs[0].constant = false;
  return plain && dsl::to_line(given.compute) == dsl::to_line(expected);
}

dsl::Array permuted(const dsl::Array& array, const std::vector<size_t>& order) {
  const size_t rank = order.size(), element = static_cast<size_t>(size_bytes(array.type));
  std::vector<int64_t> strides(rank, 1);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * array.shape[i];
  dsl::Array result = {array.type, std::vector<int64_t>(rank),
                       std::vector<std::byte>(array.data.size())};
  for (size_t i = 0; i < rank; ++i) result.shape[i] = array.shape[order[i]];
  std::vector<int64_t> index(rank, 0);
  int64_t from = 0;
  for (size_t to = 0; to < result.data.size(); to += element) {
    std::memcpy(&result.data[to], &array.data[static_cast<size_t>(from) * element], element);
    for (size_t i = rank; i-- > 0;) {
      from += strides[order[i]];
      if (++index[i] < result.shape[i]) break;
      from -= strides[order[i]] * result.shape[i];
      index[i] = 0;
    }
  }
  return result;
}

std::optional<std::vector<size_t>> as_transpose(const Operator& op) {
  const Compute& compute = op.workload.compute;
  if (compute.stages.size() != 1) return std::nullopt;
  const Stage& stage = compute.stages.front();
  const Read* read = stage.combine == dsl::Combine::None ? stage.body.as<Read>() : nullptr;
  if (!read || read->indices.size() != stage.axes.size()) return std::nullopt;
  const std::vector<int64_t> shape = compute.shape_of(read->tensor);
  std::vector<size_t> position;
  std::vector<bool> seen(stage.axes.size(), false);
  for (size_t i = 0; i < read->indices.size(); ++i) {
    const auto* variable = read->indices[i].as<dsl::Var>();
    const auto found = std::ranges::find_if(
        stage.axes, [&](const Axis& axis) { return variable && axis.name == variable->name; });
    const auto axis = static_cast<size_t>(found - stage.axes.begin());
    if (found == stage.axes.end() || seen[axis] || shape[i] != found->extent) return std::nullopt;
    seen[axis] = true;
    position.push_back(axis);
  }
  return position;
}

}  // namespace tw::graph
