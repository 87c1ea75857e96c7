// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/contender.h"

#include "base/integer.h"
#include "base/text.h"
#include "bench/databases/memory.h"

namespace tw::bench {

Result<int64_t> Contender::time_ns(int64_t first, int64_t calls, bool prepares,
                                   const tuner::Clock& clock) {
  int64_t elapsed = 0;
  const int64_t batch = prepares ? 1 : calls;
  for (int64_t call = first; call < first + calls; call += batch) {
    if (prepares) prepare_call();
    const int64_t start = clock();
    for (int64_t i = 0; i < batch; ++i) TW_RETURN_IF_ERROR(run(call + i));
    elapsed += clock() - start;
  }
  return elapsed;
}

std::string layouts_text(const runtime::KernelInfo& info) {
  std::vector<std::string> layouts;
  for (const runtime::ArgumentInfo& argument : info.arguments)
    layouts.push_back(argument.layout.empty() ? "row-major" : argument.layout);
  return join(layouts, " ");
}

int64_t copies_of(int64_t bytes, const Setup& setup) {
  if (setup.rotated_bytes == 0 || bytes == 0) return 1;
  return setup.rotated_bytes / round_up(bytes, Memory::page) + 2;
}

}  // namespace tw::bench
