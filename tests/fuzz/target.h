// SPDX-License-Identifier: Apache-2.0
#pragma once
// A fuzz target: one reader of untrusted bytes, the inputs to begin with, and what must hold of
// every other input. driver.cpp runs it on a million mutations. A new target is a source with such
// a table and a row in targets.cpp.

#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace tw::fuzz {

struct Target {
  std::string_view name;
  std::string_view summary;
  /// Inputs to begin with; `accepts` holds for at least one.
  std::vector<std::string> (*seeds)();
  /// Gives the input to the reader and to what uses its result. Returns whether the reader took the
  /// input. TW_CHECKs the promises: a typed error that a person can read, or a value that prints
  /// and parses back. Crashes, hangs and memory are the driver's business.
  bool (*accepts)(std::string_view input) = nullptr;
  /// Words of the format, which mutations insert.
  std::vector<std::string_view> words = {};
  /// A mutation that knows the format better than bytes and words do; `other` is another input.
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
