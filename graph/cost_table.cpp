// SPDX-License-Identifier: Apache-2.0
#include "graph/cost_table.h"

#include <algorithm>
#include <limits>

#include "base/result.h"

namespace tw::graph {
namespace {

/// A loop of minimized_sum() over the states of a variable.
struct StateLoop {
  size_t variable;
  size_t extent;
  size_t result_stride;  ///< stride in the result; 0 if the variable is removed
};

/// A copy of a table whose array is in the order of the loops that read it, so that the innermost
/// loop reads consecutive elements.
class OrderedTable {
 public:
  OrderedTable(const CostTable& table, const std::vector<StateLoop>& loops) {
    std::vector<size_t> from_strides;  // stride of each loop in the table's own array
    size_t size = 1;
    for (const StateLoop& loop : loops) from_strides.push_back(stride_in(table, loop.variable));
    strides_.resize(loops.size(), 0);
    for (size_t l = loops.size(); l-- > 0;) {
      if (from_strides[l] == 0) continue;
      strides_[l] = size;
      size *= loops[l].extent;
    }
    costs_ = table.costs.data();
    if (from_strides == strides_) return;
    copy_.resize(size);
    copy(table, loops, from_strides, 0, 0, 0);
    costs_ = copy_.data();
  }
  // After a move, costs_ is still valid, because moving copy_ does not move its elements.
  OrderedTable(OrderedTable&&) = default;

  const double* costs() const { return costs_; }
  size_t stride(size_t loop) const { return strides_[loop]; }

 private:
  static size_t stride_in(const CostTable& table, size_t variable) {
    size_t stride = 1;
    for (size_t d = table.variables.size(); d-- > 0; stride *= table.extents[d])
      if (table.variables[d] == variable) return stride;
    return 0;
  }

  void copy(const CostTable& table, const std::vector<StateLoop>& loops,
            const std::vector<size_t>& from_strides, size_t loop, size_t from, size_t to) {
    if (loop == loops.size()) {
      copy_[to] = table.costs[from];
      return;
    }
    const size_t extent = from_strides[loop] == 0 ? 1 : loops[loop].extent;
    for (size_t s = 0; s < extent; ++s)
      copy(table, loops, from_strides, loop + 1, from + s * from_strides[loop],
           to + s * strides_[loop]);
  }

  const double* costs_;
  std::vector<double> copy_;
  std::vector<size_t> strides_;
};

/// The loop nest of minimized_sum(). From the outside in, it has the kept variables except the
/// last, then the removed variables, then the last kept variable.
class MinimizedSum {
 public:
  MinimizedSum(const std::vector<const CostTable*>& tables, std::vector<StateLoop> loops,
               std::vector<double>& result)
      : loops_(std::move(loops)), result_(result), row_(loops_.back().extent) {
    for (const CostTable* table : tables) tables_.emplace_back(*table, loops_);
  }

  void run() {
    std::vector<const double*> positions;
    for (const OrderedTable& table : tables_) positions.push_back(table.costs());
    run(0, positions, result_.data());
  }

 private:
  void run(size_t loop, std::vector<const double*>& positions, double* result) {
    if (loop + 1 == loops_.size()) return minimize_row(positions, result);
    const StateLoop& states = loops_[loop];
    for (size_t s = 0; s < states.extent; ++s, result += states.result_stride) {
      run(loop + 1, positions, result);
      for (size_t t = 0; t < tables_.size(); ++t) positions[t] += tables_[t].stride(loop);
    }
    for (size_t t = 0; t < tables_.size(); ++t)
      positions[t] -= states.extent * tables_[t].stride(loop);
  }

  void minimize_row(const std::vector<const double*>& positions, double* result) {
    const size_t extent = row_.size(), innermost = loops_.size() - 1;
    double constant = 0;
    const double* first = nullptr;
    bool is_summed = false;  // true if row_ holds the sum of the tables that vary along the row
    for (size_t t = 0; t < tables_.size(); ++t) {
      if (tables_[t].stride(innermost) == 0) {
        constant += *positions[t];
      } else if (!first) {
        first = positions[t];
      } else {
        const double* summed = is_summed ? row_.data() : first;
        for (size_t i = 0; i < extent; ++i) row_[i] = summed[i] + positions[t][i];
        is_summed = true;
      }
    }
    if (!first) {
      for (size_t i = 0; i < extent; ++i) result[i] = std::min(result[i], constant);
      return;
    }
    const double* summed = is_summed ? row_.data() : first;
    for (size_t i = 0; i < extent; ++i) result[i] = std::min(result[i], constant + summed[i]);
  }

  const std::vector<StateLoop> loops_;
  std::vector<OrderedTable> tables_;
  std::vector<double>& result_;
  std::vector<double> row_;
};

}  // namespace

double CostTable::at(std::span<const size_t> states) const {
  size_t element = 0;
  for (size_t d = 0; d < variables.size(); ++d)
    element = element * extents[d] + states[variables[d]];
  return costs[element];
}

CostTable minimized_sum(const std::vector<const CostTable*>& tables,
                        const std::vector<size_t>& kept, const std::vector<size_t>& removed,
                        const std::vector<size_t>& extents) {
  CostTable result{kept, {}, {}};
  size_t size = 1;
  for (const size_t variable : kept) {
    result.extents.push_back(extents[variable]);
    size *= extents[variable];
  }
  result.costs.assign(size, std::numeric_limits<double>::infinity());

  std::vector<StateLoop> loops;
  size_t stride = size;
  for (const size_t variable : kept) {
    stride /= std::max<size_t>(extents[variable], 1);
    loops.push_back({variable, extents[variable], stride});
  }
  const size_t outer = kept.empty() ? 0 : kept.size() - 1;
  for (size_t i = 0; i < removed.size(); ++i)
    loops.insert(loops.begin() + static_cast<ptrdiff_t>(outer + i),
                 {removed[i], extents[removed[i]], 0});
  // Without a kept variable, the innermost loop has a single iteration.
  if (kept.empty()) loops.push_back({std::numeric_limits<size_t>::max(), 1, 0});
  MinimizedSum(tables, std::move(loops), result.costs).run();
  return result;
}

}  // namespace tw::graph
