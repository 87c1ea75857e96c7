// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workloads at random, with the shapes that networks have and odd ones besides. The cost model
// learns from them, and searches are judged on them: a model that was made for the layers of known
// networks has seen none of these. Free functions; thread-safe.
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

/// A kind of workloads, whose shapes are drawn alike.
struct Kind {
  std::string_view name, summary;
  Result<dsl::Workload> (*draw)(Random& random);
};
/// All kinds: conv, depthwise, grouped, conv1d, conv3d, transposed, dense, gemv, batch, attention,
/// rows, reductions, elementwise, fused, transform, integers, few_bits.
const std::vector<Kind>& kinds();

/// The kinds in `names` (comma-separated), each once; all for an empty text. Usage, listing the
/// names, for a name that there is not.
Result<std::vector<const Kind*>> choose_kinds(std::string_view names);

/// The workload of a kind with this number, named "conv_7". Its operations, or the bytes of its
/// inputs and outputs where these are more, are from 10^4 to 10^9, and the bytes at most 64 * 10^6.
Result<Item> draw_item(const Kind& kind, uint64_t seed, int64_t number);

}  // namespace tw::bench
