// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between the tuner and its workers. Each message is a frame: magic number, length,
// checksum and payload.
//
// A worker runs foreign code that may print on the connection, cut it short or overwrite its
// buffers, so a reader trusts nothing: it bounds a length before it allocates memory, and returns a
// payload only if its checksum holds. After an error the reader cannot find the next frame: close
// the connection. A FrameReader belongs to one thread; the functions are thread-safe on different
// descriptors.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::tuner {

/// Largest payload; larger ones are refused by writers and readers.
inline constexpr size_t max_frame_bytes = size_t{64} << 20;

/// The frame that carries `payload`. Invalid if the payload is larger than max_frame_bytes.
Result<std::string> encode_frame(std::string_view payload);

/// Extracts frames from bytes that arrive in pieces of any size.
class FrameReader {
 public:
  /// Adds bytes that arrived. Requires: next() has not failed.
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The payload of the next complete frame; nullopt while more bytes are needed; Invalid if the
  /// bytes are no frame.
  Result<std::optional<std::string>> next();
  /// Number of bytes of the unfinished frame.
  size_t pending() const { return buffer_.size(); }

 private:
  std::string buffer_;
};

/// Writes a whole frame, and blocks until it is written. Goes on after a signal that interrupts the
/// write. For the worker's side.
Status write_frame(int fd, std::string_view payload);

/// Blocks until a frame has arrived, and reads nothing beyond it. nullopt if the other side closed
/// the connection between frames.
Result<std::optional<std::string>> read_frame(int fd);

}  // namespace tw::tuner
