// SPDX-License-Identifier: Apache-2.0
#include "tuner/processes/frame.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "base/hash.h"

namespace tw::tuner {
namespace {

constexpr std::string_view magic = "twf1";
constexpr size_t length_bytes = 4;
constexpr size_t checksum_bytes = 16;  // short_hash
constexpr size_t header_bytes = magic.size() + length_bytes + checksum_bytes;

struct Header {
  size_t length;
  std::string checksum;
};

Error corrupt(std::string what) {
  return Error{ErrorCode::Invalid,
               "[frame] " + std::move(what) + "; the sender is broken, replace it"};
}

Result<Header> parse_header(std::string_view bytes) {
  if (bytes.substr(0, magic.size()) != magic)
    return tl::unexpected(corrupt("bytes that start no frame"));
  uint32_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= uint32_t{static_cast<unsigned char>(bytes[magic.size() + i])} << (8 * i);
  if (length > max_frame_bytes)
    return tl::unexpected(
        corrupt(fmt::format("a frame of {} bytes, at most {} expected", length, max_frame_bytes)));
  return Header{length, std::string(bytes.substr(magic.size() + length_bytes, checksum_bytes))};
}

Status verify(const Header& header, std::string_view payload) {
  if (short_hash(payload) == header.checksum) return {};
  return tl::unexpected(
      corrupt(fmt::format("a payload of {} bytes with a wrong checksum", payload.size())));
}

/// Reads until `size` bytes have arrived or the stream ends. Returns the number of bytes that
/// arrived.
Result<size_t> read_all(int fd, char* bytes, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd, bytes + done, size - done);
    if (n == 0) break;
    if (n > 0)
      done += static_cast<size_t>(n);
    else if (errno != EINTR)
      return fail(ErrorCode::Environment, fmt::format("[frame] read: {}", std::strerror(errno)));
  }
  return done;
}

}  // namespace

Result<std::string> encode_frame(std::string_view payload) {
  if (payload.size() > max_frame_bytes)
    return fail(ErrorCode::Invalid,
                fmt::format("[frame] a message of {} bytes, at most {} expected; send it in parts",
                            payload.size(), max_frame_bytes));
  std::string frame(magic);
  frame.reserve(header_bytes + payload.size());
  for (size_t i = 0; i < length_bytes; ++i)
    frame += static_cast<char>(payload.size() >> (8 * i) & 0xff);
  frame += short_hash(payload);
  frame += payload;
  return frame;
}

Result<std::optional<std::string>> FrameReader::next() {
  if (buffer_.size() < header_bytes) {
    // Bytes that begin no frame are refused at once, because the rest of a header may never arrive.
    const size_t shared = std::min(buffer_.size(), magic.size());
    if (magic.substr(0, shared) != std::string_view(buffer_).substr(0, shared))
      return tl::unexpected(corrupt("bytes that start no frame"));
    return std::nullopt;
  }
  TW_TRY(const Header header, parse_header(buffer_));
  const size_t total = header_bytes + header.length;
  if (buffer_.size() < total) return std::nullopt;
  std::string payload = buffer_.substr(header_bytes, header.length);
  TW_RETURN_IF_ERROR(verify(header, payload));
  buffer_.erase(0, total);
  return payload;
}

Status write_frame(int fd, std::string_view payload) {
  TW_TRY(const std::string frame, encode_frame(payload));
  size_t done = 0;
  while (done < frame.size()) {
    // With MSG_NOSIGNAL, a peer that is gone causes an error and not a SIGPIPE. send() does not
    // work on pipes.
    ssize_t n = ::send(fd, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK) n = ::write(fd, frame.data() + done, frame.size() - done);
    if (n >= 0)
      done += static_cast<size_t>(n);
    else if (errno != EINTR)
      return fail(ErrorCode::Environment, fmt::format("[frame] write: {}", std::strerror(errno)));
  }
  return {};
}

Result<std::optional<std::string>> read_frame(int fd) {
  std::string head(header_bytes, '\0');
  TW_TRY(const size_t got, read_all(fd, head.data(), head.size()));
  if (got == 0) return std::nullopt;
  if (got < header_bytes) return tl::unexpected(corrupt("a stream that ends inside a frame"));
  TW_TRY(const Header header, parse_header(head));
  std::string payload(header.length, '\0');
  TW_TRY(const size_t body, read_all(fd, payload.data(), payload.size()));
  if (body < payload.size()) return tl::unexpected(corrupt("a stream that ends inside a frame"));
  TW_RETURN_IF_ERROR(verify(header, payload));
  return payload;
}

}  // namespace tw::tuner
