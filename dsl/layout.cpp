// SPDX-License-Identifier: Apache-2.0
#include "dsl/layout.h"

#include <fmt/format.h>

#include <cctype>
#include <optional>
#include <set>

#include "base/integer.h"
#include "base/text.h"

namespace tw::dsl {
namespace {

// This limit is far above any useful factor. It is so small that products of factors fit int64.
constexpr int64_t largest_factor = int64_t{1} << 24;

constexpr int64_t most_storage_bytes = int64_t{1} << 56;

tl::unexpected<Error> bad(std::string_view text, std::string_view letters, std::string_view why) {
  return fail(ErrorCode::Usage,
              fmt::format("[layout] '{}' is no layout of '{}': {}", text, letters, why));
}

bool are_letters(std::string_view letters) {
  std::set<char> seen;
  for (const char c : letters)
    if (c < 'A' || c > 'Z' || !seen.insert(c).second) return false;
  return true;
}

std::optional<std::string> missing_or_late(const std::vector<Layout::Part>& parts,
                                           std::string_view letters) {
  for (size_t dim = 0; dim < letters.size(); ++dim) {
    int outer = 0;
    for (const Layout::Part& part : parts) {
      if (part.dim != static_cast<int>(dim)) continue;
      if (part.factor == 0) ++outer;
      if (part.factor != 0 && outer == 0)
        return fmt::format("'{}' must stand before its splits", letters[dim]);
    }
    if (outer != 1) return fmt::format("'{}' must occur once, not {} times", letters[dim], outer);
  }
  return std::nullopt;
}

/// Returns the number of elements of dimension `dim` that the parts after `position` hold. It is
/// the product of the factors of these parts.
int64_t inner_product(const std::vector<Layout::Part>& parts, size_t position, int dim) {
  int64_t product = 1;
  for (size_t i = position + 1; i < parts.size(); ++i)
    if (parts[i].dim == dim && parts[i].factor) product *= parts[i].factor;
  return product;
}

std::optional<std::string> oversized(const std::vector<Layout::Part>& parts,
                                     std::string_view letters) {
  std::vector<int64_t> products(letters.size(), 1);
  for (const Layout::Part& part : parts) {
    if (!part.factor) continue;
    int64_t& product = products[static_cast<size_t>(part.dim)];
    product *= part.factor;  // both are at most largest_factor
    if (product > largest_factor)
      return fmt::format("the factors of '{}' exceed {}", letters[static_cast<size_t>(part.dim)],
                         largest_factor);
  }
  return std::nullopt;
}

}  // namespace

Layout Layout::row_major(int rank) {
  Layout layout;
  layout.rank_ = rank;
  for (int dim = 0; dim < rank; ++dim) layout.parts_.push_back({dim, 0});
  return layout;
}

Result<Layout> Layout::parse(std::string_view text, std::string_view letters) {
  if (!are_letters(letters)) return bad(text, letters, "letters are distinct capitals");
  Layout layout;
  layout.rank_ = static_cast<int>(letters.size());
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    while (i < text.size() && text[i] >= '0' && text[i] <= '9') ++i;
    const auto factor =
        i > begin ? parse_int(text.substr(begin, i - begin)) : std::optional<int64_t>(0);
    if (i == text.size()) return bad(text, letters, "a number must be followed by a letter");
    const char letter = text[i++];
    const char expected = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    const size_t dim = letters.find(expected);
    if (dim == std::string_view::npos)
      return bad(text, letters, fmt::format("'{}' names no dimension", letter));
    const bool is_outer = letter == expected;
    if (is_outer != (i - 1 == begin))
      return bad(text, letters,
                 "outer parts are capitals ('C'), splits are a factor and a small letter ('16c')");
    if (!is_outer && (!factor || *factor < 2 || *factor > largest_factor))
      return bad(text, letters, fmt::format("a factor lies in 2..{}", largest_factor));
    layout.parts_.push_back({static_cast<int>(dim), *factor});
  }
  if (const auto why = missing_or_late(layout.parts_, letters)) return bad(text, letters, *why);
  if (const auto why = oversized(layout.parts_, letters)) return bad(text, letters, *why);
  return layout;
}

std::string Layout::to_string(std::string_view letters) const {
  const std::string names = letters.empty() ? default_letters(rank_) : std::string(letters);
  TW_CHECK(static_cast<int>(names.size()) == rank_, "letters of another rank");
  std::string text;
  for (const Part& part : parts_) {
    const char letter = names[static_cast<size_t>(part.dim)];
    if (part.factor == 0) {
      text += letter;
    } else {
      text += std::to_string(part.factor);
      text += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return text;
}

bool Layout::is_row_major() const { return *this == row_major(rank_); }

std::vector<int64_t> Layout::storage_shape(const std::vector<int64_t>& shape) const {
  TW_CHECK(static_cast<int>(shape.size()) == rank_, "a shape of another rank");
  std::vector<int64_t> storage;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    storage.push_back(part.factor ? part.factor
                                  : ceil_div(shape[static_cast<size_t>(part.dim)],
                                             inner_product(parts_, i, part.dim)));
  }
  return storage;
}

std::optional<int64_t> Layout::storage_bytes(const std::vector<int64_t>& shape, DType type) const {
  const auto elements = checked_product(storage_shape(shape));
  const auto bytes = elements ? checked_mul(*elements, size_bytes(type)) : std::nullopt;
  return bytes && *bytes <= most_storage_bytes ? bytes : std::nullopt;
}

std::vector<Expr> Layout::storage_indices(const std::vector<Expr>& indices) const {
  TW_CHECK(static_cast<int>(indices.size()) == rank_, "indices of another rank");
  std::vector<Expr> storage;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const Expr quotient =
        indices[static_cast<size_t>(part.dim)] / Expr(inner_product(parts_, i, part.dim));
    storage.push_back(part.factor ? quotient % Expr(part.factor) : quotient);
  }
  return storage;
}

int64_t Layout::offset(const std::vector<int64_t>& shape,
                       const std::vector<int64_t>& indices) const {
  const std::vector<int64_t> storage = storage_shape(shape);
  int64_t offset = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    const int64_t quotient =
        floor_div(indices[static_cast<size_t>(part.dim)], inner_product(parts_, i, part.dim));
    offset = offset * storage[i] + (part.factor ? floor_mod(quotient, part.factor) : quotient);
  }
  return offset;
}

std::string print_layouts(const Layouts& layouts) {
  std::vector<std::string> parts;
  for (const auto& [tensor, layout] : layouts) parts.push_back(tensor + "=" + layout);
  return join(parts, " ");
}

Result<Layouts> parse_layouts(std::string_view text) {
  Layouts layouts;
  for (const std::string& word : words(text)) {
    const size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == word.size())
      return fail(ErrorCode::Usage,
                  fmt::format("[layouts] '{}': expected TENSOR=LAYOUT, such as in=NCHW16c", word));
    const std::string tensor = word.substr(0, equals);
    if (!layouts.emplace(tensor, word.substr(equals + 1)).second)
      return fail(ErrorCode::Usage,
                  fmt::format("[layouts] the layout of '{}' is given twice", tensor));
  }
  return layouts;
}

std::string default_letters(int rank) {
  TW_CHECK(rank >= 0 && rank <= 26, "there are 26 letters");
  return std::string("ABCDEFGHIJKLMNOPQRSTUVWXYZ").substr(0, static_cast<size_t>(rank));
}

}  // namespace tw::dsl
