// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/peers/peer.h"

namespace tw::bench {
namespace {

[[maybe_unused]] tl::unexpected<Error> built_without(std::string_view name,
                                                     std::string_view library,
                                                     std::string_view requirements) {
  return fail(ErrorCode::Environment,
              fmt::format("[bench] --peer {}: built without {}; install tools/{} into .venv and "
                          "build again",
                          name, library, requirements));
}

Result<Peer> find_on_processor(std::string_view name) {
  if (name == "onednn") {
#ifdef TW_ONEDNN_PEER
    return onednn_peer();
#else
    return built_without(name, "oneDNN", "requirements/bench.txt");
#endif
  }
  if (name == "halide") {
#ifdef TW_HALIDE_PEER
    return halide_peer();
#else
    return built_without(name, "Halide", "requirements/base.txt");
#endif
  }
  if (name == "ggml") {
#ifdef TW_GGML_PEER
    return ggml_peer();
#else
    return fail(ErrorCode::Environment,
                "[bench] --peer ggml: built without GGML; configure with -DTW_GGML=<site-packages "
                "with llama-cpp-python> and build again");
#endif
  }
  return fail(
      ErrorCode::Usage,
      fmt::format("[bench] --peer '{}': expected onednn, halide or ggml; cublas and cudnn run "
                  "on GPUs, --target cuda",
                  name));
}

}  // namespace

Result<Peer> find_peer(std::string_view name, bool on_gpu,
                       const std::vector<std::string>& directories) {
  if (!on_gpu) return find_on_processor(name);
  if (name == "cublas") return cublas_peer(directories);
  if (name == "cudnn") return cudnn_peer(directories);
  return fail(ErrorCode::Usage,
              fmt::format("[bench] --peer '{}': of a GPU's expected cublas or cudnn", name));
}

}  // namespace tw::bench
