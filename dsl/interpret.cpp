// SPDX-License-Identifier: Apache-2.0
#include "dsl/interpret.h"

#include <fmt/format.h>

#include "base/integer.h"
#include "dsl/interpreter.h"

namespace tw::dsl {
namespace {

/// The arithmetic of the interpreter: floats are computed in double, and integers in int64 with
/// wrapping.
struct Definition {
  using Number = Value;

  static Number of(DType, Value a) { return a; }
  static Value value(Number a) { return a; }
  static Number apply(BinaryOp op, DType operands, DType result, Number a, Number b) {
    return dsl::apply(op, operands, result, a, b);
  }
  static Number apply(UnaryOp op, DType type, Number a) { return dsl::apply(op, type, a); }
  static Number convert(DType from, DType to, Number a) { return dsl::convert(from, to, a); }
  static Number rounded(DType type, Number a) { return dsl::rounded(type, a); }
  static Number depending(Number number, Number) { return number; }

  class Total {
   public:
    explicit Total(const Stage& stage)
        : operation_(operation(stage.combine)),
          type_(stage.type),
          total_(constant_of(identity(stage.combine, stage.type))) {}
    void add(Number term) {
      if (is_compensated())
        sum_.add(term.f);
      else
        total_ = dsl::apply(operation_, type_, type_, total_, term);
    }
    Number result() const { return is_compensated() ? Value{sum_.value(), 0} : total_; }

   private:
    /// Only sums of f64 need compensation. Terms of narrower types have fewer bits than a double,
    /// so their sums lose nothing that matters.
    bool is_compensated() const { return operation_ == BinaryOp::Add && type_ == Float64; }

    BinaryOp operation_;
    DType type_;
    Number total_;
    CompensatedSum sum_;
  };
};

}  // namespace

Status check_inputs(const Compute& compute, const Arrays& inputs) {
  for (const Input& input : compute.inputs) {
    const auto found = inputs.find(input.name);
    if (found == inputs.end())
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is missing", input.name));
    const Array& array = found->second;
    const bool same = array.type == input.type && array.shape == input.shape;
    const auto elements = checked_product(input.shape);
    if (!same || !elements || array.size() != *elements)
      return fail(ErrorCode::Usage,
                  fmt::format("[interpret] the input '{}' is {}[{}], expected {}[{}]", input.name,
                              to_string(array.type), fmt::join(array.shape, ", "),
                              to_string(input.type), fmt::join(input.shape, ", ")));
  }
  return {};
}

Error no_such_tensor(const std::string& name) {
  return {ErrorCode::Usage, fmt::format("[interpret] there is no tensor '{}'", name)};
}

Error outside_of(const std::string& tensor, const std::vector<int64_t>& indices,
                 const std::vector<int64_t>& shape) {
  return {ErrorCode::Invalid,
          fmt::format("[interpret] {}[{}] is read, '{}' has the shape [{}]: guard the read with "
                      "select()",
                      tensor, fmt::join(indices, ", "), tensor, fmt::join(shape, ", "))};
}

BinaryOp operation(Combine combine) {
  switch (combine) {
    case Combine::Sum:
      return BinaryOp::Add;
    case Combine::Prod:
      return BinaryOp::Mul;
    case Combine::Min:
      return BinaryOp::Min;
    default:
      return BinaryOp::Max;
  }
}

Value constant_of(const Expr& literal) {
  const Const& c = *literal.as<Const>();
  return {c.float_value, c.int_value};
}

Result<Arrays> interpret(const Compute& compute, const Arrays& inputs) {
  TW_RETURN_IF_ERROR(validate(compute));
  TW_RETURN_IF_ERROR(check_inputs(compute, inputs));
  return Interpreter<Definition>(compute, inputs).run();
}

Result<double> evaluate_at(const Compute& compute, const Arrays& inputs, const std::string& name,
                           const std::vector<int64_t>& indices) {
  TW_RETURN_IF_ERROR(validate(compute));
  TW_RETURN_IF_ERROR(check_inputs(compute, inputs));
  TW_TRY(const Value value, Interpreter<Definition>(compute, inputs).sample(name, indices));
  return is_float(compute.type_of(name)) ? value.f : static_cast<double>(value.i);
}

}  // namespace tw::dsl
