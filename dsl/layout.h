// SPDX-License-Identifier: Apache-2.0
#pragma once
// Layouts: the order of a tensor's elements in memory, as splits and a permutation of its
// dimensions.
//
// The text of a layout lists the storage dimensions, outermost first. An upper-case letter is the
// outer part of a dimension, and `<factor><letter>` is an inner part. With the letters "NCHW",
// `NCHW16c` keeps blocks of 16 channels together, and `NHWC` moves the channels last. `OIHW4i16o4i`
// splits dimension I twice. An extent that is not a multiple of its factors is rounded up to the
// next multiple, and the additional elements are zero: 20 channels in `NCHW16c` occupy 32.
// Immutable; thread-safe.

#include <cstdint>
#include <map>
#include <optional>
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

  /// Returns the row-major layout of `rank` dimensions.
  static Layout row_major(int rank);
  /// Parses the text of a layout. `letters` names the logical dimensions in order and must be
  /// distinct capitals. Each letter must occur once in upper case, before its inner parts. Each
  /// factor must be at least 2, and the product of the factors of a dimension at most 2^24. Fails
  /// with Usage otherwise.
  static Result<Layout> parse(std::string_view text, std::string_view letters);

  std::string to_string(std::string_view letters) const;
  const std::vector<Part>& parts() const { return parts_; }
  int rank() const { return rank_; }
  bool is_row_major() const;

  /// Returns the extents of the storage dimensions, outermost first, for a tensor of `shape`.
  /// Extents that factors do not divide are rounded up.
  std::vector<int64_t> storage_shape(const std::vector<int64_t>& shape) const;
  /// Returns the size of the storage in bytes, for a tensor of `shape`; nullopt if it is more than
  /// 2^56. This limit ensures that the sizes of all buffers of a program can be added without
  /// overflow.
  std::optional<int64_t> storage_bytes(const std::vector<int64_t>& shape, DType type) const;
  /// Returns the storage indices, outermost first, of the element at the logical `indices`. In
  /// `NC16c` the element [n, c] is at [n, c / 16, c % 16]. The expressions are not simplified.
  std::vector<Expr> storage_indices(const std::vector<Expr>& indices) const;
  /// Returns the offset in memory, in elements, of the element at the logical `indices`, for a
  /// tensor of this logical `shape`.
  int64_t offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& indices) const;

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  int rank_ = 0;
  std::vector<Part> parts_;
};

/// Maps the name of a tensor to the text of its layout.
using Layouts = std::map<std::string, std::string>;
/// Prints layouts as "in=NCHW16c out=NHWC", sorted by name; empty if there are none.
std::string print_layouts(const Layouts& layouts);
/// Reads the text of print_layouts(); its words may be in any order. Fails with Usage for a word
/// that is not `tensor=layout`, and for a tensor that is named twice. The layouts themselves are
/// not checked.
Result<Layouts> parse_layouts(std::string_view text);

/// Returns the letters of a tensor that was declared without letters: "ABC" for a rank of 3.
std::string default_letters(int rank);

}  // namespace tw::dsl
