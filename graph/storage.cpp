// SPDX-License-Identifier: Apache-2.0
#include "graph/storage.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "base/integer.h"

namespace tw::graph {
namespace {

bool continues(const Storage::Step& before, const Storage::Step& step) {
  return before.dim == step.dim && step.stride == before.stride * (step.step / before.step);
}

}  // namespace

Storage storage_of(const std::vector<int64_t>& shape, const dsl::Layout& layout) {
  Storage storage{1, {}};
  // For each dimension, product of the factors of its inner parts.
  std::vector<int64_t> steps(shape.size(), 1);
  for (auto part = layout.parts().rbegin(); part != layout.parts().rend(); ++part) {
    const auto dim = static_cast<size_t>(part->dim);
    // An index that is always 0 does not matter, whatever its stride.
    if (steps[dim] < shape[dim]) storage.steps.push_back({part->dim, steps[dim], storage.elements});
    storage.elements *= part->factor ? part->factor : ceil_div(shape[dim], steps[dim]);
    if (part->factor) steps[dim] *= part->factor;
  }
  if (storage.elements == 0) return {};
  std::sort(storage.steps.begin(), storage.steps.end(),
            [](const Storage::Step& a, const Storage::Step& b) {
              return std::tie(a.dim, a.step) < std::tie(b.dim, b.step);
            });
  // std::unique compares each step with the last step that was kept, as Storage::Step is defined.
  storage.steps.erase(std::unique(storage.steps.begin(), storage.steps.end(), continues),
                      storage.steps.end());
  return storage;
}

std::optional<int64_t> offset_of_slice(const std::vector<int64_t>& shape, const dsl::Layout& layout,
                                       size_t dimension, int64_t begin, int64_t end) {
  const auto dim = static_cast<int>(dimension);
  const std::vector<dsl::Layout::Part>& parts = layout.parts();
  int64_t block = 1;
  for (const dsl::Layout::Part& part : parts)
    if (part.dim == dim && part.factor) block *= part.factor;
  if (begin % block != 0 || (end % block != 0 && end != shape[dimension])) return std::nullopt;
  const std::vector<int64_t> extents = layout.storage_shape(shape);
  const auto outer = std::ranges::find(parts, dsl::Layout::Part{dim, 0}) - parts.begin();
  if (std::any_of(extents.begin(), extents.begin() + outer, [](int64_t e) { return e != 1; }))
    return std::nullopt;
  return std::accumulate(extents.begin() + outer + 1, extents.end(), begin / block,
                         std::multiplies<>());
}

}  // namespace tw::graph
