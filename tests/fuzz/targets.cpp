// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/target.h"

namespace tw::fuzz {

std::vector<Target> targets() {
  return {
      schedule_target, expression_target, record_target, merge_target, artifact_target,
#ifdef TW_FUZZ_ONNX
      onnx_target,
#endif
  };
}

}  // namespace tw::fuzz
