// SPDX-License-Identifier: Apache-2.0
#include "dsl/rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "dsl/interpreter.h"

namespace tw::dsl {
namespace {

constexpr double chance_factor = 4;  ///< the factor c of the formula in rounding.h
constexpr double infinity = std::numeric_limits<double>::infinity();

// Error of functions such as exp() in unit roundoffs: their vectorised forms in kernels are
// accurate to a few units in the last place.
constexpr double function_roundoffs = 8;

// Kernels reduce the arguments of sin and cos in double, by subtracting multiples of pi / 2. This
// is the error of the reduced argument, relative to the argument.
constexpr double argument_roundoff = 0x1p-52;

/// Returns a bound of the error of rounding to `number`; it is infinite if `number` is. Subnormal
/// numbers have the same spacing as the least normal numbers, and so the same bound.
double rounding_of(DType type, double number) {
  const double least_normal = std::ldexp(1.0, 1 - format_of(type).bias());
  return unit_roundoff(type) * std::max(std::fabs(number), least_normal);
}

/// Returns a bound of the error of an approximated function with this value. The value 0 is exact.
double error_of_function(DType type, double value) {
  return value == 0 ? 0 : function_roundoffs * rounding_of(type, value);
}

struct Tracked {
  Value exact;       ///< value by the definition
  double plain = 0;  ///< floats only: the value that the declared loops give in the declared types
  double bound = 0;  ///< floats only: bound of |kernel's value - exact|
  bool is_undefined = false;  ///< as in Rounded
};

bool is_nan(DType type, const Tracked& a) { return is_float(type) && std::isnan(a.exact.f); }

/// True if the comparison is `a <= inf`, which is false for NaN and true for all other values.
bool tells_nan(BinaryOp op, DType operands, const Tracked& b) {
  return op == BinaryOp::Le && is_float(operands) && b.exact.f == infinity;
}

/// True if this is the bound of a value that overflowed, or that was computed from such a value.
/// These bounds are infinite.
bool overflowed(double bound) { return bound > std::numeric_limits<double>::max(); }

/// True if the result of the operation in double is not exact. Requires: `result` is neither NaN
/// nor infinite.
bool is_rounded(BinaryOp op, double a, double b, double result) {
  switch (op) {
    case BinaryOp::Add:
      return rounding_of_sum(a, b) != 0;
    case BinaryOp::Sub:
      return rounding_of_sum(a, -b) != 0;
    case BinaryOp::Mul:
      return std::fma(a, b, -result) != 0;
    case BinaryOp::Div:
      return std::isfinite(b) && std::fma(result, b, -a) != 0;
    default:
      return op == BinaryOp::Pow;
  }
}

/// True if the result of a unary operation in double is not exact. The errors of approximated
/// functions such as exp() are not counted here but in error_of().
bool is_rounded(UnaryOp op, double a, double result) {
  return op == UnaryOp::Sqrt && std::fma(result, result, -a) != 0;
}

/// Returns a bound of the rounding errors in f64 of the kernel plus those of the definition,
/// because the definition is computed in f64 too. `rounded` is the result of is_rounded(). The
/// bound is infinite if finite operands overflow.
double rounding_in_double(bool rounded, bool finite_operands, double result) {
  if (std::isinf(result)) return finite_operands ? infinity : 0;
  return rounded ? 2 * unit_roundoff(Float64) * std::fabs(result) : 0;
}

/// Makes the Tracked of a float operation. `plain` is the result before it is rounded to the type.
/// `inherited` is the part of the error bound that the operands cause. `in_double` is the result of
/// rounding_in_double(); it is the rounding error of the operation if the type is f64.
Tracked stored(DType type, Value exact, double plain, double inherited, double in_double) {
  const double result = round_to(type, plain);
  if (std::isnan(result)) return {exact, result, overflowed(inherited) ? inherited : 0};
  const double own = type == Float64 ? in_double : result == plain ? 0 : rounding_of(type, result);
  return {exact, result, inherited + own};
}

/// Returns bound * |factor|. A bound of 0 (an exact number) gives 0 even if the factor is infinite.
double scaled(double bound, double factor) { return bound == 0 ? 0 : bound * std::fabs(factor); }

/// Returns the part of the error bound of pow(a, b) that the operands cause, by the derivatives of
/// b log |a|.
double inherited_by_power(const Tracked& a, const Tracked& b) {
  if (a.bound == 0 && b.bound == 0) return 0;
  const double base = std::fabs(a.exact.f);
  const double relative =
      std::fabs(b.exact.f) * (a.bound / base) + std::fabs(std::log(base)) * b.bound;
  const double bound = std::pow(base, b.exact.f) * std::expm1(relative);
  return std::isnan(bound) ? infinity : bound;
}

double inherited_by(BinaryOp op, const Tracked& a, const Tracked& b) {
  if (overflowed(a.bound) || overflowed(b.bound)) return infinity;
  switch (op) {
    case BinaryOp::Mul:
      return scaled(b.bound, a.exact.f) + scaled(a.bound, b.exact.f) + a.bound * b.bound;
    case BinaryOp::Div: {
      if (a.bound == 0 && b.bound == 0) return 0;
      return (a.bound + std::fabs(a.exact.f / b.exact.f) * b.bound) / std::fabs(b.exact.f);
    }
    case BinaryOp::Min:
    case BinaryOp::Max:
      return std::max(a.bound, b.bound);
    case BinaryOp::Pow:
      return inherited_by_power(a, b);
    default:
      return a.bound + b.bound;
  }
}

/// Returns the part of the result's error bound that the operand's error causes. It is the
/// operand's bound times a bound of the derivative near x.
double inherited_by(UnaryOp op, double x, double value, double bound) {
  if (bound == 0 || overflowed(bound)) return bound;
  switch (op) {
    case UnaryOp::Exp:
      return value * std::expm1(bound);
    case UnaryOp::Log:  // the argument may be rounded to 0
      return bound < std::fabs(x) ? -std::log1p(-bound / std::fabs(x)) : infinity;
    case UnaryOp::Sqrt:
      return std::min(bound / (2 * value), std::sqrt(bound));
    case UnaryOp::Tanh:
      return bound;
    case UnaryOp::Erf:
      return bound * 2 * std::numbers::inv_sqrtpi;
    case UnaryOp::Floor:
      return std::floor(x + bound) - std::floor(x - bound);
    case UnaryOp::Round:
      return std::nearbyint(x + bound) - std::nearbyint(x - bound);
    case UnaryOp::Sigmoid:
      return bound / 4;
    default:
      return bound;
  }
}

bool is_periodic(UnaryOp op) { return op == UnaryOp::Sin || op == UnaryOp::Cos; }

bool is_approximated(UnaryOp op) {
  return op == UnaryOp::Exp || op == UnaryOp::Log || op == UnaryOp::Tanh || op == UnaryOp::Erf ||
         op == UnaryOp::Sigmoid || is_periodic(op);
}

/// Returns the error of an approximated function, such as exp(), on an exact argument x.
double error_of(UnaryOp op, DType type, double x, double value) {
  const double own = error_of_function(type, value);
  return is_periodic(op) ? own + argument_roundoff * std::fabs(x) : own;
}

struct Analysis {
  using Number = Tracked;

  static Number of(DType, Value a) { return {a, a.f, 0}; }
  static Value value(const Number& a) { return a.exact; }

  static Number apply(BinaryOp op, DType operands, DType result, const Number& a, const Number& b) {
    Number number = computed(op, operands, result, a, b);
    const bool makes_nan = is_nan(result, number) && !is_nan(operands, a) && !is_nan(operands, b);
    number.is_undefined =
        makes_nan || (a.is_undefined && !tells_nan(op, operands, b)) || b.is_undefined;
    return number;
  }

  static Number apply(UnaryOp op, DType type, const Number& a) {
    Number number = computed(op, type, a);
    number.is_undefined = a.is_undefined || (is_nan(type, number) && !is_nan(type, a));
    return number;
  }

  static Number convert(DType from, DType to, const Number& a) {
    return depending(converted(from, to, a), a);
  }

  static Number rounded(DType type, const Number& a) {
    const Value exact = dsl::rounded(type, a.exact);
    return depending(is_float(type) ? both_rounded(type, exact, a) : Number{exact}, a);
  }

  /// Returns `number`, marked as undefined if `condition` is. The value of `condition` selected the
  /// number, as the condition of a select or as an index does.
  static Number depending(Number number, const Number& condition) {
    number.is_undefined = number.is_undefined || condition.is_undefined;
    return number;
  }

  static Number computed(BinaryOp op, DType operands, DType result, const Number& a,
                         const Number& b) {
    const Value exact = dsl::apply(op, operands, result, a.exact, b.exact);
    if (!is_float(result)) return {exact};
    const double plain = dsl::apply(op, operands, result, {a.plain, 0}, {b.plain, 0}).f;
    const double in_double = rounding_in_double(
        is_rounded(op, a.plain, b.plain, plain),
        std::isfinite(a.plain) && std::isfinite(b.plain) && (op != BinaryOp::Div || b.plain != 0),
        plain);
    Number number = stored(result, exact, plain, inherited_by(op, a, b), in_double);
    if (op == BinaryOp::Pow && std::isfinite(exact.f))
      number.bound += error_of_function(result, exact.f);
    return number;
  }

  static Number computed(UnaryOp op, DType type, const Number& a) {
    const Value exact = dsl::apply(op, type, a.exact);
    if (!is_float(type)) return {exact};
    const double plain = dsl::apply(op, type, Value{a.plain, 0}).f;
    Number result = stored(type, exact, plain, inherited_by(op, a.exact.f, exact.f, a.bound),
                           rounding_in_double(is_rounded(op, a.plain, plain), false, plain));
    if (!is_approximated(op)) return result;
    if (std::isfinite(exact.f))
      result.bound += error_of(op, type, a.exact.f, exact.f);
    else if (op == UnaryOp::Exp && std::isfinite(a.exact.f))
      result.bound = infinity;
    if (is_periodic(op) && !overflowed(a.bound)) result.bound = std::min(result.bound, 2.0);
    return result;
  }

  static Number converted(DType from, DType to, const Number& a) {
    const Value exact = dsl::convert(from, to, a.exact);
    if (!is_float(to)) return {exact};
    if (is_float(from)) return both_rounded(to, exact, a);
    const auto whole = static_cast<long double>(a.exact.i);  // not every i64 is an f64
    return {exact, exact.f, exact.f == whole ? 0 : 2 * rounding_of(to, exact.f)};
  }

  /// Converts to a float type. The definition and the kernel both round here. Numbers that were
  /// equal stay equal; the distance of different numbers may grow by one unit in the last place.
  static Number both_rounded(DType type, Value exact, const Number& a) {
    const double apart = a.bound == 0 ? 0 : 2 * rounding_of(type, exact.f);
    return {exact, round_to(type, a.plain), a.bound + apart};
  }

  class Total {
   public:
    explicit Total(const Stage& stage)
        : operation_(operation(stage.combine)),
          type_(stage.type),
          total_(of(type_, constant_of(identity(stage.combine, type_)))) {}

    void add(const Number& term) {
      if (operation_ != BinaryOp::Add || !is_float(type_)) {
        total_ = apply(operation_, type_, type_, total_, term);
        return;
      }
      const double sum = total_.plain + term.plain, result = round_to(type_, sum);
      const bool rounds =
          type_ == Float64 ? rounding_of_sum(total_.plain, term.plain) != 0 : result != sum;
      if (rounds && !std::isnan(sum)) squares_ += result * result;
      sum_.add(term.exact.f);
      total_.plain = result;
      total_.bound += term.bound;
      total_.is_undefined |= term.is_undefined;
      reads_nan_ |= std::isnan(term.exact.f);
    }

    Number result() const {
      Number result = total_;
      if (operation_ == BinaryOp::Add && is_float(type_)) result.exact.f = sum_.value();
      if (squares_ > 0) result.bound += chance_factor * unit_roundoff(type_) * std::sqrt(squares_);
      result.is_undefined |= is_nan(type_, result) && operation_ == BinaryOp::Add && !reads_nan_;
      return result;
    }

   private:
    BinaryOp operation_;
    DType type_;
    Number total_;
    CompensatedSum sum_;      ///< sums of floats only: the sum by the definition
    double squares_ = 0;      ///< sum of the squares of the partial sums that were rounded
    bool reads_nan_ = false;  ///< sums of floats only: true if a term is NaN
  };
};

}  // namespace

struct RoundingAnalysis::Walk {
  const Compute& compute;
  Interpreter<Analysis> interpreter;
};

RoundingAnalysis::RoundingAnalysis(std::unique_ptr<Walk> walk) : walk_(std::move(walk)) {}
RoundingAnalysis::RoundingAnalysis(RoundingAnalysis&&) noexcept = default;
RoundingAnalysis::~RoundingAnalysis() = default;

Result<RoundingAnalysis> RoundingAnalysis::make(const Compute& compute, const Arrays& inputs) {
  TW_RETURN_IF_ERROR(validate(compute));
  TW_RETURN_IF_ERROR(check_inputs(compute, inputs));
  return RoundingAnalysis(
      std::unique_ptr<Walk>(new Walk{compute, Interpreter<Analysis>(compute, inputs)}));
}

Result<Rounded> RoundingAnalysis::at(const std::string& tensor,
                                     const std::vector<int64_t>& indices) {
  TW_TRY(const Tracked number, walk_->interpreter.sample(tensor, indices));
  if (!is_float(walk_->compute.type_of(tensor)))
    return Rounded{.value = static_cast<double>(number.exact.i),
                   .is_undefined = number.is_undefined};
  const double value = number.exact.f;
  const bool equal = number.plain == value || (std::isnan(number.plain) && std::isnan(value));
  // `rounding` is NaN if the declared types give a NaN that the definition does not have, as inf /
  // inf.
  const double rounding = number.bound + (equal ? 0 : 2 * std::fabs(number.plain - value));
  const bool is_bounded = std::isfinite(rounding);
  return Rounded{value, is_bounded ? rounding : 0, !is_bounded, number.is_undefined};
}

int64_t RoundingAnalysis::evaluations() const { return walk_->interpreter.evaluations(); }

double unit_roundoff(DType type) {
  const int fraction_bits = format_of(is_float(type) ? type : Float32).fraction_bits;
  return 0.5 / static_cast<double>(int64_t{1} << fraction_bits);
}

}  // namespace tw::dsl
