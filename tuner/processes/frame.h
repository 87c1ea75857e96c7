// SPDX-License-Identifier: Apache-2.0
#pragma once
// Messages between the tuner and its workers. Each message is a frame: magic number, length,
// checksum and payload.
//
// A worker runs foreign code that may print on the connection, close it or overwrite buffers of
// messages. So a reader trusts nothing: it checks a length before it allocates memory, and returns
// a payload only if the checksum is right. After an error the reader cannot find the next frame;
// close the connection then. A FrameReader belongs to one thread; the functions are thread-safe on
// different descriptors.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tw::tuner {

/// Largest payload in bytes. Writers and readers refuse larger payloads.
inline constexpr size_t max_frame_bytes = size_t{64} << 20;

/// Returns the frame that carries `payload`. Fails with Invalid if the payload is larger than
/// max_frame_bytes.
Result<std::string> encode_frame(std::string_view payload);

/// Extracts frames from bytes that arrive in pieces of any size.
class FrameReader {
 public:
  /// Adds bytes that arrived. Requires: next() has not failed.
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// Removes the next complete frame and returns its payload. Returns nullopt while more bytes are
  /// needed. Fails with Invalid if the bytes are no frame.
  Result<std::optional<std::string>> next();
  /// Number of bytes that were added by feed() and belong to no payload that next() has returned.
  size_t pending() const { return buffer_.size(); }

 private:
  std::string buffer_;
};

/// Writes the frame of a payload, and blocks until the whole frame is written. Signals do not
/// interrupt the write. Workers use this function; the parent uses Process::send(). Fails with the
/// errors of encode_frame(), and with Environment if the write fails, for instance because the
/// other side is gone.
Status write_frame(int fd, std::string_view payload);

/// Blocks until a whole frame has arrived, and returns its payload. Reads no byte beyond the frame.
/// Returns nullopt if the other side closed the connection between frames. Fails with Invalid if
/// the bytes are no frame, and with Environment if the read fails.
Result<std::optional<std::string>> read_frame(int fd);

}  // namespace tw::tuner
