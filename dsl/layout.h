// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts: how a tensor's elements lie in memory, as splits and a permutation of its dimensions.
//
// Text is upper-case letters for the outer part of each dimension and `<factor><letter>` for inner
// parts, outermost first: with the letters "NCHW", `NCHW16c` keeps blocks of 16 channels together
// and `NHWC` moves them last; `OIHW4i16o4i` splits one dimension twice. A dimension whose extent is
// no multiple of its factors is rounded up; the extra elements are zero. Immutable; thread-safe.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/expr.h"

namespace tw::dsl {

class Layout {
 public:
  /// One storage dimension: the outer part of logical dimension `dim` (factor 0) or a split of it.
  struct Part {
    int dim;
    int64_t factor;
    friend bool operator==(const Part&, const Part&) = default;
  };

  /// The row-major layout of `rank` dimensions.
  static Layout row_major(int rank);
  /// `letters` names the logical dimensions in order. Each must occur once in upper case, outside
  /// of its splits; factors are at least 2.
  static Result<Layout> parse(std::string_view text, std::string_view letters);

  std::string to_string(std::string_view letters) const;
  const std::vector<Part>& parts() const { return parts_; }
  int rank() const { return rank_; }
  bool is_row_major() const;

  /// Extents in storage order, rounded up.
  std::vector<int64_t> storage_shape(const std::vector<int64_t>& shape) const;
  /// Storage indices (outermost first) of the element at the logical `indices`; exact divisions and
  /// modulos of them, unsimplified.
  std::vector<Expr> storage_indices(const std::vector<Expr>& indices) const;
  /// The same on numbers: the linear offset in the storage of a tensor of `shape`.
  int64_t offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& indices) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  int rank_ = 0;
  std::vector<Part> parts_;
};

/// Layouts of some tensors as text, by the tensor's name.
using Layouts = std::map<std::string, std::string>;
/// "in=NCHW16c out=NHWC", sorted by name; empty where there are none.
std::string print_layouts(const Layouts& layouts);
/// Reads such words in any order. Usage for other text, and for a tensor that is named twice;
/// whether a layout is one of its tensor is not asked here.
Result<Layouts> parse_layouts(std::string_view text);

/// The letters that a tensor of `rank` without letters of its own goes by: "ABCD...".
std::string default_letters(int rank);

}  // namespace tw::dsl
