// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads and writes arrays in NumPy's file format (.npy, versions 1 to 3), so that files can be
// exchanged with numpy.load() and numpy.save(). A file is untrusted input. Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/array.h"

namespace tw::tools {

/// Reads an array from a file. Fails with
/// - Environment if the file cannot be read;
/// - Invalid if it is not in this format, or has more or fewer bytes than its header says;
/// - Unsupported if its elements have a type that base/dtype.h lacks or are big-endian, or if the
///   array is column-major. The message says how NumPy converts such arrays.
Result<dsl::Array> read_npy(const std::string& path);
/// As read_npy(), for the bytes of a file that is already in memory; messages call the file `name`.
Result<dsl::Array> parse_npy(std::string_view bytes, const std::string& name);

/// Writes an array to a file. Fails with Environment if the file cannot be written, and with
/// Unsupported for bf16, for which NumPy has no type.
Status write_npy(const std::string& path, const dsl::Array& array);
Result<std::string> npy_bytes(const dsl::Array& array);

}  // namespace tw::tools
