// SPDX-License-Identifier: Apache-2.0
#include "dsl/compute.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <variant>

#include "base/integer.h"
#include "base/text.h"
#include "dsl/layout.h"
#include "dsl/selection.h"
#include "dsl/value.h"

namespace tw::dsl {

/// The declaration to which a Tensor refers. Axes may still lack extents, which build() gives them.
class TensorNode {
 public:
  struct Source {
    Input input;  ///< its `shape` is empty; the axes below define it
    std::vector<Axis> shape;
  };
  std::variant<Source, Stage> declaration;

  /// Deletes this tensor and, without recursion, all tensors that only it reads. Recursion would
  /// overflow the stack for a long chain of tensors.
  ~TensorNode() {
    static thread_local std::vector<Stage>* waiting = nullptr;
    Stage* const stage = std::get_if<Stage>(&declaration);
    if (!stage) return;
    if (waiting) {
      waiting->push_back(std::move(*stage));
      return;
    }
    std::vector<Stage> stages;
    waiting = &stages;
    stages.push_back(std::move(*stage));
    while (!stages.empty()) const Stage deleted = take_last(stages);
    waiting = nullptr;
  }

  const std::string& name() const {
    const auto* source = std::get_if<Source>(&declaration);
    return source ? source->input.name : std::get<Stage>(declaration).name;
  }
  DType type() const {
    const auto* source = std::get_if<Source>(&declaration);
    return source ? source->input.type : std::get<Stage>(declaration).type;
  }

 private:
  static Stage take_last(std::vector<Stage>& stages) {
    Stage last = std::move(stages.back());
    stages.pop_back();
    return last;
  }
};

namespace {

/// Stands in for the extent of an axis that build() will set. It serves where a number is needed
/// that is larger than every index of the axis.
constexpr int64_t largest_unbound_extent = int64_t{1} << 40;

constexpr size_t largest_rank = 26;  // layouts name each dimension by a letter

constexpr std::string_view reserved_words[] = {"input", "weight", "output", "select",
                                               "clamp", "sum",    "prod",   "cast"};

tl::unexpected<Error> invalid(const std::string& why) {
  return fail(ErrorCode::Invalid, "[compute] " + why);
}

bool is_reserved(const std::string& name) {
  if (std::find(std::begin(reserved_words), std::end(reserved_words), name) !=
      std::end(reserved_words))
    return true;
#define X(enumerator, text, ...) \
  if (name == text) return true;
  TW_UNARY_OPS(X)
  TW_BINARY_OPS(X)
  TW_DTYPES(X)
#undef X
  return named_constant(name).has_value();
}

// ---- validate -------------------------------------------------------------------------------

/// Returns an error text if the expression is too deep or has too many nodes, else nullopt.
std::optional<std::string> size_error(const Expr& expr) {
  if (expr.node().height > tallest_expression)
    return fmt::format("an expression of more than {} levels: declare stages in between",
                       tallest_expression);
  if (expr.node().size > largest_expression)
    return fmt::format(
        "an expression of more than {} nodes when it is written out: declare stages in between",
        largest_expression);
  return std::nullopt;
}

/// Checks the size of the stage's expression. This must be done before any function that recurses
/// over the expression is called, because a deep expression would overflow the stack.
Status check_expression_size(const Stage& stage) {
  if (const auto why = size_error(stage.body))
    return invalid(fmt::format("stage '{}' has {}", stage.name, *why));
  return {};
}

/// Checks one stage. `known` has the names of inputs and earlier stages, which the stage may read.
class StageChecker {
 public:
  StageChecker(const Compute& compute, const Stage& stage, const std::set<std::string>& known)
      : compute_(compute), stage_(stage), known_(known) {}

  Status check() {
    TW_RETURN_IF_ERROR(check_axes());
    if (!stage_.body.defined()) return wrong("has no expression");
    TW_RETURN_IF_ERROR(check_expression_size(stage_));
    if (stage_.body.type() != stage_.type)
      return wrong(fmt::format("has type {}, its expression {}: cast the expression",
                               to_string(stage_.type), to_string(stage_.body.type())));
    if (stage_.combine == Combine::None && !stage_.reduction.empty())
      return wrong("has reduction axes and no reduction");
    if (stage_.combine != Combine::None && stage_.reduction.empty())
      return wrong(fmt::format("has a '{}' over no axis", to_string(stage_.combine)));
    if (stage_.combine != Combine::None && stage_.type == Bool)
      return wrong("reduces bools: cast to an integer first");
    if (stage_.scan) TW_RETURN_IF_ERROR(check_scan(*stage_.scan));
    return check_expr(stage_.body);
  }

 private:
  tl::unexpected<Error> wrong(const std::string& why) const {
    return invalid(fmt::format("stage '{}' {}", stage_.name, why));
  }

  Status check_scan(const Scan& scan) const {
    const auto along = std::find_if(stage_.axes.begin(), stage_.axes.end(),
                                    [&](const Axis& axis) { return axis.name == scan.along; });
    if (along == stage_.axes.end() || stage_.combine == Combine::None ||
        stage_.reduction.size() != 1)
      return wrong("scans over a range that is not 'k <= j' or 'k < j' with an axis 'j' of it");
    if (stage_.reduction[0].extent != along->extent)
      return wrong(fmt::format("scans {} terms along '{}', whose extent is {}",
                               stage_.reduction[0].extent, along->name, along->extent));
    if (uses_var(stage_.body, scan.along))
      return wrong(
          fmt::format("uses '{}' in the terms of its scan along '{}': they are a function "
                      "of '{}' and the other axes",
                      scan.along, scan.along, stage_.reduction[0].name));
    return {};
  }

  Status check_axes() {
    for (const auto* axes : {&stage_.axes, &stage_.reduction})
      for (const Axis& axis : *axes) {
        if (!is_valid_name(axis.name))
          return wrong(fmt::format("has an axis '{}': not a name", axis.name));
        // Generated programs use one name space for loops and buffers, so an axis must not have the
        // name of a tensor.
        if (compute_.find_input(axis.name) || compute_.find_stage(axis.name))
          return wrong(
              fmt::format("has an axis '{}', which names a tensor too: rename one", axis.name));
        if (!axes_.insert(axis.name).second)
          return wrong(fmt::format("has two axes '{}'", axis.name));
      }
    std::vector<int64_t> domain = stage_.shape();
    if (!stage_.scan)
      for (const Axis& axis : stage_.reduction) domain.push_back(axis.extent);
    if (!checked_product(domain))
      return fail(
          ErrorCode::Unsupported,
          fmt::format("[compute] extent overflow: the iterations of stage '{}' leave 64 bits",
                      stage_.name));
    return {};
  }

  Status check_expr(const Expr& expr) {
    return dsl::visit(
        expr, [](const Const&) { return Status{}; }, [&](const Var& v) { return check_var(v); },
        [&](const Read& r) { return check_read(r); },
        [&](const Unary& u) { return check_unary(u); },
        [&](const Binary& b) { return check_binary(b); },
        [&](const Select& s) { return check_select(s); },
        [&](const Cast& c) { return check_expr(c.a); });
  }

  Status check_unary(const Unary& u) {
    if (const auto why = type_error(u.op, u.a.type())) return wrong("is ill-typed: " + *why);
    return check_expr(u.a);
  }

  Status check_select(const Select& s) {
    TW_RETURN_IF_ERROR(check_expr(s.condition));
    TW_RETURN_IF_ERROR(check_expr(s.a));
    return check_expr(s.b);
  }

  Status check_var(const Var& v) {
    if (axes_.count(v.name)) return {};
    std::string hint;
    if (const auto near = nearest(v.name, {axes_.begin(), axes_.end()}))
      hint = fmt::format("; did you mean '{}'?", *near);
    return wrong(fmt::format("uses '{}', which is no axis of it{}", v.name, hint));
  }

  Status check_read(const Read& r) {
    if (!known_.count(r.tensor)) {
      std::string hint;
      if (const auto near = nearest(r.tensor, {known_.begin(), known_.end()}))
        hint = fmt::format("; did you mean '{}'?", *near);
      return wrong(fmt::format("reads '{}', which is no input or earlier stage{}", r.tensor, hint));
    }
    const size_t rank = compute_.shape_of(r.tensor).size();
    if (rank != r.indices.size())
      return wrong(fmt::format("reads '{}' with {} indices, it has {} dimensions", r.tensor,
                               r.indices.size(), rank));
    if (r.type != compute_.type_of(r.tensor))
      return wrong(fmt::format("reads '{}' as {}, it is {}", r.tensor, to_string(r.type),
                               to_string(compute_.type_of(r.tensor))));
    for (const Expr& index : r.indices) {
      if (index.type() != Int64)
        return wrong(fmt::format("indexes '{}' with a {}: cast it with i64()", r.tensor,
                                 to_string(index.type())));
      TW_RETURN_IF_ERROR(check_expr(index));
    }
    return {};
  }

  Status check_binary(const Binary& b) {
    if (const auto why = type_error(b.op, b.a.type())) return wrong("is ill-typed: " + *why);
    if (const auto why = divisor_error(b.op, b.b)) return wrong(*why);
    TW_RETURN_IF_ERROR(check_expr(b.a));
    return check_expr(b.b);
  }

  const Compute& compute_;
  const Stage& stage_;
  const std::set<std::string>& known_;
  std::set<std::string> axes_;
};

Status check_tensor(const std::string& name, DType type, const std::vector<int64_t>& shape,
                    const std::string& letters) {
  if (!is_valid_name(name)) return invalid(fmt::format("'{}' is no name for a tensor", name));
  if (shape.size() > largest_rank)
    return invalid(fmt::format("'{}' has {} dimensions, at most {} are supported", name,
                               shape.size(), largest_rank));
  for (const int64_t extent : shape)
    if (extent < 0)
      return invalid(fmt::format("'{}' has an extent of {}, expected 0 or more", name, extent));
  const auto elements = checked_product(shape);
  if (!elements || !checked_mul(*elements, size_bytes(type)))
    return fail(ErrorCode::Unsupported,
                fmt::format("[compute] extent overflow: '{}' with extents {} leaves 64 bits", name,
                            fmt::join(shape, " x ")));
  if (letters.empty()) return {};
  std::set<char> distinct(letters.begin(), letters.end());
  const bool capitals =
      std::all_of(letters.begin(), letters.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  if (letters.size() != shape.size() || distinct.size() != letters.size() || !capitals)
    return invalid(fmt::format("'{}' has the letters '{}', expected {} distinct capitals", name,
                               letters, shape.size()));
  return {};
}

/// Returns the number of arithmetic operations of an expression, as count_flops() counts them.
/// Operations on i64 and bool do not count.
double operations(const Expr& expr) {
  const auto counted = [](const Expr& operand) {
    return operand.type() != Int64 && operand.type() != Bool ? 1.0 : 0.0;
  };
  return dsl::visit(
      expr, [&](const Unary& u) { return operations(u.a) + counted(u.a); },
      [&](const Binary& b) { return operations(b.a) + operations(b.b) + counted(b.a); },
      [](const Select& s) { return operations(s.condition) + operations(s.a) + operations(s.b); },
      [](const Cast& c) { return operations(c.a); }, always<Const, Var, Read>(0.0));
}

// ---- build ----------------------------------------------------------------------------------

Expr without_sources(const Expr& expr) {
  return transform(expr, [](const Expr& e) -> std::optional<Expr> {
    const Read* r = e.as<Read>();
    if (!r || !r->source) return std::nullopt;
    return read(r->tensor, r->indices, r->type);
  });
}

class Builder {
 public:
  explicit Builder(const std::vector<std::pair<Axis, int64_t>>& extents) {
    for (const auto& [axis, extent] : extents) extents_[axis.name] = extent;
  }

  /// Adds all tensors on which the tensor depends, and then the tensor itself.
  Status add(const std::shared_ptr<const TensorNode>& node) {
    TW_RETURN_IF_ERROR(enter(node));
    while (!open_.empty()) {
      Open& last = open_.back();
      if (last.next < last.sources.size()) {
        const auto source = last.sources[last.next++];
        TW_RETURN_IF_ERROR(enter(source));
      } else {
        Stage stage = *last.stage;
        open_.pop_back();
        TW_RETURN_IF_ERROR(add_stage(std::move(stage)));
      }
    }
    return {};
  }

  Compute compute;

 private:
  /// A stage that waits until the tensors that it reads (`sources`) are added. A stack of these
  /// replaces recursion, which a long chain of stages would overflow.
  struct Open {
    const Stage* stage;
    std::vector<std::shared_ptr<const TensorNode>> sources;
    size_t next = 0;  ///< position in `sources` of the next tensor to add
  };

  /// Adds an input, or pushes a stage to the stack `open_`. Does nothing for a tensor that was
  /// entered before.
  Status enter(const std::shared_ptr<const TensorNode>& node) {
    const auto [known, inserted] = nodes_.emplace(node->name(), node);
    if (!inserted) {
      if (known->second == node) return {};
      return invalid(fmt::format("two tensors are named '{}': rename one", node->name()));
    }
    if (const auto* source = std::get_if<TensorNode::Source>(&node->declaration))
      return add_input(*source);
    const Stage& stage = std::get<Stage>(node->declaration);
    if (!stage.body.defined())
      return invalid(fmt::format("stage '{}' has no expression", stage.name));
    TW_RETURN_IF_ERROR(check_expression_size(stage));
    open_.push_back({&stage, {}});
    for_each(stage.body, [&](const Expr& e) {
      if (const Read* r = e.as<Read>(); r && r->source) open_.back().sources.push_back(r->source);
    });
    return {};
  }

  Result<int64_t> bound(const Axis& axis, const std::string& tensor) const {
    if (axis.extent >= 0) return axis.extent;
    const auto found = extents_.find(axis.name);
    if (axis.extent == -1 && found != extents_.end()) return found->second;
    if (axis.extent == Axis::too_large)
      return fail(ErrorCode::Unsupported,
                  fmt::format("[compute] extent overflow: axis '{}' of '{}' leaves 64 bits",
                              axis.name, tensor));
    if (axis.extent < -1)
      return invalid(fmt::format("axis '{}' of '{}' has an extent of {}, expected 0 or more",
                                 axis.name, tensor, axis.extent));
    return invalid(fmt::format("axis '{}' of '{}' has no extent: bind it, as in {{{}, 64}}",
                               axis.name, tensor, axis.name));
  }

  /// Returns the extent of the axis along which the stage scans. Returns 0 if the stage has no such
  /// axis; validate() reports that error.
  static int64_t extent_along(const Stage& stage) {
    for (const Axis& axis : stage.axes)
      if (axis.name == stage.scan->along) return axis.extent;
    return 0;
  }

  Status add_input(const TensorNode::Source& source) {
    Input declared = source.input;
    for (const Axis& axis : source.shape) {
      TW_TRY(const int64_t extent, bound(axis, declared.name));
      declared.shape.push_back(extent);
    }
    compute.inputs.push_back(std::move(declared));
    return {};
  }

  Status add_stage(Stage stage) {
    for (Axis& axis : stage.axes) {
      TW_TRY(axis.extent, bound(axis, stage.name));
    }
    for (Axis& axis : stage.reduction) {
      if (stage.scan) axis.extent = extent_along(stage);
      TW_TRY(axis.extent, bound(axis, stage.name));
    }
    stage.body = without_sources(stage.body);
    compute.stages.push_back(std::move(stage));
    return {};
  }

  std::map<std::string, int64_t> extents_;
  std::map<std::string, std::shared_ptr<const TensorNode>> nodes_;
  std::vector<Open> open_;  ///< a stack; each entry waits for the entry above it
};

Tensor declare(std::variant<TensorNode::Source, Stage> declaration) {
  const auto node = std::make_shared<TensorNode>();
  node->declaration = std::move(declaration);
  return Tensor(node);
}

/// Makes the scan over the range `k <= j` or `k < j`. For any other range it makes a scan with an
/// empty `along`, which validate() rejects.
Reduction scan(Combine combine, const Expr& range, Expr body) {
  const Binary* b = range.as<Binary>();
  const bool inclusive = b && b->op == BinaryOp::Le;
  const Var* term = inclusive || (b && b->op == BinaryOp::Lt) ? b->a.as<Var>() : nullptr;
  const Var* along = term ? b->b.as<Var>() : nullptr;
  if (!along) return {combine, {Axis("k", 0)}, std::move(body), Scan{}};
  return {combine, {Axis(term->name)}, std::move(body), Scan{along->name, inclusive}};
}

Tensor declare_input(const std::string& name, DType type, const std::vector<Axis>& shape,
                     const std::string& letters, bool constant) {
  return declare(TensorNode::Source{Input{name, type, {}, constant, letters}, shape});
}

}  // namespace

std::string_view to_string(Combine combine) {
  constexpr std::string_view names[] = {"", "sum", "prod", "min", "max"};
  return names[static_cast<int>(combine)];
}

Expr identity(Combine combine, DType type) {
  if (combine == Combine::None || combine == Combine::Sum) return constant_int(type, 0);
  if (combine == Combine::Prod) return constant_int(type, 1);
  const bool largest = combine == Combine::Min;
  if (is_float(type)) {
    const double inf = std::numeric_limits<double>::infinity();
    return constant(type, largest ? inf : -inf);
  }
  const IntegerLimits limits = integer_limits(type);
  return constant_int(type, largest ? limits.largest : limits.least);
}

std::vector<int64_t> Stage::shape() const {
  std::vector<int64_t> extents;
  for (const Axis& axis : axes) extents.push_back(axis.extent);
  return extents;
}

size_t Stage::scanned_axis() const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == scan->along) return i;
  TW_CHECK(false, "a valid scan is along an axis of its stage");
}

double elements_of(const std::vector<int64_t>& shape) {
  double elements = 1;
  for (const int64_t extent : shape) elements *= static_cast<double>(extent);
  return elements;
}

double evaluations_of(const Stage& stage) {
  if (stage.scan) return elements_of(stage.shape());
  const std::vector<std::string> selected = selection_of(stage).selected;
  double evaluations = 1;
  for (const auto* axes : {&stage.axes, &stage.reduction})
    for (const Axis& axis : *axes)
      if (axis.extent == 0 ||
          std::find(selected.begin(), selected.end(), axis.name) == selected.end())
        evaluations *= static_cast<double>(axis.extent);
  return evaluations;
}

const Input* Compute::find_input(const std::string& name) const {
  for (const Input& i : inputs)
    if (i.name == name) return &i;
  return nullptr;
}

const Stage* Compute::find_stage(const std::string& name) const {
  for (const Stage& s : stages)
    if (s.name == name) return &s;
  return nullptr;
}

bool Compute::is_output(const std::string& name) const {
  return std::find(outputs.begin(), outputs.end(), name) != outputs.end();
}

std::vector<int64_t> Compute::shape_of(const std::string& tensor) const {
  if (const Input* i = find_input(tensor)) return i->shape;
  const Stage* stage = find_stage(tensor);
  TW_CHECK(stage, "no such tensor");
  return stage->shape();
}

DType Compute::type_of(const std::string& tensor) const {
  if (const Input* i = find_input(tensor)) return i->type;
  const Stage* stage = find_stage(tensor);
  TW_CHECK(stage, "no such tensor");
  return stage->type;
}

std::string Compute::letters_of(const std::string& tensor) const {
  const Input* i = find_input(tensor);
  const Stage* stage = i ? nullptr : find_stage(tensor);
  TW_CHECK(i || stage, "no such tensor");
  const std::string& letters = i ? i->letters : stage->letters;
  return letters.empty() ? default_letters(static_cast<int>(shape_of(tensor).size())) : letters;
}

std::vector<const Stage*> Compute::consumers(const std::string& tensor) const {
  std::vector<const Stage*> found;
  for (const Stage& stage : stages) {
    bool reads = false;
    for_each(stage.body, [&](const Expr& e) {
      if (const Read* r = e.as<Read>()) reads |= r->tensor == tensor;
    });
    if (reads) found.push_back(&stage);
  }
  return found;
}

bool is_valid_name(const std::string& name) {
  const auto is_letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (name.empty() || !is_letter(name[0])) return false;
  for (const char c : name)
    if (!is_letter(c) && !(c >= '0' && c <= '9')) return false;
  return !is_reserved(name);
}

Status check_size(const Expr& expr) {
  if (const auto why = size_error(expr)) return invalid("this is " + *why);
  return {};
}

Status validate(const Compute& compute) {
  if (compute.inputs.size() + compute.stages.size() > most_declarations)
    return invalid(fmt::format("more than {} declarations: make several workloads of them",
                               most_declarations));
  std::set<std::string> known;
  for (const Input& i : compute.inputs) {
    TW_RETURN_IF_ERROR(check_tensor(i.name, i.type, i.shape, i.letters));
    if (!known.insert(i.name).second) return invalid(fmt::format("'{}' is declared twice", i.name));
  }
  for (const Stage& stage : compute.stages) {
    TW_RETURN_IF_ERROR(check_tensor(stage.name, stage.type, stage.shape(), stage.letters));
    for (const Axis& axis : stage.reduction)
      if (axis.extent < 0)
        return invalid(fmt::format("axis '{}' of '{}' has an extent of {}, expected 0 or more",
                                   axis.name, stage.name, axis.extent));
    TW_RETURN_IF_ERROR(StageChecker(compute, stage, known).check());
    if (!known.insert(stage.name).second)
      return invalid(fmt::format("'{}' is declared twice", stage.name));
  }
  if (compute.outputs.empty()) return invalid("there is no output: name a stage");
  std::set<std::string> outputs;
  for (const std::string& name : compute.outputs) {
    if (!compute.find_stage(name)) return invalid(fmt::format("the output '{}' is no stage", name));
    if (!outputs.insert(name).second) return invalid(fmt::format("'{}' is an output twice", name));
  }
  return {};
}

double count_flops(const Compute& compute) {
  double flops = 0;
  for (const Stage& stage : compute.stages)
    flops += evaluations_of(stage) * (operations(stage.body) + (stage.combine != Combine::None));
  return flops;
}

Traffic compulsory_traffic(const Compute& compute) {
  std::map<std::string, double> reads;
  for (const Stage& stage : compute.stages) {
    const double evaluations = evaluations_of(stage);
    for_each(stage.body, [&](const Expr& e) {
      if (const Read* read = e.as<Read>()) reads[read->tensor] += evaluations;
    });
  }
  Traffic traffic;
  for (const Input& input : compute.inputs)
    traffic.read_bytes +=
        std::min(elements_of(input.shape), reads[input.name]) * size_bytes(input.type);
  for (const std::string& output : compute.outputs)
    traffic.written_bytes +=
        elements_of(compute.shape_of(output)) * size_bytes(compute.type_of(output));
  return traffic;
}

Expr Tensor::read_at(std::vector<Expr> indices) const {
  return read(node_->name(), std::move(indices), node_->type(), node_);
}

Reduction sum(std::vector<Axis> axes, Expr body) {
  return {Combine::Sum, std::move(axes), std::move(body)};
}
Reduction prod(std::vector<Axis> axes, Expr body) {
  return {Combine::Prod, std::move(axes), std::move(body)};
}
Reduction max_over(std::vector<Axis> axes, Expr body) {
  return {Combine::Max, std::move(axes), std::move(body)};
}
Reduction min_over(std::vector<Axis> axes, Expr body) {
  return {Combine::Min, std::move(axes), std::move(body)};
}

Reduction sum(Axis axis, Expr body) {
  return sum(std::vector<Axis>{std::move(axis)}, std::move(body));
}
Reduction prod(Axis axis, Expr body) {
  return prod(std::vector<Axis>{std::move(axis)}, std::move(body));
}
Reduction max_over(Axis axis, Expr body) {
  return max_over(std::vector<Axis>{std::move(axis)}, std::move(body));
}
Reduction min_over(Axis axis, Expr body) {
  return min_over(std::vector<Axis>{std::move(axis)}, std::move(body));
}

Reduction sum(Expr range, Expr body) { return scan(Combine::Sum, range, std::move(body)); }
Reduction prod(Expr range, Expr body) { return scan(Combine::Prod, range, std::move(body)); }
Reduction max_over(Expr range, Expr body) { return scan(Combine::Max, range, std::move(body)); }
Reduction min_over(Expr range, Expr body) { return scan(Combine::Min, range, std::move(body)); }

Position argmax(Axis axis, Expr value) { return {true, std::move(axis), std::move(value)}; }
Position argmin(Axis axis, Expr value) { return {false, std::move(axis), std::move(value)}; }

std::vector<Stage> position_stages(const std::string& name, const std::vector<Axis>& axes,
                                   const Position& position, const std::string& letters) {
  const auto& [of_largest, axis, value] = position;
  const DType type = value.type();
  if (is_float(type) && !value.as<Read>()) {
    std::vector<Axis> all = axes;
    all.push_back(axis);
    const Stage rounded{name + "_value", type, all, {}, Combine::None, value, {}};
    const Expr element = read(rounded.name, {all.begin(), all.end()}, type);
    std::vector<Stage> stages = position_stages(name, axes, {of_largest, axis, element}, letters);
    stages.insert(stages.begin(), rounded);
    return stages;
  }
  const Combine combine = of_largest ? Combine::Max : Combine::Min;
  const std::vector<Expr> at(axes.begin(), axes.end());
  // Kernels for processors assume that no operand of max or of a comparison is NaN, so NaNs are
  // replaced first. `x <= inf` is false for NaN alone.
  const Expr is_number =
      is_float(type) ? value <= identity(Combine::Min, type) : constant_int(Bool, 1);
  const Expr key = select(is_number, value, identity(combine, type));
  const Stage peak{name + "_peak", type, axes, {axis}, combine, key, letters};
  const int64_t extent = axis.extent >= 0 ? axis.extent : largest_unbound_extent;
  const Expr is_peak = eq(key, read(peak.name, at, type));
  const Expr index = select(is_peak, Expr(axis), Expr(extent - 1));
  if (!is_float(type)) return {peak, {name, Int64, axes, {axis}, Combine::Min, index, letters}};
  // An element that is NaN gets a negative number, which the minimum below prefers to every index.
  const Expr ordered = select(is_number, index, Expr(axis) - Expr(extent));
  const Stage first{name + "_first", Int64, axes, {axis}, Combine::Min, ordered, letters};
  const Expr result = read(first.name, at, Int64) % Expr(extent);
  return {peak, first, {name, Int64, axes, {}, Combine::None, result, letters}};
}

Tensor input(const std::string& name, DType type, const std::vector<Axis>& shape,
             const std::string& letters) {
  return declare_input(name, type, shape, letters, false);
}

Tensor weight(const std::string& name, DType type, const std::vector<Axis>& shape,
              const std::string& letters) {
  return declare_input(name, type, shape, letters, true);
}

Tensor compute(const std::string& name, const std::vector<Axis>& axes, Expr body,
               const std::string& letters) {
  const DType type = body.type();
  return declare(Stage{name, type, axes, {}, Combine::None, std::move(body), letters});
}

Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Reduction& reduction,
               const std::string& letters) {
  return declare(Stage{name, reduction.body.type(), axes, reduction.axes, reduction.combine,
                       reduction.body, letters, reduction.scan});
}

Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Position& position,
               const std::string& letters) {
  std::vector<Tensor> declared;
  for (Stage& stage : position_stages(name, axes, position, letters)) {
    stage.body = transform(stage.body, [&](const Expr& e) -> std::optional<Expr> {
      const Read* r = e.as<Read>();
      for (const Tensor& tensor : declared)
        if (r && r->tensor == tensor.node()->name()) return tensor.read_at(r->indices);
      return std::nullopt;
    });
    declared.push_back(declare(std::move(stage)));
  }
  return declared.back();
}

Result<Compute> build(const std::vector<Tensor>& outputs,
                      const std::vector<std::pair<Axis, int64_t>>& extents) {
  Builder builder(extents);
  for (const Tensor& output : outputs) {
    TW_RETURN_IF_ERROR(builder.add(output.node()));
    const auto* stage = std::get_if<Stage>(&output.node()->declaration);
    if (!stage)
      return invalid(
          fmt::format("the output '{}' is an input: declare a stage", output.node()->name()));
    builder.compute.outputs.push_back(stage->name);
  }
  TW_RETURN_IF_ERROR(validate(builder.compute));
  return std::move(builder.compute);
}

}  // namespace tw::dsl
