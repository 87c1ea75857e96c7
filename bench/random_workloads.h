// SPDX-License-Identifier: Apache-2.0
#pragma once
// Draws random workloads, with shapes that are common in networks and with odd shapes. The cost
// model learns from them, and searches are judged on them, as a model that was tuned for the layers
// of known networks has not seen them. Free functions; thread-safe.
//
//   TW_TRY(const std::vector<const Kind*> kinds, choose_kinds("conv,dense"));
//   TW_TRY(const Item item, draw_item(*kinds[0], seed, 7));   // always the same for (seed, 7)

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "bench/suite.h"

namespace tw::bench {

/// A kind of workloads. All workloads of a kind are drawn by the same function.
struct Kind {
  std::string_view name, summary;
  Result<dsl::Workload> (*draw)(Random& random);
};
/// All kinds: conv, depthwise, grouped, conv1d, conv3d, transposed, dense, gemv, batch, attention,
/// rows, reductions, elementwise, fused, transform, integers, few_bits.
const std::vector<Kind>& kinds();

/// The kinds in `names` (comma-separated), each once; all kinds for an empty text. Usage, listing
/// the names, for an unknown name.
Result<std::vector<const Kind*>> choose_kinds(std::string_view names);

/// Draws workload `number` of a kind; its name is such as "conv_7". The larger of its number of
/// operations and the bytes of its inputs and outputs is from 10^4 to 10^9, and the bytes are at
/// most 64 * 10^6.
Result<Item> draw_item(const Kind& kind, uint64_t seed, int64_t number);

}  // namespace tw::bench
