// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes: operators declared as tensor expressions.
//
// A Compute has inputs and a list of stages; a stage comes after the stages that it reads. Each
// stage defines one tensor by an expression over its axes, or by a reduction of an expression over
// further axes. A Compute is a value: immutable once built, comparable by its text, safe to share
// between threads. All extents are static.
//
//   Axis m("m", 64), n("n", 32), k("k", 128);
//   Tensor a = input("a", Float32, {m, k}), b = weight("b", Float32, {k, n});
//   Tensor c = compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
//   Result<Compute> gemm = build(c);
//
// A scan is a reduction whose terms end at the element's own index. This scan computes the running
// sums of each row:
//
//   Tensor s = compute("s", {m, n}, sum(k <= n, c(m, k)));     // k < n leaves out the term k == n

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "dsl/expr.h"

namespace tw::dsl {

/// A named index that runs over [0, extent). It converts to an Expr, the variable of this name.
struct Axis {
  std::string name;
  int64_t extent = -1;  ///< -1: build() sets the extent

  /// The extent of an axis whose size does not fit int64_t. build() fails for such an axis.
  static constexpr int64_t too_large = std::numeric_limits<int64_t>::min();

  Axis() = default;
  Axis(std::string axis_name, int64_t axis_extent = -1)
      : name(std::move(axis_name)), extent(axis_extent) {}
  /// Makes an axis from a size of any integer type; a size beyond int64_t gives `too_large`.
  template <std::integral Size>
  Axis(std::string axis_name, Size size) : Axis(std::move(axis_name), extent_of(size)) {}
  operator Expr() const { return var(name); }
  friend bool operator==(const Axis&, const Axis&) = default;

 private:
  template <std::integral Size>
  static constexpr int64_t extent_of(Size size) {
    if constexpr (std::is_unsigned_v<Size> && sizeof(Size) >= sizeof(int64_t))
      if (size > Size{std::numeric_limits<int64_t>::max()}) return too_large;
    return static_cast<int64_t>(size);
  }
};

enum class Combine { None, Sum, Prod, Min, Max };
std::string_view to_string(Combine combine);  ///< "", "sum", "prod", "min", "max"
/// Returns the identity element of a reduction: 0 for Sum, 1 for Prod, the largest value of the
/// type for Min, and the smallest for Max. For floats these two are inf and -inf. For Combine::None
/// it is 0.
Expr identity(Combine combine, DType type);

struct Input {
  std::string name;
  DType type = Float32;
  std::vector<int64_t> shape;
  bool constant = false;  ///< known before the kernel is called (weights), so it may be packed once
  /// an upper-case letter for each dimension, as layouts spell it ("NCHW"); may be empty
  std::string letters;
};

/// Turns a stage's reduction over one axis into a scan. The terms of an element then run from 0 to
/// the element's own index along the axis `along` of the stage: s[i, j] = sum(k <= j) a[i, k] scans
/// along j. The terms must not depend on j. So each element is the previous one combined with one
/// more term, and a row of n elements takes O(n) operations.
struct Scan {
  std::string along;      ///< empty: the declared range was not valid; build() fails
  bool inclusive = true;  ///< k <= j, with the term at the element's own index; false: k < j
};

/// Defines the tensor `name`. Its element at `axes` is `body`, combined by `combine` over all
/// points of the axes `reduction`: c[m, n] = sum(k) a[m, k] * b[k, n] has the axes {m, n} and the
/// reduction {k}. The body may read inputs and earlier stages.
struct Stage {
  std::string name;
  DType type = Float32;
  std::vector<Axis> axes;
  std::vector<Axis> reduction;
  Combine combine = Combine::None;
  Expr body;
  std::string letters;
  /// if set, `reduction` is a single axis with the extent of the axis `along`
  std::optional<Scan> scan = std::nullopt;

  std::vector<int64_t> shape() const;
  /// Returns the position in `axes` of the axis along which the stage scans. Requires: `scan` is
  /// set and valid.
  size_t scanned_axis() const;
};

/// Returns the number of elements of a tensor of this shape, as a double so that it cannot
/// overflow.
double elements_of(const std::vector<int64_t>& shape);

/// Returns the number of times that a kernel evaluates the stage's body: the product of the extents
/// of `axes` and `reduction`. A scan evaluates the body only once for each element. If data select
/// the index along an axis, as in a gather (selection.h), the factor for that axis is 1 instead of
/// its extent.
double evaluations_of(const Stage& stage);

struct Compute {
  std::vector<Input> inputs;
  std::vector<Stage> stages;         ///< producers before their consumers
  std::vector<std::string> outputs;  ///< names of stages

  const Input* find_input(const std::string& name) const;
  const Stage* find_stage(const std::string& name) const;
  bool is_output(const std::string& name) const;
  /// Return the shape, the type and the letters of the input or stage with this name. letters_of()
  /// returns "ABC..." for a tensor that was declared without letters. Requires: the tensor exists.
  std::vector<int64_t> shape_of(const std::string& tensor) const;
  DType type_of(const std::string& tensor) const;
  std::string letters_of(const std::string& tensor) const;
  /// Returns the stages whose body reads `tensor`.
  std::vector<const Stage*> consumers(const std::string& tensor) const;
};

/// True if a tensor or axis may have this name: it consists of ASCII letters, digits and
/// underscores, does not begin with a digit, and is not a reserved word of the text form (parse.h).
bool is_valid_name(const std::string& name);

/// Fails with Invalid if the expression is taller than tallest_expression or larger than
/// largest_expression. A front end, such as the Python module, calls this for each expression that
/// its user makes.
Status check_size(const Expr& expr);

/// The largest number of inputs and stages together that validate() and the parser accept.
inline constexpr size_t most_declarations = 10'000;

/// Checks that
///   - there are at most most_declarations inputs and stages,
///   - each stage reads only inputs and earlier stages, with an index for each dimension,
///   - names are unique and well formed,
///   - there are outputs, and each is a stage,
///   - a tensor has at most 26 dimensions, and its letters, if it has any, are distinct capitals,
///   - extents are >= 0 and their products fit int64,
///   - expressions are not larger than check_size() allows,
///   - the types of operands agree,
///   - no divisor is a literal 0.
/// Fails with Unsupported if a product of extents overflows int64, and with Invalid for any other
/// fault.
Status validate(const Compute& compute);

/// Returns the number of arithmetic operations of the definition, including operations on terms
/// that lie in a padding. Each operation and each step of a reduction counts 1, so a
/// multiply-accumulate counts 2. Casts, selects, and operations on i64 and bool (such as index
/// arithmetic) count 0.
double count_flops(const Compute& compute);

/// Compulsory traffic: the bytes that every kernel has to move at least. Each element of an input
/// is read once, and each element of an output is written once. If the definition makes fewer reads
/// of an input than the input has elements, only the reads count: a lookup of 8 rows in a table of
/// 1000 rows reads 8 rows.
struct Traffic {
  double read_bytes = 0, written_bytes = 0;
  double bytes() const { return read_bytes + written_bytes; }
};
Traffic compulsory_traffic(const Compute& compute);

// ---- declaring ------------------------------------------------------------------------------

class TensorNode;

/// A handle to a declared tensor. `t(i, j)` makes an Expr that reads an element and refers to the
/// declaration, so that build() finds it.
class Tensor {
 public:
  explicit Tensor(std::shared_ptr<const TensorNode> node) : node_(std::move(node)) {}
  /// Makes an Expr that reads an element. Each index is an Axis, an Int64 expression or an integer.
  template <typename... Index>
  requires(!std::is_floating_point_v<Index> && ...) Expr operator()(Index... index) const {
    return read_at({Expr(index)...});
  }
  Expr read_at(std::vector<Expr> indices) const;
  const std::shared_ptr<const TensorNode>& node() const { return node_; }

 private:
  std::shared_ptr<const TensorNode> node_;
};

/// A reduction as the body of compute(): sum({k}, a(m, k) * b(k, n)).
struct Reduction {
  Combine combine;
  std::vector<Axis> axes;
  Expr body;
  std::optional<Scan> scan = std::nullopt;
};
Reduction sum(std::vector<Axis> axes, Expr body);
Reduction prod(std::vector<Axis> axes, Expr body);
Reduction max_over(std::vector<Axis> axes, Expr body);
Reduction min_over(std::vector<Axis> axes, Expr body);
Reduction sum(Axis axis, Expr body);
Reduction prod(Axis axis, Expr body);
Reduction max_over(Axis axis, Expr body);
Reduction min_over(Axis axis, Expr body);

/// These four functions make scans. `range` is `k <= n` or `k < n`, in which n is an axis of the
/// stage and k is the index of the terms. k needs no extent: build() gives k the extent of n.
/// build() fails with Invalid for any other range.
Reduction sum(Expr range, Expr body);
Reduction prod(Expr range, Expr body);
Reduction max_over(Expr range, Expr body);
Reduction min_over(Expr range, Expr body);

/// The index along `axis` at which `value` is largest or smallest, by the rules of NumPy's argmax
/// and argmin: of equal values the first, and the first NaN if there is a NaN. Requires: the axis
/// is not empty.
struct Position {
  bool of_largest;
  Axis axis;
  Expr value;
};
Position argmax(Axis axis, Expr value);
Position argmin(Axis axis, Expr value);

/// Makes the stages that compute a Position. The last stage is `name`, of type i64; the names of
/// the other stages begin with `name`. Example with the name `out`:
///
///   out: i64[i=6] = argmax(j=10) in[i, j]
///     ->  out_peak: f32[i=6] = max(j=10) select(in[i, j] <= inf, in[i, j], -inf)
///         out_first: i64[i=6] = min(j=10) select(in[i, j] <= inf,
///             select(select(in[i, j] <= inf, in[i, j], -inf) == out_peak[i], j, 9), j - 10)
///         out: i64[i=6] = out_first[i] % 10
///
/// A NaN wins over every number. Its index is represented by j - 10, which is negative and so the
/// least; the last stage restores j by `% 10`. Integers have no NaN, so two stages suffice for
/// them: the peak, and `out`, the first index at which the input equals the peak. If a float value
/// is computed, as in argmax(j=10) a[i, j] + b[j], an additional first stage `out_value` stores the
/// sums. Otherwise the sum would be evaluated twice and might be rounded differently, and then no
/// element would equal the peak.
std::vector<Stage> position_stages(const std::string& name, const std::vector<Axis>& axes,
                                   const Position& position, const std::string& letters = "");

/// Declares an input. Only the extents of the axes in `shape` are used, not their names. `letters`
/// names the dimensions for layouts (Input::letters).
Tensor input(const std::string& name, DType type, const std::vector<Axis>& shape,
             const std::string& letters = "");
/// Declares a constant input: it is known before the kernel is called, so the tuner may choose its
/// layout freely.
Tensor weight(const std::string& name, DType type, const std::vector<Axis>& shape,
              const std::string& letters = "");
Tensor compute(const std::string& name, const std::vector<Axis>& axes, Expr body,
               const std::string& letters = "");
Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Reduction& reduction,
               const std::string& letters = "");

/// Declares the stages of position_stages(), and returns the last of them.
Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Position& position,
               const std::string& letters = "");

/// Makes a compute of the outputs and all tensors that they depend on, and validates it. An axis
/// whose extent is -1 gets the extent that `extents` lists for an axis of this name. Fails with
/// Invalid if an extent is missing or negative, with Unsupported if it does not fit int64_t, and as
/// validate() does.
Result<Compute> build(const std::vector<Tensor>& outputs,
                      const std::vector<std::pair<Axis, int64_t>>& extents = {});
inline Result<Compute> build(const Tensor& output,
                             const std::vector<std::pair<Axis, int64_t>>& extents = {}) {
  return build(std::vector<Tensor>{output}, extents);
}

}  // namespace tw::dsl
