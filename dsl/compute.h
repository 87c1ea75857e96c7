// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes: operators declared as tensor expressions.
//
// A Compute is inputs and a list of stages in dependency order; each stage defines a tensor by one
// expression over its axes, possibly reduced over further axes. It is a value: immutable once
// built, comparable by its text, safe to share between threads. All extents are static.
//
//   Axis m("m", 64), n("n", 32), k("k", 128);
//   Tensor a = input("a", Float32, {m, k}), b = weight("b", Float32, {k, n});
//   Tensor c = compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
//   Result<Compute> gemm = build(c);
//
// The running sums of a row are a scan, a reduction whose terms end at the element's own index:
//
//   Tensor s = compute("s", {m, n}, sum(k <= n, c(m, k)));     // k < n: without the own term

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

/// A named index with its extent: it runs over [0, extent). Converts to the Expr of its variable.
struct Axis {
  std::string name;
  int64_t extent = -1;  ///< -1: not bound yet, see build()

  /// The extent of an axis whose size does not fit int64_t; build() refuses it.
  static constexpr int64_t too_large = std::numeric_limits<int64_t>::min();

  Axis() = default;
  Axis(std::string axis_name, int64_t axis_extent = -1)
      : name(std::move(axis_name)), extent(axis_extent) {}
  /// The size is of any integer type.
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
/// The identity element of the reduction: 0, 1, or the largest / smallest value of the type.
Expr identity(Combine combine, DType type);

struct Input {
  std::string name;
  DType type = Float32;
  std::vector<int64_t> shape;
  bool constant = false;  ///< known ahead of the call (weights): may be packed once
  std::string letters;    ///< one upper-case letter a dimension, as layouts spell it ("NCHW")
};

/// Makes a reduction over one axis a scan: its terms run from 0 to the element's own index along
/// the stage's axis `along`. They are no function of that index, so that each element follows from
/// the one before it and all elements take O(n) operations.
struct Scan {
  std::string along;      ///< empty: the range that was given is not valid
  bool inclusive = true;  ///< the term at the element's own index counts
};

/// name[axes] = combine over reduction of body. Reads in the body are of inputs or earlier stages.
struct Stage {
  std::string name;
  DType type = Float32;
  std::vector<Axis> axes;
  std::vector<Axis> reduction;
  Combine combine = Combine::None;
  Expr body;
  std::string letters;
  std::optional<Scan> scan = std::nullopt;  ///< then the reduction is one axis, as long as `along`

  std::vector<int64_t> shape() const;
  /// Index among the axes of that along which the stage scans. Requires: a scan that is valid.
  size_t scanned_axis() const;
};

/// Number of elements of a tensor of this shape.
double elements_of(const std::vector<int64_t>& shape);

/// Number of evaluations of the stage's body; of a scan, one for each element. The terms that data
/// select from an axis (selection.h) count once for all of the axis.
double evaluations_of(const Stage& stage);

struct Compute {
  std::vector<Input> inputs;
  std::vector<Stage> stages;         ///< producers before their consumers
  std::vector<std::string> outputs;  ///< names of stages

  const Input* find_input(const std::string& name) const;
  const Stage* find_stage(const std::string& name) const;
  bool is_output(const std::string& name) const;
  /// Shape, type and letters of a tensor by name, input or stage. Requires: it exists.
  std::vector<int64_t> shape_of(const std::string& tensor) const;
  DType type_of(const std::string& tensor) const;
  std::string letters_of(const std::string& tensor) const;
  /// Stages whose body reads `tensor`.
  std::vector<const Stage*> consumers(const std::string& tensor) const;
};

/// A letter or underscore, then letters, digits and underscores; no word of the language.
bool is_valid_name(const std::string& name);

/// Fails with Invalid where the expression is taller than tallest_expression or larger than
/// largest_expression. A front end calls this on each expression that it makes of a caller's.
Status check_size(const Expr& expr);

/// Inputs and stages together at most; validate() and the parser refuse more.
inline constexpr size_t most_declarations = 10'000;

/// At most most_declarations; names unique and well formed; reads of known tensors with the right
/// rank; extents >= 0 and products within int64; types agree; integer divisors are positive
/// literals, of floats no literal 0; no cycles; outputs exist. A product that leaves int64 is
/// Unsupported, the rest Invalid.
Status validate(const Compute& compute);

/// Operations on values per evaluation that the definition asks for (padding included): 2 a
/// multiply-accumulate, 1 any other. Index arithmetic, casts and selects count nothing.
double count_flops(const Compute& compute);

/// Compulsory traffic, the bytes that any kernel moves at least: each element of an input that can
/// be read, once, and each element of an output, once. If the definition makes fewer reads of an
/// input than the input has elements, as a lookup in a table does, the number of reads counts.
struct Traffic {
  double read_bytes = 0, written_bytes = 0;
  double bytes() const { return read_bytes + written_bytes; }
};
Traffic compulsory_traffic(const Compute& compute);

// ---- declaring ------------------------------------------------------------------------------

class TensorNode;

/// A handle to a declared tensor. Reading it gives an Expr that remembers where it came from.
class Tensor {
 public:
  explicit Tensor(std::shared_ptr<const TensorNode> node) : node_(std::move(node)) {}
  /// Indices are axes, expressions of Int64 and integers.
  template <typename... Index>
  requires(!std::is_floating_point_v<Index> && ...) Expr operator()(Index... index) const {
    return read_at({Expr(index)...});
  }
  Expr read_at(std::vector<Expr> indices) const;
  const std::shared_ptr<const TensorNode>& node() const { return node_; }

 private:
  std::shared_ptr<const TensorNode> node_;
};

/// The reduction that compute() takes as its body: sum({k}, a(m, k) * b(k, n)).
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

/// Scans: `range` is `k <= n` or `k < n` with an axis n of the stage and a name k for the index of
/// the terms, whose extent is that of n. build() fails with Invalid for any other range.
Reduction sum(Expr range, Expr body);
Reduction prod(Expr range, Expr body);
Reduction max_over(Expr range, Expr body);
Reduction min_over(Expr range, Expr body);

/// The index along an axis at which `value` is largest or smallest, as NumPy's argmax and argmin
/// have it: the first of equal ones; a NaN counts as the extreme, so that the first NaN is the
/// index. Requires: the axis is not empty.
struct Position {
  bool of_largest;
  Axis axis;
  Expr value;
};
Position argmax(Axis axis, Expr value);
Position argmin(Axis axis, Expr value);

/// The stages that find a position, of which the last is `name`, an i64, and the others are named
/// after it.
///
///   out: i64[i=6] = argmax(j=10) in[i, j]
///     ->  out_peak: f32[i=6] = max(j=10) select(in[i, j] <= inf, in[i, j], -inf)
///         out_first: i64[i=6] = min(j=10) select(in[i, j] <= inf,
///             select(select(in[i, j] <= inf, in[i, j], -inf) == out_peak[i], j, 9), j - 10)
///         out: i64[i=6] = out_first[i] % 10
///
/// Integers, among which there is no NaN, take two stages. A float that is computed, as in
/// argmax(j=10) a[i, j] + b[j], has a stage `out_value` of its own before them: it is rounded
/// there, so that the largest one is found equal to itself.
std::vector<Stage> position_stages(const std::string& name, const std::vector<Axis>& axes,
                                   const Position& position, const std::string& letters = "");

/// Dimensions are axes; only their extents matter here. `letters` as in Input.
Tensor input(const std::string& name, DType type, const std::vector<Axis>& shape,
             const std::string& letters = "");
/// An input that is known ahead of the call, so that the tuner may choose its packed layout freely.
Tensor weight(const std::string& name, DType type, const std::vector<Axis>& shape,
              const std::string& letters = "");
Tensor compute(const std::string& name, const std::vector<Axis>& axes, Expr body,
               const std::string& letters = "");
Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Reduction& reduction,
               const std::string& letters = "");

/// Declares the position_stages().
Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Position& position,
               const std::string& letters = "");

/// Collects everything that the outputs depend on; validates it. Extents of axes that are still -1
/// are taken from `extents` by axis name. A negative extent is Invalid, one that is too large for
/// int64_t Unsupported.
Result<Compute> build(const std::vector<Tensor>& outputs,
                      const std::vector<std::pair<Axis, int64_t>>& extents = {});
inline Result<Compute> build(const Tensor& output,
                             const std::vector<std::pair<Axis, int64_t>>& extents = {}) {
  return build(std::vector<Tensor>{output}, extents);
}

}  // namespace tw::dsl
