// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks the promises that every reader of untrusted bytes makes about its errors. Also reads the
// files of seeds.

#include <fstream>
#include <iterator>
#include <string>

#include "base/result.h"

namespace tw::fuzz {

/// Checks that the error is fit for users: its code is one that an input can cause, and its message
/// is not empty and short enough to be read.
inline void check_error(const Error& error) {
  TW_CHECK(error.code != ErrorCode::Internal, "the input caused an internal error");
  TW_CHECK(!error.message.empty() && error.message.size() < 16 << 10);
}

/// Returns the content of a file of the source tree.
inline std::string source_file(const std::string& path) {
  std::ifstream in(TW_FUZZ_ROOT "/" + path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  TW_CHECK(!bytes.empty(), "a seed is missing");
  return bytes;
}

}  // namespace tw::fuzz
