// SPDX-License-Identifier: Apache-2.0
#pragma once
// Draws random workloads. Some have shapes that are common in networks, others have odd shapes. The
// cost model is trained on these workloads, and searches are judged on them, since a cost model
// that is good only for the layers of known networks would fail on odd shapes. Free functions;
// thread-safe.
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

/// Returns the kinds whose names are in `names`, separated by commas, each kind once. An empty text
/// stands for all kinds. Fails with Usage if a name is unknown; the message lists the known ones.
Result<std::vector<const Kind*>> choose_kinds(std::string_view names);

/// Draws workload `number` of a kind and names it, for example "conv_7". Draws are repeated until
/// the workload meets two conditions: its inputs and outputs have together at most 64 * 10^6 bytes;
/// and the number of these bytes or the number of operations, whichever is larger, is from 10^4 to
/// 10^9.
Result<Item> draw_item(const Kind& kind, uint64_t seed, int64_t number);

}  // namespace tw::bench
