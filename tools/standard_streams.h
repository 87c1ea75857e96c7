// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles standard streams that are closed, full, or pipes without a reader. Thread-safe.

#include <string_view>

namespace tw::tools {

/// Opens /dev/null for each standard stream that is closed. Otherwise the next file or pipe that is
/// opened would get the descriptor 0, 1 or 2. After the call, writes to a standard error that was
/// closed are dropped, and writes to a standard output that was closed fail. The function also
/// makes writing to a pipe without a reader fail with EPIPE instead of killing the process by
/// SIGPIPE. Programs that this process starts get the default handling of SIGPIPE. Call it before
/// anything else.
void prepare_standard_streams();

/// Writes a text to standard error and flushes the stream. If standard error cannot be written, the
/// text is dropped, so that a run continues and keeps its exit code.
void print_error(std::string_view text);

}  // namespace tw::tools
