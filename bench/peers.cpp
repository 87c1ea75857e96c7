// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "bench/peer.h"

namespace tw::bench {

Result<Peer> find_peer(std::string_view name) {
  if (name == "onednn") return onednn_peer();
#ifdef TW_HALIDE_PEER
  if (name == "halide") return halide_peer();
#else
  if (name == "halide")
    return fail(ErrorCode::Environment,
                "[bench] --peer halide: built without Halide; install tools/requirements.txt into "
                ".venv and build again");
#endif
  return fail(ErrorCode::Usage,
              fmt::format("[bench] --peer '{}': expected onednn or halide", name));
}

}  // namespace tw::bench
