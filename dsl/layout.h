// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts: the order of a tensor's elements in memory, as splits and a permutation of its
// dimensions.
//
// Layout text has an upper-case letter for the outer part of each dimension and `<factor><letter>`
// for an inner part, outermost first. With the letters "NCHW", `NCHW16c` keeps blocks of 16
// channels together, and `NHWC` moves the channels last; `OIHW4i16o4i` splits dimension I twice. A
// dimension whose extent is no multiple of its factors is rounded up, and the additional elements
// are zero. Immutable; thread-safe.

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
  /// One dimension of the storage: an inner part of `factor` elements of the logical dimension
  /// `dim`, or, if `factor` is 0, the outer part of that dimension.
  struct Part {
    int dim;
    int64_t factor;
    friend bool operator==(const Part&, const Part&) = default;
  };

  /// The row-major layout of `rank` dimensions.
  static Layout row_major(int rank);
  /// Parses layout text. `letters` names the logical dimensions in order. Each letter must occur
  /// once in upper case, before its inner parts; factors are at least 2.
  static Result<Layout> parse(std::string_view text, std::string_view letters);

  std::string to_string(std::string_view letters) const;
  const std::vector<Part>& parts() const { return parts_; }
  int rank() const { return rank_; }
  bool is_row_major() const;

  /// The extents of the storage dimensions, outermost first, for a tensor of `shape`. Extents that
  /// factors do not divide are rounded up.
  std::vector<int64_t> storage_shape(const std::vector<int64_t>& shape) const;
  /// The storage indices, outermost first, of the element at the logical `indices`. They are
  /// divisions and remainders of `indices`, unsimplified.
  std::vector<Expr> storage_indices(const std::vector<Expr>& indices) const;
  /// The linear offset, in the storage of a tensor of `shape`, of the element at constant logical
  /// `indices`.
  int64_t offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& indices) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  int rank_ = 0;
  std::vector<Part> parts_;
};

/// Layouts as text, by the name of the tensor.
using Layouts = std::map<std::string, std::string>;
/// Prints layouts as "in=NCHW16c out=NHWC", sorted by name; empty if there are none.
std::string print_layouts(const Layouts& layouts);
/// Reads the text of print_layouts(), with words in any order. Usage for other text, and for a
/// tensor that is named twice. The layouts themselves are not checked.
Result<Layouts> parse_layouts(std::string_view text);

/// The letters of a tensor of `rank` dimensions that has no letters of its own: "ABCD...".
std::string default_letters(int rank);

}  // namespace tw::dsl
