// SPDX-License-Identifier: Apache-2.0
#pragma once
// Computes: operators declared as tensor expressions.
//
// A Compute has inputs and a list of stages in dependency order. Each stage defines a tensor by one
// expression over its axes, possibly reduced over further axes. A Compute is a value: immutable
// once built, comparable by its text, safe to share between threads. All extents are static.
//
//   Axis m("m", 64), n("n", 32), k("k", 128);
//   Tensor a = input("a", Float32, {m, k}), b = weight("b", Float32, {k, n});
//   Tensor c = compute("c", {m, n}, sum(k, a(m, k) * b(k, n)));
//   Result<Compute> gemm = build(c);
//
// A scan is a reduction whose terms end at the element's own index. Running sums of a row:
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

/// A named index that runs over [0, extent). Converts to the Expr of its variable.
struct Axis {
  std::string name;
  int64_t extent = -1;  ///< -1: not bound yet, see build()

  /// The extent of an axis whose size does not fit int64_t. build() fails for such an axis.
  static constexpr int64_t too_large = std::numeric_limits<int64_t>::min();

  Axis() = default;
  Axis(std::string axis_name, int64_t axis_extent = -1)
      : name(std::move(axis_name)), extent(axis_extent) {}
  /// Takes the size as any integer type.
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
  bool constant = false;  ///< known before the kernel is called (weights), so it may be packed once
  /// an upper-case letter for each dimension, as layouts spell it ("NCHW"); may be empty
  std::string letters;
};

/// Makes a reduction over one axis a scan: for each element the terms run from 0 to the element's
/// own index along the stage's axis `along`. The value of a term does not depend on that index, so
/// each element follows from the previous one, and all elements together take O(n) operations.
struct Scan {
  std::string along;      ///< empty: the range given in the declaration is not valid
  bool inclusive = true;  ///< true if the term at the element's own index is included
};

/// Defines name[axes] = combine over `reduction` of `body`. The body reads inputs and earlier
/// stages.
struct Stage {
  std::string name;
  DType type = Float32;
  std::vector<Axis> axes;
  std::vector<Axis> reduction;
  Combine combine = Combine::None;
  Expr body;
  std::string letters;
  /// if set, the reduction is one axis, as long as `along`
  std::optional<Scan> scan = std::nullopt;

  std::vector<int64_t> shape() const;
  /// The position in `axes` of the axis along which the stage scans. Requires: a valid scan.
  size_t scanned_axis() const;
};

/// Number of elements of a tensor of this shape.
double elements_of(const std::vector<int64_t>& shape);

/// Number of times that the stage's body is evaluated. A scan evaluates it once for each element.
/// If data select the index along an axis, as in a gather (selection.h), that axis counts once
/// instead of its extent.
double evaluations_of(const Stage& stage);

struct Compute {
  std::vector<Input> inputs;
  std::vector<Stage> stages;         ///< producers before their consumers
  std::vector<std::string> outputs;  ///< names of stages

  const Input* find_input(const std::string& name) const;
  const Stage* find_stage(const std::string& name) const;
  bool is_output(const std::string& name) const;
  /// Shape, type and letters of an input or stage by name. Requires: the tensor exists.
  std::vector<int64_t> shape_of(const std::string& tensor) const;
  DType type_of(const std::string& tensor) const;
  std::string letters_of(const std::string& tensor) const;
  /// Stages whose body reads `tensor`.
  std::vector<const Stage*> consumers(const std::string& tensor) const;
};

/// True for a letter or underscore that is followed by letters, digits and underscores, unless it
/// is a reserved word of the text form (parse.h).
bool is_valid_name(const std::string& name);

/// Checks the size of an expression. Invalid if it is taller than tallest_expression or larger than
/// largest_expression. A front end calls this for each expression that it builds from a caller's.
Status check_size(const Expr& expr);

/// The largest number of inputs and stages together that validate() and the parser accept.
inline constexpr size_t most_declarations = 10'000;

/// Checks that
///   - there are at most most_declarations inputs and stages, without cycles,
///   - names are unique and well formed, and outputs exist,
///   - reads are of known tensors, with an index for each dimension,
///   - extents are >= 0 and their products fit int64,
///   - the types of operands agree,
///   - integers are divided only by positive literals, and floats not by a literal 0.
/// A product that overflows int64 is Unsupported, any other fault Invalid.
Status validate(const Compute& compute);

/// Number of arithmetic operations on values that the definition asks for, terms in a padding
/// included. A multiply-accumulate counts 2, any other operation 1; index arithmetic, casts and
/// selects count 0.
double count_flops(const Compute& compute);

/// Compulsory traffic: the bytes that every kernel has to move at least. Each element of an input
/// that can be read counts once, and so does each element of an output. If the definition makes
/// fewer reads of an input than the input has elements, as a table lookup does, the number of reads
/// counts.
struct Traffic {
  double read_bytes = 0, written_bytes = 0;
  double bytes() const { return read_bytes + written_bytes; }
};
Traffic compulsory_traffic(const Compute& compute);

// ---- declaring ------------------------------------------------------------------------------

class TensorNode;

/// A handle to a declared tensor. Reading the tensor gives an Expr that refers to the declaration.
class Tensor {
 public:
  explicit Tensor(std::shared_ptr<const TensorNode> node) : node_(std::move(node)) {}
  /// Reads an element. An index is an axis, an Int64 expression or an integer.
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

/// Scans. `range` is `k <= n` or `k < n`, in which n is an axis of the stage and k the name of the
/// terms' index, which has the extent of n. build() fails with Invalid for any other range.
Reduction sum(Expr range, Expr body);
Reduction prod(Expr range, Expr body);
Reduction max_over(Expr range, Expr body);
Reduction min_over(Expr range, Expr body);

/// The index along an axis at which `value` is largest or smallest, as argmax and argmin of NumPy
/// return it: the first index of equal values, and the first NaN if there is a NaN. Requires: the
/// axis is not empty.
struct Position {
  bool of_largest;
  Axis axis;
  Expr value;
};
Position argmax(Axis axis, Expr value);
Position argmin(Axis axis, Expr value);

/// The stages that compute a position. The last one is `name`, of type i64; the names of the others
/// begin with `name`.
///
///   out: i64[i=6] = argmax(j=10) in[i, j]
///     ->  out_peak: f32[i=6] = max(j=10) select(in[i, j] <= inf, in[i, j], -inf)
///         out_first: i64[i=6] = min(j=10) select(in[i, j] <= inf,
///             select(select(in[i, j] <= inf, in[i, j], -inf) == out_peak[i], j, 9), j - 10)
///         out: i64[i=6] = out_first[i] % 10
///
/// A NaN counts as the largest value: its index appears as j - 10, below every other index, and the
/// last stage adds 10 again by `%`. Integers have no NaN, so two stages suffice for them: the peak,
/// and `out`, the first index at which the input equals the peak. If a float value is computed, as
/// in argmax(j=10) a[i, j] + b[j], a first stage `out_value` stores it: two evaluations might round
/// differently, and no element would equal the peak.
std::vector<Stage> position_stages(const std::string& name, const std::vector<Axis>& axes,
                                   const Position& position, const std::string& letters = "");

/// Declares an input. Only the extents of the axes in `shape` are used. `letters` as in Input.
Tensor input(const std::string& name, DType type, const std::vector<Axis>& shape,
             const std::string& letters = "");
/// Declares an input that is known before the kernel is called, so that the tuner may choose its
/// layout freely.
Tensor weight(const std::string& name, DType type, const std::vector<Axis>& shape,
              const std::string& letters = "");
Tensor compute(const std::string& name, const std::vector<Axis>& axes, Expr body,
               const std::string& letters = "");
Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Reduction& reduction,
               const std::string& letters = "");

/// Declares the position_stages() of the position.
Tensor compute(const std::string& name, const std::vector<Axis>& axes, const Position& position,
               const std::string& letters = "");

/// Collects all tensors that the outputs depend on, and validates the compute. An axis whose extent
/// is -1 gets the extent that `extents` has for an axis of that name. A negative extent is Invalid;
/// an extent that does not fit int64_t is Unsupported.
Result<Compute> build(const std::vector<Tensor>& outputs,
                      const std::vector<std::pair<Axis, int64_t>>& extents = {});
inline Result<Compute> build(const Tensor& output,
                             const std::vector<std::pair<Axis, int64_t>>& extents = {}) {
  return build(std::vector<Tensor>{output}, extents);
}

}  // namespace tw::dsl
