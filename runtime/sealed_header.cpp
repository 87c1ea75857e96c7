// SPDX-License-Identifier: Apache-2.0
#include "runtime/sealed_header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/hash.h"

namespace tw::runtime {
namespace {

using nlohmann::json;

// Headers are six levels deep. The limit keeps a damaged header from exhausting the stack, because
// printing recurses.
constexpr int most_levels = 16;

tl::unexpected<Error> malformed(std::string what) {
  return fail(ErrorCode::Invalid, std::move(what));
}

}  // namespace

Result<std::string> seal_header(std::string_view magic, json header) {
  TW_CHECK(magic.size() + sizeof(uint32_t) == header_prefix_bytes);
  std::string text;
  try {
    header["header_hash"] = sha256_hex(header.dump());
    text = header.dump();
  } catch (const json::exception& error) {
    return malformed(error.what());
  }
  std::string bytes(magic);
  for (int shift = 0; shift < 32; shift += 8)
    bytes += static_cast<char>((text.size() >> shift) & 0xff);
  return bytes + text;
}

Result<std::string_view> header_text(std::string_view bytes, std::string_view magic,
                                     int64_t most_bytes) {
  if (bytes.size() < header_prefix_bytes || !bytes.starts_with(magic))
    return malformed(fmt::format("it does not begin with {}", magic));
  uint32_t length = 0;
  for (size_t i = 0; i < 4; ++i)
    length |= uint32_t{static_cast<unsigned char>(bytes[magic.size() + i])} << (8 * i);
  if (length > most_bytes || length > bytes.size() - header_prefix_bytes)
    return malformed("it ends inside the header");
  return bytes.substr(header_prefix_bytes, length);
}

Status read_header(std::string_view text, const std::function<Status(const json&)>& read) {
  const auto is_shallow = [](int depth, json::parse_event_t, json&) {
    return depth <= most_levels;
  };
  json header = json::parse(text, is_shallow, false);
  if (header.is_discarded()) return malformed("the header is no JSON");
  try {
    // The text must be the text that seal_header() prints. Otherwise a change that parses to the
    // same values, such as a space, would go unnoticed.
    if (header.dump() != text) return malformed("the header is not in canonical form");
    const std::string hash = header.at("header_hash").get<std::string>();
    header.erase("header_hash");
    if (sha256_hex(header.dump()) != hash) return malformed("the header does not match its hash");
    return read(header);
  } catch (const json::exception& error) {
    return malformed(fmt::format("the header has a wrong field ({})", error.what()));
  }
}

int64_t integer_from(const json& value) { return value.get_ref<const json::number_integer_t&>(); }

int int_from(const json& value) {
  const int64_t number = integer_from(value);
  return std::in_range<int>(number) ? static_cast<int>(number) : -1;
}

std::vector<int64_t> integers_from(const json& values) {
  std::vector<int64_t> numbers;
  for (const json& value : values.get_ref<const json::array_t&>())
    numbers.push_back(integer_from(value));
  return numbers;
}

std::vector<int> ints_from(const json& values) {
  std::vector<int> numbers;
  for (const json& value : values.get_ref<const json::array_t&>())
    numbers.push_back(int_from(value));
  return numbers;
}

Section section_from(const json& bytes, const json& hash) {
  return {static_cast<uint64_t>(integer_from(bytes)), hash.get<std::string>()};
}

Result<std::string_view> take_bytes(std::string_view name, uint64_t bytes, std::string_view& rest) {
  const std::string_view section = rest.substr(0, bytes);
  if (section.size() != bytes)
    return malformed(
        fmt::format("its {} has {} bytes, the header says {}", name, section.size(), bytes));
  rest.remove_prefix(section.size());
  return section;
}

Result<std::string> take_section(std::string_view name, const Section& section,
                                 std::string_view& rest) {
  TW_TRY(const std::string_view bytes, take_bytes(name, section.bytes, rest));
  std::string copy(bytes);
  TW_RETURN_IF_ERROR(check_section(name, copy, section));
  return copy;
}

Status check_section(std::string_view name, std::string_view bytes, const Section& section) {
  if (sha256_hex(bytes) == section.hash) return {};
  return malformed(fmt::format("its {} does not match its hash", name));
}

}  // namespace tw::runtime
