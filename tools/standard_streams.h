// SPDX-License-Identifier: Apache-2.0
#pragma once
// Standard streams that are closed, full, or pipes that nobody reads any more. Thread-safe.

#include <string_view>

namespace tw::tools {

/// Call it first of all. Opens standard streams that are closed, so that no database or pipe gets
/// one of their numbers: standard error drops what is written to it, standard output fails. From
/// here on, writing to a pipe that nobody reads is an error, not a SIGPIPE; programs that are
/// started get the usual handling of that signal.
void prepare_standard_streams();

/// To standard error, at once. What cannot be written there is dropped: a run goes on, and keeps
/// its exit code, without anybody who watches it.
void print_error(std::string_view text);

}  // namespace tw::tools
