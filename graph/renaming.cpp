// SPDX-License-Identifier: Apache-2.0
#include "graph/renaming.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/integer.h"

namespace tw::graph {
namespace {

using dsl::Layout;
using Shape = std::vector<int64_t>;

/// A digit of the index of dimension `dim`, as in a mixed radix: (index / step) % size. In NCHW16c
/// with 64 channels, dimension 1 has the digits {step 16, size 4} and {step 1, size 16}.
struct Digit {
  size_t dim = 0;
  int64_t step = 1, size = 1;
};

/// A shortest run of dimensions of `from` and the run of dimensions of `to` that has the same
/// elements. Dimensions of extent 1 are left out. Reshaping [4, 6, 5] to [24, 5] has two matches:
/// {0, 1} with {0}, and {2} with {1}.
struct Match {
  std::vector<size_t> from, to;
  bool is_same() const { return from.size() == 1 && to.size() == 1; }
};

std::vector<size_t> dimensions(const Shape& shape) {
  std::vector<size_t> found;
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != 1) found.push_back(d);
  return found;
}

/// Splits two shapes into the shortest possible matches, in the order of the dimensions.
std::vector<Match> matches_of(const Shape& from, const Shape& to) {
  const std::vector<size_t> a = dimensions(from), b = dimensions(to);
  std::vector<Match> matches;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    Match match{{a[i]}, {b[j]}};
    int64_t of_from = from[a[i++]], of_to = to[b[j++]];
    while (of_from != of_to) {
      const bool is_from = of_from < of_to;
      (is_from ? match.from : match.to).push_back(is_from ? a[i] : b[j]);
      (is_from ? of_from : of_to) *= is_from ? from[a[i++]] : to[b[j++]];
    }
    matches.push_back(std::move(match));
  }
  return matches;
}

/// Row-major strides that the dimensions `dims` would have if the tensor had no others.
std::vector<int64_t> strides_of(const Shape& shape, const std::vector<size_t>& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[dims[i]];
  return strides;
}

/// The parts of the layout as digits, outermost first.
std::vector<Digit> digits_of(const Shape& shape, const Layout& layout) {
  // For each dimension, product of the factors of its parts that follow.
  std::vector<int64_t> steps(shape.size(), 1);
  for (const Layout::Part& part : layout.parts())
    if (part.factor) steps[static_cast<size_t>(part.dim)] *= part.factor;
  std::vector<Digit> digits;
  for (const Layout::Part& part : layout.parts()) {
    const auto dim = static_cast<size_t>(part.dim);
    if (part.factor) steps[dim] /= part.factor;
    const int64_t size = part.factor ? part.factor : ceil_div(shape[dim], steps[dim]);
    digits.push_back({dim, steps[dim], size});
  }
  return digits;
}

/// Converts digits of a tensor of shape `from` to digits of its reshape.
class Renaming {
 public:
  Renaming(const Shape& from, const Shape& to)
      : from_(from), to_(to), matches_(matches_of(from, to)) {}

  std::optional<Layout> run(const Layout& layout) {
    for (const Digit& digit : digits_of(from_, layout))
      if (from_[digit.dim] != 1 ? !rewrite(digit) : digit.size != 1) return std::nullopt;
    return is_layout() ? std::optional(spelled()) : std::nullopt;
  }

 private:
  bool rewrite(const Digit& digit) {
    const auto match = std::ranges::find_if(matches_, [&](const Match& m) {
      return std::ranges::find(m.from, digit.dim) != m.from.end();
    });
    if (match->is_same()) {
      digits_.push_back({match->to[0], digit.step, digit.size});
      return true;
    }
    // Padding would lie inside of the dimension.
    if (from_[digit.dim] % (digit.step * digit.size) != 0) return false;
    const auto place =
        static_cast<size_t>(std::ranges::find(match->from, digit.dim) - match->from.begin());
    const int64_t first = digit.step * strides_of(from_, match->from)[place];
    return divide(first, first * digit.size, match->to);
  }

  /// Splits a digit of the row-major index over all of `dims`, dimensions of `to`, into digits of
  /// the single dimensions, and appends these. The digit has the step `first` and the size last /
  /// first. Returns false if it cannot be split so.
  bool divide(int64_t first, int64_t last, const std::vector<size_t>& dims) {
    const std::vector<int64_t> strides = strides_of(to_, dims);
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t low = std::max(first, strides[i]);
      const int64_t high = std::min(last, strides[i] * to_[dims[i]]);
      if (low >= high) continue;
      if (low % strides[i] != 0 || high % low != 0 || strides[i] * to_[dims[i]] % high != 0)
        return false;
      append({dims[i], low / strides[i], high / low});
    }
    return true;
  }

  /// Appends a digit, joined with the digit before if the two are consecutive parts of one digit.
  void append(const Digit& digit) {
    if (!digits_.empty() && digits_.back().dim == digit.dim &&
        digits_.back().step == digit.step * digit.size) {
      digits_.back() = {digit.dim, digit.step, digits_.back().size * digit.size};
    } else {
      digits_.push_back(digit);
    }
  }

  /// True if the digits form a layout: in each dimension the digit with the largest step comes
  /// first, and each step is the product of the step and the size of the next digit.
  bool is_layout() const {
    Shape steps(to_.size(), 0);
    for (const Digit& digit : digits_) {
      int64_t& step = steps[digit.dim];
      if (step != 0 && step != digit.step * digit.size) return false;
      step = digit.step;
    }
    return true;
  }

  Layout spelled() const {
    const std::string letters = dsl::default_letters(static_cast<int>(to_.size()));
    std::vector<bool> seen(to_.size(), false);
    std::string text;
    for (size_t d = 0; d < to_.size(); ++d) {
      seen[d] = to_[d] == 1;
      if (seen[d]) text += letters[d];
    }
    for (const Digit& digit : digits_) {
      const char letter = letters[digit.dim];
      if (seen[digit.dim])
        text += fmt::format("{}{}", digit.size, static_cast<char>(letter - 'A' + 'a'));
      else
        text += letter;
      seen[digit.dim] = true;
    }
    return Layout::parse(text, letters).value();
  }

  const Shape &from_, &to_;
  const std::vector<Match> matches_;
  std::vector<Digit> digits_;  ///< digits of the reshaped tensor, outermost first
};

}  // namespace

std::optional<Layout> through_reshape(const Shape& from, const Layout& layout, const Shape& to) {
  if (layout.is_row_major()) return Layout::row_major(static_cast<int>(to.size()));
  if (std::ranges::find(from, 0) != from.end()) return std::nullopt;
  return Renaming(from, to).run(layout);
}

Layout through_transpose(const Layout& layout, const std::vector<size_t>& positions) {
  const std::string letters = dsl::default_letters(layout.rank());
  std::string renamed(letters.size(), ' ');
  for (size_t i = 0; i < positions.size(); ++i) renamed[i] = letters[positions[i]];
  return Layout::parse(layout.to_string(renamed), letters).value();
}

}  // namespace tw::graph
