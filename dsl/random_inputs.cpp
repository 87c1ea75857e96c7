// SPDX-License-Identifier: Apache-2.0
#include "dsl/random_inputs.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/integer.h"

namespace tw::dsl {
namespace {

class IndexRanges {
 public:
  explicit IndexRanges(const Compute& compute) : compute_(compute) {}

  std::map<std::string, IndexRange> run() && {
    for (const Stage& stage : compute_.stages)
      for_each(stage.body, [&](const Expr& e) {
        if (const Read* read = e.as<Read>()) visit_indices(*read);
      });
    return std::move(ranges_);
  }

 private:
  void visit_indices(const Read& read) {
    const std::vector<int64_t> shape = compute_.shape_of(read.tensor);
    for (size_t d = 0; d < read.indices.size(); ++d)
      visit(read.indices[d], {0, std::max<int64_t>(shape[d] - 1, 0)});
  }

  /// Records the range of each input that the expression reads. The expression is part of an index,
  /// and its values must lie in `range`.
  void visit(const Expr& expr, IndexRange range) {
    if (const Read* read = expr.as<Read>()) return note(*read, range);
    if (const Cast* c = expr.as<Cast>()) return visit(c->a, range);
    if (const Select* s = expr.as<Select>()) {
      visit(s->a, range);
      return visit(s->b, range);
    }
    const Binary* b = expr.as<Binary>();
    if (!b) return;
    if (const auto number = as_int(b->b)) narrow(b->op, *number, range);
    visit(b->a, range);
    visit(b->b, range);
  }

  /// Changes `range` from the range of `a op number` to the range of `a`.
  static void narrow(BinaryOp op, int64_t number, IndexRange& range) {
    if (op == BinaryOp::Min) range.last = std::min(range.last, number);
    if (op == BinaryOp::Max) range.first = std::max(range.first, number);
    if (op == BinaryOp::Mul && number > 0)
      range = {ceil_div(range.first, number), floor_div(range.last, number)};
  }

  void note(const Read& read, const IndexRange& range) {
    const Input* input = compute_.find_input(read.tensor);
    if (!input || is_float(input->type) || input->type == Bool) return;
    const auto [at, is_new] = ranges_.emplace(input->name, range);
    if (is_new) return;
    at->second = {std::max(at->second.first, range.first), std::min(at->second.last, range.last)};
  }

  const Compute& compute_;
  std::map<std::string, IndexRange> ranges_;
};

}  // namespace

std::map<std::string, IndexRange> index_ranges(const Compute& compute) {
  return IndexRanges(compute).run();
}

void fill_indices(Array& array, const IndexRange& range, Random& random) {
  const int bits = 8 * size_bytes(array.type) - (is_signed(array.type) ? 1 : 0);
  const int64_t last = std::min(range.last, std::numeric_limits<int64_t>::max() >> (63 - bits));
  const int64_t count = std::max<int64_t>(last - range.first + 1, 1);
  for (int64_t i = 0; i < array.size(); ++i) array.set_int(i, range.first + random.below(count));
}

Result<Arrays> random_inputs(const Compute& compute, uint64_t seed) {
  Random random(seed);
  const std::map<std::string, IndexRange> ranges = index_ranges(compute);
  Arrays inputs;
  for (const Input& input : compute.inputs) {
    TW_TRY(Array array, Array::make(input.type, input.shape));
    if (const auto range = ranges.find(input.name); range != ranges.end()) {
      fill_indices(array, range->second, random);
    } else {
      fill_normal(array, random);
    }
    inputs.emplace(input.name, std::move(array));
  }
  return inputs;
}

}  // namespace tw::dsl
