// SPDX-License-Identifier: Apache-2.0
#include "tools/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

#include "base/text.h"
#include "tools/flags/quote.h"

namespace tw::tools {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr size_t most_header_bytes = 1 << 16;
constexpr size_t data_alignment = 64;

/// Returns the text of a type in a header, such as "<f4"; empty for types that NumPy lacks.
std::string npy_text(DType type) {
  const auto letter = [&] {
    switch (info_of(type).kind) {
      case NumberKind::Int:
        return 'i';
      case NumberKind::UInt:
        return 'u';
      case NumberKind::Float:
        return 'f';
      case NumberKind::Bool:
        return 'b';
      case NumberKind::BFloat:
        break;
    }
    return '\0';
  }();
  const int bytes = size_bytes(type);
  return letter ? fmt::format("{}{}{}", bytes == 1 ? '|' : '<', letter, bytes) : "";
}

std::optional<DType> dtype_of(std::string_view text) {
  for (const DType type : all_dtypes)
    if (!text.empty() && text == npy_text(type)) return type;
  return std::nullopt;
}

/// The two parts of a file: the header, a Python dictionary of three entries as text, and the bytes
/// of the elements.
struct NpyFile {
  std::string_view header, data;
};

class NpyReader {
 public:
  NpyReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<dsl::Array> read() const {
    TW_TRY(const NpyFile file, parts());
    TW_TRY(const std::string_view type, entry(file.header, "'descr':", ",}"));
    TW_TRY(const std::string_view order, entry(file.header, "'fortran_order':", ",}"));
    TW_TRY(const std::string_view extents, entry(file.header, "'shape':", ")"));
    if (order != "False")
      return unsupported("is stored column by column: save numpy.ascontiguousarray() of it");
    TW_TRY(const DType dtype, parse_type(type));
    TW_TRY(std::vector<int64_t> shape, parse_shape(extents));
    return fill(dtype, std::move(shape), file.data);
  }

 private:
  tl::unexpected<Error> invalid(const std::string& why) const {
    return fail(ErrorCode::Invalid, fmt::format("[npy] {} {}", shell_quoted(name_), why));
  }
  tl::unexpected<Error> unsupported(const std::string& why) const {
    return fail(ErrorCode::Unsupported, fmt::format("[npy] {} {}", shell_quoted(name_), why));
  }

  Result<NpyFile> parts() const {
    if (!bytes_.starts_with(magic) || bytes_.size() < 12)
      return invalid("is no array that NumPy saved (.npy)");
    const auto byte = [&](size_t i) {
      return static_cast<size_t>(static_cast<uint8_t>(bytes_[i]));
    };
    const size_t version = byte(6);
    if (version < 1 || version > 3)
      return unsupported(fmt::format("has version {} of the format, expected 1 to 3", version));
    const size_t begin = version == 1 ? 10 : 12;
    size_t length = byte(8) | byte(9) << 8;
    if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
    if (length > most_header_bytes || begin + length > bytes_.size())
      return invalid("ends within its header");
    return NpyFile{bytes_.substr(begin, length), bytes_.substr(begin + length)};
  }

  /// Returns the trimmed text between `key` and the next character that is in `ends`. Fails with
  /// Invalid if the header has no entry with this key.
  Result<std::string_view> entry(std::string_view header, std::string_view key,
                                 std::string_view ends) const {
    const size_t at = header.find(key);
    const size_t begin = at == std::string_view::npos ? at : at + key.size();
    const size_t end = begin == std::string_view::npos ? begin : header.find_first_of(ends, begin);
    if (end == std::string_view::npos)
      return invalid(fmt::format("has no entry {} in its header", key.substr(0, key.size() - 1)));
    return trim(header.substr(begin, end - begin));
  }

  Result<DType> parse_type(std::string_view quoted) const {
    const std::string_view text = quoted.size() > 2 ? quoted.substr(1, quoted.size() - 2) : quoted;
    if (const auto dtype = dtype_of(text)) return *dtype;
    return unsupported(fmt::format(
        "has elements of type '{}': convert it, for instance by .astype(numpy.float32)", text));
  }

  /// Parses the text of a shape without its closing parenthesis: "(1, 3, 224, 224", "(5," or "(".
  Result<std::vector<int64_t>> parse_shape(std::string_view text) const {
    if (!text.starts_with('(')) return invalid("has no shape in its header");
    std::vector<int64_t> shape;
    for (const std::string& word : split(text.substr(1), ',')) {
      if (trim(word).empty()) continue;
      const auto extent = parse_int(trim(word));
      if (!extent || *extent < 0)
        return invalid(fmt::format("has '{}' for an extent in its header", trim(word)));
      shape.push_back(*extent);
    }
    return shape;
  }

  Result<dsl::Array> fill(DType dtype, std::vector<int64_t> shape, std::string_view data) const {
    // The size is checked before memory is allocated, so that a file with a wrong header cannot
    // cause a large allocation.
    int64_t bytes = size_bytes(dtype);
    for (const int64_t extent : shape)
      if (__builtin_mul_overflow(bytes, extent, &bytes))
        return invalid("has more elements than can be counted");
    if (static_cast<size_t>(bytes) != data.size())
      return invalid(
          fmt::format("has {} bytes of elements where its header says {}", data.size(), bytes));
    TW_TRY(dsl::Array array, dsl::Array::make(dtype, std::move(shape)));
    if (bytes > 0) std::memcpy(array.data.data(), data.data(), data.size());
    return array;
  }

  std::string_view bytes_;
  const std::string& name_;
};

}  // namespace

Result<dsl::Array> parse_npy(std::string_view bytes, const std::string& name) {
  return NpyReader(bytes, name).read();
}

Result<dsl::Array> read_npy(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (file) bytes << file.rdbuf();
  // Copying the stream also fails if the file is empty; errno is then 0.
  if (!file || (!bytes && errno != 0))
    return fail(ErrorCode::Environment, fmt::format("[npy] {} cannot be read: {}",
                                                    shell_quoted(path), std::strerror(errno)));
  return parse_npy(bytes.view(), path);
}

Result<std::string> npy_bytes(const dsl::Array& array) {
  const std::string type = npy_text(array.type);
  if (type.empty())
    return fail(ErrorCode::Unsupported,
                fmt::format("[npy] NumPy has no type for {}", to_string(array.type)));
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", type,
                  fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  const size_t prefix = magic.size() + 4;
  header.append((data_alignment - (prefix + header.size() + 1) % data_alignment) % data_alignment,
                ' ');
  header += '\n';
  std::string bytes(magic);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(array.data.data()), array.data.size());
  return bytes;
}

Status write_npy(const std::string& path, const dsl::Array& array) {
  TW_TRY(const std::string bytes, npy_bytes(array));
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), std::ssize(bytes));
  file.close();
  if (file) return {};
  return fail(ErrorCode::Environment,
              fmt::format("[npy] {} cannot be written", shell_quoted(path)));
}

}  // namespace tw::tools
