// SPDX-License-Identifier: Apache-2.0
#include "tools/gpu_targets.h"

#include <fmt/format.h>

#include "base/text.h"
#include "codegen/gpu_compile.h"
#include "runtime/device.h"
#include "tuner/device.h"

namespace tw::tools {
namespace {

using runtime::DeviceFacts;

/// Where a chip has instructions of its own alone ("sm_90a"), kernels may use them. A chip that is
/// not known is an error, although older kernels run on it.
Result<Target> target_of(const DeviceFacts& facts) {
  const std::vector<Target> targets = runtime::targets_of(facts);
  if (!targets.empty() && targets.front().gpu.starts_with(facts.architecture))
    return targets.front();
  return parse_target("cuda:" + facts.architecture);
}

Result<ChosenTarget> chosen_cuda(const std::string& text, const codegen::NvrtcOptions& nvrtc) {
  const auto device = runtime::open_cuda_device();
  const bool any = text == "cuda";
  if (any && !device && device.error().code == ErrorCode::TryLater)
    return tl::unexpected(device.error());
  TW_TRY(Target target, !any     ? parse_target(text)
                        : device ? target_of((*device)->facts())
                                 : parse_target("cuda:sm_90a"));
  ChosenTarget chosen{std::move(target), {}};
  if (!device) {
    chosen.missing.push_back(device.error().message);
  } else if (!runtime::runs_on(chosen.target.gpu, (*device)->facts().architecture)) {
    chosen.missing.push_back(fmt::format("a GPU of {}: this is {}, {}", chosen.target.gpu,
                                         (*device)->facts().name, (*device)->facts().architecture));
  } else {
    chosen.target = tuner::with_facts(chosen.target, (*device)->facts());
  }
  if (const auto compiler = codegen::gpu_toolchain(chosen.target, nvrtc); !compiler)
    chosen.missing.push_back(compiler.error().message);
  if (any && !chosen.missing.empty())
    return fail(ErrorCode::Environment,
                fmt::format("[target] cuda: {}{}", join(chosen.missing, "; and "),
                            device ? ""
                                   : "; without a GPU, name one: --target cuda:sm_90a "
                                     "--compile-only"));
  return chosen;
}

Result<ChosenTarget> chosen_opencl() {
  TW_TRY(Target target, parse_target("opencl"));
  ChosenTarget chosen{std::move(target), {}};
  if (const auto device = runtime::open_opencl_device()) {
    chosen.target = tuner::with_facts(chosen.target, (*device)->facts());
  } else {
    chosen.missing.push_back(device.error().message);
  }
  return chosen;
}

}  // namespace

bool names_gpu(const std::string& text) {
  return text == "cuda" || text == "opencl" || text.starts_with("cuda:");
}

Result<ChosenTarget> chosen_gpu(const std::string& text, const codegen::NvrtcOptions& nvrtc) {
  return text == "opencl" ? chosen_opencl() : chosen_cuda(text, nvrtc);
}

}  // namespace tw::tools
