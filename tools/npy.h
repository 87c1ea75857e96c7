// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads and writes arrays in NumPy's file format (.npy, versions 1 to 3), so that files can be
// exchanged with numpy.load() and numpy.save(). A file is untrusted input. Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/array.h"

namespace tw::tools {

/// Reads an array from a file. Environment if the file cannot be read; Invalid if it is not in this
/// format or shorter than its header says. Unsupported for element types that dtype.h lacks and for
/// big-endian and column-major arrays; the message says how NumPy converts them.
Result<dsl::Array> read_npy(const std::string& path);
/// As read_npy(), for the bytes of a file that is already in memory; messages call it `name`.
Result<dsl::Array> parse_npy(std::string_view bytes, const std::string& name);

/// Writes an array to a file. Environment if the file cannot be written; Unsupported for bf16, for
/// which NumPy has no type.
Status write_npy(const std::string& path, const dsl::Array& array);
Result<std::string> npy_bytes(const dsl::Array& array);

}  // namespace tw::tools
