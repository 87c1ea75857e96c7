// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays as NumPy stores them (.npy, format versions 1 to 3): numpy.load() reads what is written
// here and numpy.save() writes what is read. A file is untrusted input. Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"
#include "dsl/array.h"

namespace tw::tools {

/// Environment where the file cannot be read; Invalid where it is no such file or shorter than its
/// header says; Unsupported for other element types than those of dtype.h, for big-endian and for
/// column-major arrays, saying how NumPy converts them.
Result<dsl::Array> read_npy(const std::string& path);
/// The same for the bytes of a file, which messages call `name`.
Result<dsl::Array> parse_npy(std::string_view bytes, const std::string& name);

/// Environment where the file cannot be written; Unsupported for bf16, which NumPy has no type for.
Status write_npy(const std::string& path, const dsl::Array& array);
Result<std::string> npy_bytes(const dsl::Array& array);

}  // namespace tw::tools
