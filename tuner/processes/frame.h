// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between the tuner and its workers: each is a frame of magic, length, checksum and
// payload.
//
// A worker runs foreign code that may print on, cut short or scribble over the connection, so a
// reader believes nothing: a length is bounded before memory is taken for it, and a payload is
// handed out only if its checksum holds. After an Error the stream has lost its place: close it.
// A FrameReader belongs to one thread; the functions are thread-safe on different descriptors.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::tuner {

/// Larger payloads are refused on both sides.
inline constexpr size_t max_frame_bytes = size_t{64} << 20;

/// The bytes that carry `payload`. An Invalid error when it is larger than max_frame_bytes.
Result<std::string> encode_frame(std::string_view payload);

/// Frames from bytes that come in pieces of any size.
class FrameReader {
 public:
  /// Requires that next() has not failed.
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole payload, nullopt while more bytes are needed, or an Invalid error.
  Result<std::optional<std::string>> next();
  /// Bytes of an unfinished frame.
  size_t pending() const { return buffer_.size(); }

 private:
  std::string buffer_;
};

/// Blocking and whole; a signal that interrupts it does no harm. For the worker's side.
Status write_frame(int fd, std::string_view payload);

/// Blocks for one frame and reads nothing past it. nullopt: the other side closed between frames.
Result<std::optional<std::string>> read_frame(int fd);

}  // namespace tw::tuner
