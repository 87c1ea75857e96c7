// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small operators and schemes that tests of plans share.

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dsl/parse.h"
#include "dsl/workload.h"
#include "graph/plan.h"

namespace tw::graph {

/// Returns the layouts in a text such as "NCHW NCHW4c".
inline std::vector<dsl::Layout> layouts(std::string_view text, std::string_view letters) {
  std::vector<dsl::Layout> all;
  for (const std::string& word : words(text))
    all.push_back(dsl::Layout::parse(word, letters).value());
  return all;
}

inline Scheme scheme(std::string_view inputs, std::string_view outputs, double cost_ns,
                     std::string_view letters = "NCHW") {
  return {layouts(inputs, letters), layouts(outputs, letters), cost_ns};
}

/// Returns a workload with inputs and outputs of this shape. Output o is the sum of the inputs plus
/// o.
inline dsl::Workload sum_workload(const std::vector<int64_t>& shape, size_t inputs,
                                  size_t outputs) {
  std::vector<std::string> extents, axes, indices, lines, terms, names;
  for (size_t d = 0; d < shape.size(); ++d) {
    extents.push_back(fmt::format("{}", shape[d]));
    indices.push_back(fmt::format("i{}", d));
    axes.push_back(fmt::format("i{}={}", d, shape[d]));
  }
  for (size_t i = 0; i < inputs; ++i) {
    lines.push_back(fmt::format("input a{}: f32[{}]", i, join(extents, ", ")));
    terms.push_back(fmt::format("a{}[{}]", i, join(indices, ", ")));
  }
  for (size_t o = 0; o < outputs; ++o) {
    names.push_back(fmt::format("b{}", o));
    lines.push_back(fmt::format("b{}: f32[{}] = {} + {}.0", o, join(axes, ", "),
                                terms.empty() ? "0.0" : join(terms, " + "), o));
  }
  lines.push_back("output " + join(names, ", "));
  return dsl::workload(dsl::parse_compute(join(lines, "; ")).value()).value();
}

/// Returns a function that gives every copy this time.
inline TransformCost every_copy(double cost_ns) {
  return [cost_ns](const TensorType&, const dsl::Layout&, const dsl::Layout&) { return cost_ns; };
}

}  // namespace tw::graph
