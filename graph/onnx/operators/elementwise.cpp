// SPDX-License-Identifier: Apache-2.0
// Functions of one element: activations, arithmetic, comparisons, casts. Values of f16 and bf16 are
// computed in f32 and rounded once; remainders of floats are computed in f64. Unlike in ONNX, Min,
// Max, Relu and Clip ignore a NaN instead of returning it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "graph/onnx/declaration.h"
#include "graph/onnx/hyperbolic.h"
#include "graph/onnx/operators.h"

namespace tw::graph::onnx {
namespace {

/// Converts a result of floats back to the type of the operands. Bools and integers stay as they
/// are.
Expr narrow(const Expr& value, DType type) {
  return is_float(value.type()) ? cast(type, value) : value;
}

// ---- one operand ----------------------------------------------------------------------------

Expr clamped(const Expr& x, double low, double high) {
  return max(number(x, low), min(number(x, high), x));
}

Expr sign(const Expr& x) {
  const Expr zero = number(x, 0), one = number(x, 1);
  if (!is_float(x.type()) && !is_signed(x.type())) return min(x, one);
  return select(zero < x, one, select(x < zero, -one, zero));
}

/// ~x of an integer in two's complement.
Expr complement(const Expr& x) {
  return is_signed(x.type()) ? -x - number(x, 1) : dsl::identity(dsl::Combine::Min, x.type()) - x;
}

enum class Domain { Floats, Numbers, Bools, Integers };

/// Returns the sum of coefficients times powers of x, the highest power first.
Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {
  Expr sum;
  for (const double c : coefficients) sum = sum.defined() ? sum * x + number(x, c) : number(x, c);
  return sum;
}

/// Returns the angle in radians whose tangent is x, after atan() of Moshier's Cephes library: the
/// argument is reduced to a t of at most 0.66 in magnitude, for which t + t^3 p(t^2) / q(t^2) is
/// accurate.
Expr inverse_tangent(const Expr& x) {
  const Expr a = abs(x), one = number(x, 1), zero = number(x, 0);
  const Expr is_large = number(x, 2.41421356237309505) < a, is_middle = number(x, 0.66) < a;
  const Expr t = select(is_large, -one / a, select(is_middle, (a - one) / (a + one), a));
  const Expr base = select(is_large, number(x, std::numbers::pi / 2),
                           select(is_middle, number(x, std::numbers::pi / 4), zero));
  const Expr z = t * t;
  const Expr p = polynomial(
      z, {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
          -1.228866684490136173410e2, -6.485021904942025371773e1});
  const Expr q = polynomial(
      z, {1, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
          4.853903996359136964868e2, 1.945506571482613964425e2});
  const Expr angle = base + (t + t * z * p / q);
  return select(x < zero, -angle, angle);
}

Expr inverse_sine(const Expr& x) {
  const Expr one = number(x, 1);
  return inverse_tangent(x / sqrt((one - x) * (one + x)));
}

Expr inverse_cosine(const Expr& x) {
  const Expr one = number(x, 1);
  return number(x, 2) * inverse_tangent(sqrt((one - x) / (one + x)));
}

struct Function {
  std::string_view op_type;
  Domain domain;
  Expr (*apply)(const Expr& x);
};

constexpr Function functions[] = {
    {"Abs", Domain::Numbers, [](const Expr& x) { return is_signed(x.type()) ? abs(x) : x; }},
    {"Acos", Domain::Floats, inverse_cosine},
    {"Acosh", Domain::Floats, inverse_hyperbolic_cosine},
    {"Asin", Domain::Floats, inverse_sine},
    {"Asinh", Domain::Floats, inverse_hyperbolic_sine},
    {"Atan", Domain::Floats, inverse_tangent},
    {"Atanh", Domain::Floats, inverse_hyperbolic_tangent},
    {"BitwiseNot", Domain::Integers, complement},
    {"Ceil", Domain::Floats, [](const Expr& x) { return -floor(-x); }},
    {"Cos", Domain::Floats, [](const Expr& x) { return cos(x); }},
    {"Cosh", Domain::Floats, [](const Expr& x) { return number(x, 0.5) * (exp(x) + exp(-x)); }},
    {"Erf", Domain::Floats, [](const Expr& x) { return erf(x); }},
    {"Exp", Domain::Floats, [](const Expr& x) { return exp(x); }},
    {"Floor", Domain::Floats, [](const Expr& x) { return floor(x); }},
    {"HardSwish", Domain::Floats,
     [](const Expr& x) { return x * clamped(x / number(x, 6) + number(x, 0.5), 0, 1); }},
    // Kernels may assume that there is no NaN, but not in this comparison: docs/expressions.md.
    {"IsNaN", Domain::Floats,
     [](const Expr& x) { return !(x <= dsl::identity(dsl::Combine::Min, x.type())); }},
    {"Log", Domain::Floats, [](const Expr& x) { return log(x); }},
    {"Mish", Domain::Floats, [](const Expr& x) { return x * tanh(softplus(x)); }},
    {"Neg", Domain::Numbers, [](const Expr& x) { return -x; }},
    {"Not", Domain::Bools, [](const Expr& x) { return !x; }},
    {"Reciprocal", Domain::Floats, [](const Expr& x) { return number(x, 1) / x; }},
    {"Relu", Domain::Numbers, [](const Expr& x) { return max(x, number(x, 0)); }},
    {"Round", Domain::Floats, dsl::round},
    {"Sigmoid", Domain::Floats, logistic},
    {"Sign", Domain::Numbers, sign},
    {"Sin", Domain::Floats, [](const Expr& x) { return sin(x); }},
    {"Sinh", Domain::Floats, hyperbolic_sine},
    {"Softplus", Domain::Floats, softplus},
    {"Softsign", Domain::Floats, [](const Expr& x) { return x / (number(x, 1) + abs(x)); }},
    {"Sqrt", Domain::Floats, [](const Expr& x) { return sqrt(x); }},
    {"Tan", Domain::Floats, [](const Expr& x) { return sin(x) / cos(x); }},
    {"Tanh", Domain::Floats, [](const Expr& x) { return tanh(x); }},
};

Status check_domain(const Node& node, Domain domain, DType type) {
  const bool fits = domain == Domain::Floats     ? is_float(type)
                    : domain == Domain::Bools    ? type == Bool
                    : domain == Domain::Integers ? !is_float(type) && type != Bool
                                                 : type != Bool;
  if (fits) return {};
  return node.unsupported(fmt::format("the data type {}", to_string(type)));
}

/// Adds the operator out = f(x).
template <typename F>
Status add_elementwise(const Node& node, Builder& builder, const F& f) {
  const Value& value = node.input(0);
  Declaration declaration(builder);
  const std::vector<Axis> axes = axes_of(value.type.shape);
  const Expr x = wide(declaration.read(value).read_at(at(axes)));
  TW_TRY(const Expr result, f(x));
  return declaration.add(compute("out", axes, narrow(result, value.type.dtype)), node.outputs[0]);
}

}  // namespace

Status convert_function(const Node& node, Builder& builder) {
  const auto* found = std::ranges::find(functions, node.op_type, &Function::op_type);
  TW_CHECK(found != std::end(functions), "a row for each operator of the table");
  TW_RETURN_IF_ERROR(check_domain(node, found->domain, node.input(0).type.dtype));
  return add_elementwise(node, builder,
                         [&](const Expr& x) -> Result<Expr> { return found->apply(x); });
}

// ---- one operand and attributes -------------------------------------------------------------

namespace {

/// A number that a function reads from the attribute `name`, or `otherwise` if the attribute is
/// absent. A function has up to two.
struct Parameter {
  std::string_view name;
  double otherwise;
};
struct ParametricFunction {
  std::string_view op_type;
  Parameter first, second;
  Expr (*apply)(const Expr& x, double first, double second);
};

Expr elu(const Expr& x, double alpha) {
  return select(x < number(x, 0), number(x, alpha) * (exp(x) - number(x, 1)), x);
}

Expr shrink(const Expr& x, double bias, double limit) {
  return select(x < number(x, -limit), x + number(x, bias),
                select(number(x, limit) < x, x - number(x, bias), number(x, 0)));
}

constexpr Parameter no_parameter = {"", 0};

constexpr ParametricFunction parametric_functions[] = {
    {"Celu",
     {"alpha", 1},
     no_parameter,
     [](const Expr& x, double alpha, double) {
       const Expr negative = number(x, alpha) * (exp(x / number(x, alpha)) - number(x, 1));
       return select(x < number(x, 0), negative, x);
     }},
    {"Elu",
     {"alpha", 1},
     no_parameter,
     [](const Expr& x, double alpha, double) { return elu(x, alpha); }},
    {"HardSigmoid",
     {"alpha", 0.2},
     {"beta", 0.5},
     [](const Expr& x, double alpha, double beta) {
       return clamped(number(x, alpha) * x + number(x, beta), 0, 1);
     }},
    {"LeakyRelu",
     {"alpha", 0.01},
     no_parameter,
     [](const Expr& x, double alpha, double) {
       return select(x < number(x, 0), number(x, alpha) * x, x);
     }},
    {"Selu",
     {"alpha", 1.67326319217681884765625},
     {"gamma", 1.05070102214813232421875},
     [](const Expr& x, double alpha, double gamma) { return number(x, gamma) * elu(x, alpha); }},
    {"Shrink", {"bias", 0}, {"lambd", 0.5}, shrink},
    {"Swish",
     {"alpha", 1},
     no_parameter,
     [](const Expr& x, double alpha, double) { return x * logistic(number(x, alpha) * x); }},
    {"ThresholdedRelu",
     {"alpha", 1},
     no_parameter,
     [](const Expr& x, double alpha, double) {
       return select(number(x, alpha) < x, x, number(x, 0));
     }},
};

}  // namespace

Status convert_parametric_function(const Node& node, Builder& builder) {
  const auto* found =
      std::ranges::find(parametric_functions, node.op_type, &ParametricFunction::op_type);
  TW_CHECK(found != std::end(parametric_functions), "a row for each operator of the table");
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const double first, node.number(found->first.name, found->first.otherwise));
  double second = 0;
  if (!found->second.name.empty()) {
    TW_TRY(second, node.number(found->second.name, found->second.otherwise));
  }
  if (node.op_type == "Celu" && first == 0) return node.invalid("alpha is 0");
  return add_elementwise(
      node, builder, [&](const Expr& x) -> Result<Expr> { return found->apply(x, first, second); });
}

Status convert_gelu(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const std::string approximate, node.text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh")
    return node.unsupported(fmt::format("approximate='{}'", approximate));
  return add_elementwise(node, builder, [&](const Expr& x) -> Result<Expr> {
    const Expr half = number(x, 0.5), one = number(x, 1);
    if (approximate == "none") return half * x * (one + erf(x * number(x, 0.70710678118654752)));
    const Expr cubic = x + number(x, 0.044715) * x * x * x;
    return half * x * (one + tanh(number(x, 0.79788456080286536) * cubic));
  });
}

Status convert_is_inf(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  TW_TRY(const int64_t positive, node.integer("detect_positive", 1));
  TW_TRY(const int64_t negative, node.integer("detect_negative", 1));
  return add_elementwise(node, builder, [&](const Expr& x) -> Result<Expr> {
    const double infinity = std::numeric_limits<double>::infinity();
    Expr found = dsl::constant_int(Bool, 0);
    if (positive) found = found || eq(x, number(x, infinity));
    if (negative) found = found || eq(x, number(x, -infinity));
    return found;
  });
}

// ---- casts ----------------------------------------------------------------------------------

namespace {

Status add_cast(const Node& node, Builder& builder, DType type) {
  const Value& value = node.input(0);
  if (value.type.dtype == type) return builder.alias(node.outputs[0], value.name);
  Declaration declaration(builder);
  const std::vector<Axis> axes = axes_of(value.type.shape);
  const Expr x = declaration.read(value).read_at(at(axes));
  return declaration.add(compute("out", axes, cast(type, x)), node.outputs[0]);
}

}  // namespace

Status convert_cast(const Node& node, Builder& builder) {
  TW_TRY(const int64_t to, node.integer("to", 0));
  TW_TRY(const DType type, element_type(to));
  return add_cast(node, builder, type);
}

Status convert_cast_like(const Node& node, Builder& builder) {
  return add_cast(node, builder, node.input(1).type.dtype);
}

// ---- two operands ---------------------------------------------------------------------------

namespace {

/// Returns the quotient of integers, rounded towards zero. The division of the expression language
/// rounds downwards.
Result<Expr> whole_quotient(const Node& node, const Expr& a, const Expr& b) {
  const auto divisor = dsl::as_int(b);
  if (divisor && *divisor == 0) return node.invalid("the divisor is 0");
  if (!is_signed(a.type())) return a / b;
  const Expr zero = number(a, 0);
  // Neither -a nor the magnitude of b is computed, since the least integer has no positive
  // counterpart.
  if (divisor && *divisor > 0)
    return select(a < zero, (a + dsl::constant_int(a.type(), *divisor - 1)) / b, a / b);
  const Expr is_rounded_down = ne(a % b, zero) && ne(a < zero, b < zero);
  return a / b + select(is_rounded_down, number(a, 1), zero);
}

Result<Expr> quotient(const Node& node, const Expr& a, const Expr& b) {
  if (is_float(a.type())) return a / b;
  return whole_quotient(node, a, b);
}

// Remainders of floats are f64, because f32 rounds quotients up to whole numbers: 1 / 0.1 is 10 in
// f32, although the f32 nearest to 0.1 is a little more than 0.1. In f64 the whole part of the
// quotient of two f32 numbers is correct if it is below 2^29, and its product with the divisor is
// exact. For f64 operands neither holds.

/// True if b is infinite. Kernels may assume that numbers which are converted to f64 are finite, so
/// b is compared in its own type.
Expr is_infinite(const Expr& b) { return eq(abs(b), dsl::identity(dsl::Combine::Min, b.type())); }

/// Returns a - b trunc(a / b) of floats, in f64; a if b is infinite.
Expr truncated_remainder(const Expr& a, const Expr& b) {
  const Expr x = cast(Float64, a), y = cast(Float64, b);
  return select(is_infinite(b), x, x - y * truncate(x / y));
}

/// Returns a - b floor(a / b) of floats, in f64. If b is infinite, the result is a if both have the
/// same sign, else b.
Expr floored_remainder(const Expr& a, const Expr& b) {
  const Expr x = cast(Float64, a), y = cast(Float64, b), zero = number(a, 0);
  const Expr differs = (a < zero && zero < b) || (zero < a && b < zero);
  return select(is_infinite(b), cast(Float64, select(differs, b, a)), x - y * floor(x / y));
}

/// Returns the remainder with the sign of the divisor (fmod=0) or of the dividend (fmod=1).
Result<Expr> remainder(const Node& node, const Expr& a, const Expr& b) {
  TW_TRY(const int64_t has_sign_of_dividend, node.integer("fmod", 0));
  if (is_float(a.type()))
    return has_sign_of_dividend ? truncated_remainder(a, b) : floored_remainder(a, b);
  if (has_sign_of_dividend) {
    TW_TRY(const Expr whole, whole_quotient(node, a, b));
    return a - whole * b;
  }
  if (const auto divisor = dsl::as_int(b); divisor && *divisor == 0)
    return node.invalid("the divisor is 0");
  return a % b;
}

/// Implements BitShift. If the count is negative or not less than the number of bits, a left shift
/// gives 0, and a right shift gives copies of the sign bit (0 for unsigned types).
Result<Expr> shifted_bits(const Node& node, const Expr& a, const Expr& b) {
  TW_TRY(const std::string direction, node.text("direction", ""));
  if (direction != "LEFT" && direction != "RIGHT")
    return node.invalid("the direction is neither LEFT nor RIGHT");
  const bool is_left = direction == "LEFT";
  const double bits = 8 * static_cast<double>(size_bytes(a.type()));
  const Expr beyond = is_left || !is_signed(a.type()) ? number(a, 0) : a >> number(a, bits - 1);
  return select(number(b, 0) <= b && b < number(b, bits), is_left ? a << b : a >> b, beyond);
}

struct Operation {
  std::string_view op_type;
  Result<Expr> (*apply)(const Node& node, const Expr& a, const Expr& b);
};

template <Expr (*apply)(const Expr&, const Expr&)>
Result<Expr> simple(const Node&, const Expr& a, const Expr& b) {
  return apply(a, b);
}

constexpr Operation operations[] = {
    {"Add", simple<(dsl::operator+)>},
    {"And", simple<(dsl::operator&&)>},
    {"BitShift", shifted_bits},
    {"BitwiseAnd", simple<(dsl::operator&)>},
    {"BitwiseOr", simple<(dsl::operator|)>},
    {"BitwiseXor", simple<(dsl::operator^)>},
    {"Div", quotient},
    {"Equal", simple<dsl::eq>},
    {"Greater", simple<(dsl::operator>)>},
    {"GreaterOrEqual", simple<(dsl::operator>=)>},
    {"Less", simple<(dsl::operator<)>},
    {"LessOrEqual", simple<(dsl::operator<=)>},
    {"Max", simple<dsl::max>},
    {"Mean", simple<(dsl::operator+)>},
    {"Min", simple<dsl::min>},
    {"Mod", remainder},
    {"Mul", simple<(dsl::operator*)>},
    {"Or", simple<(dsl::operator||)>},
    {"PRelu",
     [](const Node&, const Expr& x, const Expr& slope) -> Result<Expr> {
       return select(x < number(x, 0), slope * x, x);
     }},
    {"Sub", [](const Node&, const Expr& a, const Expr& b) -> Result<Expr> { return a - b; }},
    {"Sum", simple<(dsl::operator+)>},
    {"Xor", simple<dsl::ne>},
};

/// Values that broadcast to one shape, as expressions of its axes.
struct Operands {
  std::vector<Axis> axes;
  std::vector<Expr> values;
};

/// Returns an operand of an operation. A known integer of one element becomes a literal, since
/// integer divisors have to be literals. All other values are read from a tensor. Known floats are
/// read too, because a literal 0 would be refused as a divisor.
Expr operand(Declaration& declaration, const Value& value, const std::vector<Expr>& indices) {
  const DType type = value.type.dtype;
  if (value.constant && value.constant->array->size() == 1 && !is_float(type))
    return dsl::constant_int(type, value.constant->array->get_int(0));
  return wide(broadcast_read(declaration.read(value), value.type.shape, indices));
}

Result<Operands> read_operands(const Node& node, Declaration& declaration,
                               const std::vector<Value>& values) {
  std::vector<Shape> shapes;
  for (const Value& value : values) shapes.push_back(value.type.shape);
  TW_TRY(const Shape shape, broadcast(node, shapes));
  Operands operands = {axes_of(shape), {}};
  for (const Value& value : values)
    operands.values.push_back(operand(declaration, value, at(operands.axes)));
  return operands;
}

}  // namespace

namespace {

/// Returns the second operand, reshaped for numpy's broadcasting. In opset 6 its dimensions may
/// begin at dimension `axis` of the first operand: [3] with axis=1 is added to [2, 3, 4] as [3, 1].
/// The slopes of PRelu begin at the channels.
Result<Value> aligned_operand(const Node& node, Builder& builder, const Value& first,
                              const Value& second) {
  const bool is_of_channels =
      node.op_type == "PRelu" && second.rank() == 1 && second.type.shape[0] > 1 && first.rank() > 1;
  if (node.opset > 6 || (!node.has("axis") && !is_of_channels)) return second;
  TW_TRY(const size_t axis, axis_attribute(node, 1, first.rank()));
  const int64_t behind = first.rank() - static_cast<int64_t>(axis) - second.rank();
  if (behind < 0) return node.invalid("the second operand does not fit the axis");
  Shape shape = second.type.shape;
  shape.insert(shape.end(), static_cast<size_t>(behind), 1);
  return reshaped(builder, second, shape);
}

}  // namespace

Status convert_operation(const Node& node, Builder& builder) {
  const auto* found = std::ranges::find(operations, node.op_type, &Operation::op_type);
  TW_CHECK(found != std::end(operations), "a row for each operator of the table");
  TW_TRY(std::vector<Value> values, inputs_from(node, 0));
  if (values.size() == 2) {
    TW_TRY(values[1], aligned_operand(node, builder, values[0], values[1]));
  }
  const DType type = values[0].type.dtype;
  for (size_t i = 1; i < values.size(); ++i) TW_RETURN_IF_ERROR(check_same_type(node, {0, i}));
  Declaration declaration(builder);
  TW_TRY(const Operands operands, read_operands(node, declaration, values));
  Expr result = operands.values[0];
  for (size_t i = 1; i < values.size(); ++i) {
    TW_TRY(result, found->apply(node, result, operands.values[i]));
  }
  if (node.op_type == "Mean") result = result / number(result, static_cast<double>(values.size()));
  return declaration.add(compute("out", operands.axes, narrow(result, type)), node.outputs[0]);
}

Status convert_where(const Node& node, Builder& builder) {
  TW_TRY(const std::vector<Value> values, inputs_from(node, 0));
  TW_RETURN_IF_ERROR(check_same_type(node, {1, 2}));
  if (values[0].type.dtype != Bool) return node.invalid("the condition is no bool");
  Declaration declaration(builder);
  TW_TRY(const Operands operands, read_operands(node, declaration, values));
  const std::vector<Expr>& v = operands.values;
  const Expr chosen = narrow(select(v[0], v[1], v[2]), values[1].type.dtype);
  return declaration.add(compute("out", operands.axes, chosen), node.outputs[0]);
}

Status convert_swiglu(const Node& node, Builder& builder) {
  const Value& value = node.input(0);
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1}));
  TW_RETURN_IF_ERROR(check_float(node, value.type.dtype));
  if (node.input(1).type.shape != value.type.shape) return node.invalid("inputs differ in shape");
  TW_TRY(const double alpha, node.number("alpha", 1));
  Declaration declaration(builder);
  TW_TRY(const Operands operands, read_operands(node, declaration, {value, node.input(1)}));
  const Expr &a = operands.values[0], &b = operands.values[1];
  const Expr result = a * logistic(number(a, alpha) * a) * b;
  return declaration.add(compute("out", operands.axes, narrow(result, value.type.dtype)),
                         node.outputs[0]);
}

// ---- powers and limits ----------------------------------------------------------------------

namespace {

/// Returns x^y for operands that are not known at import. A negative x is allowed for whole y.
Expr general_power(const Expr& x, const Expr& y) {
  const Expr zero = number(x, 0), half = number(x, 0.5), one = number(x, 1);
  const Expr is_odd = ne(floor(y * half) * number(x, 2), y);
  const Expr magnitude = exp(y * log(abs(x)));
  const Expr negative =
      select(eq(floor(y), y), select(is_odd, -magnitude, magnitude), exp(y * log(x)));
  return select(eq(y, zero) || eq(x, one), one, select(x < zero, negative, magnitude));
}

Result<Expr> known_power(const Node& node, const Expr& x, double exponent) {
  const bool is_whole = exponent >= 1 && exponent <= 16 && std::floor(exponent) == exponent;
  if (!is_float(x.type()) && !is_whole)
    return node.unsupported(fmt::format("an integer to the power of {}", exponent));
  return power(x, exponent);
}

}  // namespace

Status convert_pow(const Node& node, Builder& builder) {
  const Value& base = node.input(0);
  TW_TRY(const Value exponent, aligned_operand(node, builder, base, node.input(1)));
  if (base.type.dtype == Bool || exponent.type.dtype == Bool)
    return node.unsupported("the data type bool");
  Declaration declaration(builder);
  TW_TRY(const Shape shape, broadcast(node, {base.type.shape, exponent.type.shape}));
  const std::vector<Axis> axes = axes_of(shape);
  const Expr x = wide(broadcast_read(declaration.read(base), base.type.shape, at(axes)));
  Expr result;
  if (exponent.constant && exponent.constant->array->size() == 1) {
    TW_TRY(result, known_power(node, x, exponent.constant->array->get_float(0)));
  } else {
    TW_RETURN_IF_ERROR(check_float(node, base.type.dtype));
    const Tensor y = declaration.read(exponent);
    result = general_power(x, cast(x.type(), broadcast_read(y, exponent.type.shape, at(axes))));
  }
  return declaration.add(compute("out", axes, narrow(result, base.type.dtype)), node.outputs[0]);
}

Status convert_clip_attributes(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_float(node, node.input(0).type.dtype));
  const double infinity = std::numeric_limits<double>::infinity();
  TW_TRY(const double low, node.number("min", -infinity));
  TW_TRY(const double high, node.number("max", infinity));
  return add_elementwise(node, builder, [&](const Expr& x) -> Result<Expr> {
    Expr result = x;
    if (node.has("min")) result = max(result, number(x, low));
    if (node.has("max")) result = min(result, number(x, high));
    return result;
  });
}

Status convert_clip(const Node& node, Builder& builder) {
  TW_RETURN_IF_ERROR(check_same_type(node, {0, 1, 2}));
  const Value& value = node.input(0);
  if (value.type.dtype == Bool) return node.unsupported("the data type bool");
  Declaration declaration(builder);
  const std::vector<Axis> axes = axes_of(value.type.shape);
  Expr result = wide(declaration.read(value).read_at(at(axes)));
  for (const size_t limit : {1, 2}) {
    if (!node.has_input(limit)) continue;
    const Value& given = node.input(limit);
    if (extent_of(given.type.shape) != 1) return node.invalid("a limit is no single number");
    const Expr bound = operand(declaration, given, at(axes_of(given.type.shape)));
    result = limit == 1 ? max(result, bound) : min(result, bound);
  }
  return declaration.add(compute("out", axes, narrow(result, value.type.dtype)), node.outputs[0]);
}

}  // namespace tw::graph::onnx
