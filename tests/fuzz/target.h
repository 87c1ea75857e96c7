// SPDX-License-Identifier: Apache-2.0
#pragma once
// A fuzz target is one reader of untrusted bytes with its first inputs and the conditions that must
// hold for every other input. driver.cpp runs it on a million mutations. A new target is a source
// with such a table, and a row in targets.cpp.

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace tw::fuzz {

struct Target {
  std::string_view name;
  std::string_view summary;
  /// Returns the inputs to begin with. `accepts` must hold for at least one of them.
  std::vector<std::string> (*seeds)();
  /// Passes the input to the reader and uses the result. Returns true if the reader accepted the
  /// input. TW_CHECKs the promises: the result is a typed error that a person can read, or a value
  /// that prints and parses back. The driver detects crashes, hangs and too much memory.
  bool (*accepts)(std::string_view input) = nullptr;
  /// Words of the format, for mutations to insert.
  std::vector<std::string_view> words = {};
  /// Mutates with more knowledge of the format than bytes and words. `other` is another input.
  std::string (*mutated)(const std::string& input, const std::string& other,
                         Random& random) = nullptr;
};

extern const Target schedule_target, expression_target, record_target, merge_target,
    artifact_target;
#ifdef TW_FUZZ_ONNX
extern const Target onnx_target;
#endif

/// All targets of this build.
std::vector<Target> targets();

}  // namespace tw::fuzz
