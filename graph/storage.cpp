// SPDX-License-Identifier: Apache-2.0
#include "graph/storage.h"

#include <algorithm>
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
  std::vector<int64_t> steps(shape.size(), 1);  // product of the factors that lie further inside
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
  // std::unique compares with the last step that was kept, as the definition needs.
  storage.steps.erase(std::unique(storage.steps.begin(), storage.steps.end(), continues),
                      storage.steps.end());
  return storage;
}

}  // namespace tw::graph
