// SPDX-License-Identifier: Apache-2.0
#include "runtime/arena_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/integer.h"
#include "base/result.h"
#include "runtime/arena.h"

namespace tw::runtime {
namespace {

using Order = std::vector<size_t>;

// Limit on the comparisons of pairs of arrays in the search; they take some tens of milliseconds.
constexpr size_t search_comparisons = 10'000'000;
constexpr size_t most_rounds = 200;

/// True if there is a step at which both arrays are alive.
bool meet(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

/// Returns the lifetimes with sizes rounded up to the alignment of the arena.
std::vector<Lifetime> padded(std::span<const Lifetime> lifetimes) {
  std::vector<Lifetime> result(lifetimes.begin(), lifetimes.end());
  for (Lifetime& lifetime : result) {
    TW_CHECK(lifetime.bytes >= 0 && lifetime.first <= lifetime.last);
    lifetime.bytes = round_up(lifetime.bytes, arena_alignment);
  }
  return result;
}

/// Returns the largest sum, over all steps, of the sizes of the arrays that are alive at the step.
/// No plan has a smaller arena.
int64_t most_alive(std::span<const Lifetime> lifetimes) {
  // (step, change of the sum); an array is removed at the step after its last
  std::vector<std::pair<int64_t, int64_t>> events;
  for (const Lifetime& lifetime : lifetimes) {
    events.push_back({lifetime.first, lifetime.bytes});
    events.push_back({int64_t{lifetime.last} + 1, -lifetime.bytes});
  }
  std::ranges::sort(events);
  int64_t alive = 0, most = 0;
  for (const auto& [step, change] : events) most = std::max(most, alive += change);
  return most;
}

/// Makes a plan by placing the arrays in this order, each in the lowest gap that fits.
ArenaPlan place_in(const Order& order, std::span<const Lifetime> lifetimes) {
  ArenaPlan plan{std::vector<int64_t>(lifetimes.size(), 0), 0};
  Order placed;  // placed arrays, sorted by offset
  for (const size_t array : order) {
    const Lifetime& lifetime = lifetimes[array];
    if (lifetime.bytes == 0) continue;
    int64_t at = 0;
    for (const size_t other : placed) {
      if (!meet(lifetime, lifetimes[other])) continue;
      if (at + lifetime.bytes <= plan.offsets[other]) break;
      at = std::max(at, plan.offsets[other] + lifetimes[other].bytes);
    }
    plan.offsets[array] = at;
    plan.bytes = std::max(plan.bytes, at + lifetime.bytes);
    const auto behind =
        std::ranges::upper_bound(placed, at, {}, [&](size_t other) { return plan.offsets[other]; });
    placed.insert(behind, array);
  }
  return plan;
}

/// Returns the indices of the arrays, sorted by decreasing key; arrays with equal keys are sorted
/// by index.
template <typename Key>
Order ordered_by(std::span<const Lifetime> lifetimes, const Key& key) {
  Order order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](size_t array) { return key(lifetimes[array]); });
  return order;
}

std::vector<Order> promising_orders(std::span<const Lifetime> lifetimes) {
  const auto bytes = [](const Lifetime& of) { return static_cast<double>(of.bytes); };
  const auto steps = [](const Lifetime& of) { return double{1} + of.last - of.first; };
  const auto volume = [&](const Lifetime& of) { return bytes(of) * steps(of); };
  const auto earliness = [](const Lifetime& of) { return -static_cast<double>(of.first); };
  return {ordered_by(lifetimes, bytes), ordered_by(lifetimes, volume), ordered_by(lifetimes, steps),
          ordered_by(lifetimes, earliness)};
}

/// Improves a plan in rounds. Each round moves the array with the highest end in the arena to the
/// front of the order and places all arrays again. Stops if the arena is as small as `bound`, if
/// the array to move is at the front already, or after a limited number of rounds. Returns the
/// smallest plan.
ArenaPlan improved(ArenaPlan best, Order order, std::span<const Lifetime> lifetimes,
                   int64_t bound) {
  const size_t count = lifetimes.size();
  const size_t rounds = std::min(most_rounds, search_comparisons / (count * count + 1));
  ArenaPlan plan = best;
  for (size_t round = 0; round < rounds && best.bytes > bound; ++round) {
    const auto highest = std::ranges::find_if(order, [&](size_t array) {
      return plan.offsets[array] + lifetimes[array].bytes == plan.bytes;
    });
    if (highest == order.begin()) break;
    std::rotate(order.begin(), highest, highest + 1);
    plan = place_in(order, lifetimes);
    if (plan.bytes < best.bytes) best = plan;
  }
  return best;
}

}  // namespace

int64_t least_arena_bytes(std::span<const Lifetime> lifetimes) {
  return most_alive(padded(lifetimes));
}

ArenaPlan plan_arena(std::span<const Lifetime> lifetimes) {
  const std::vector<Lifetime> arrays = padded(lifetimes);
  const int64_t bound = most_alive(arrays);
  ArenaPlan best;
  Order best_order;
  for (Order& order : promising_orders(arrays)) {
    ArenaPlan plan = place_in(order, arrays);
    if (!best_order.empty() && plan.bytes >= best.bytes) continue;
    best = std::move(plan);
    best_order = std::move(order);
    if (best.bytes == bound) return best;
  }
  return improved(std::move(best), std::move(best_order), arrays, bound);
}

}  // namespace tw::runtime
