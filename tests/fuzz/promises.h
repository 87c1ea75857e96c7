// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every reader of untrusted bytes promises of the errors that it returns.

#include <fstream>
#include <iterator>
#include <string>

#include "base/result.h"

namespace tw::fuzz {

/// The error is one for people: of a kind that input can cause, and short enough to be read.
inline void check_error(const Error& error) {
  TW_CHECK(error.code != ErrorCode::Internal, "the input caused an internal error");
  TW_CHECK(!error.message.empty() && error.message.size() < 16 << 10);
}

/// A file of the source tree.
inline std::string source_file(const std::string& path) {
  std::ifstream in(TW_FUZZ_ROOT "/" + path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  TW_CHECK(!bytes.empty(), "a seed is missing");
  return bytes;
}

}  // namespace tw::fuzz
