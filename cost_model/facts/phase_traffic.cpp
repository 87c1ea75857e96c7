// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "cost_model/facts/phase_walk.h"

namespace tw::cost_model::facts {
namespace {

constexpr int64_t page_bytes = 4 << 10;  // the system chooses the place of each page in memory

// Properties of hardware prefetchers and cores. lines_until_trained is the number of lines at the
// beginning of a stretch of memory that are loaded before a prefetcher follows the stretch.
// most_followed is the number of stretches that prefetchers follow at a time. most_side_by_side is
// the number of loads for which a core waits at once.
constexpr double lines_until_trained = 4, most_followed = 16, most_side_by_side = 10;

// Bytes at the beginning of a stretch until prefetchers are far ahead. Prefetchers request few
// lines ahead at the beginning of a stretch, and more as the stretch continues. A Zen 4 read whole
// arrays at 28 GB/s. It read stretches that do not continue each other at 9 to 11 GB/s (256 bytes
// to 8 KiB), 14 GB/s (16 KiB) and 20 GB/s (32 KiB).
constexpr double bytes_until_far_ahead = 8 << 10;

// Largest length in bytes of a stretch for which no prefetcher fetches lines. A Zen 4 read
// stretches of one or two lines at 5 to 6 GB/s.
constexpr double bytes_without_prefetch = 128;

// Limit on the number of lines of one stretch that a core may read before it turns to the next, so
// that prefetchers can follow several stretches. A Zen 4 that read 2 to 16 stretches in turns, and
// did nothing else, lost a tenth of its speed with turns of 512 bytes, a third with 1 KiB and
// nearly half with 4 KiB. Kernels that also compute give prefetchers more time: a product by
// weights of 4 bits lost a tenth with turns of 2 KiB.
constexpr double most_lines_in_turns = 32;

/// Returns the probability that a Poisson variable of this mean is `count` or more.
double at_least(int count, double mean) {
  if (mean > 4.0 * count) return 1;
  double term = std::exp(-mean), below = 0;
  for (int i = 0; i < count; ++i) {
    below += term;
    term *= mean / (i + 1);
  }
  return std::clamp(1 - below, 0.0, 1.0);
}

}  // namespace

Use& PhaseWalk::use_of(Node& node, size_t buffer) {
  for (Use& use : node.uses)
    if (use.buffer == buffer) return use;
  node.uses.push_back({.buffer = buffer});
  return node.uses.back();
}

void PhaseWalk::touch(const Access& access, size_t buffer) {
  if (access.is_store) stored_.insert(buffer);
  // The footprint of all iterations of a loop equals the footprint of one iteration of its parent,
  // unless an unrolled loop is between them. If they are equal, the footprint is computed only
  // once.
  size_t from = levels_.size() + 1;
  Footprint of_one;
  for (int n = around_.node; n >= 0; n = nodes_[static_cast<size_t>(n)].parent) {
    Node& node = nodes_[static_cast<size_t>(n)];
    Use& use = use_of(node, buffer);
    add_origin(access, use.origins);
    const bool is_alone = are_one(use.origins);
    const auto footprint_from = [&](size_t first) {
      const auto runs = [&](size_t level) { return level >= first; };
      if (!is_alone) return footprint(access, levels_, runs, lines_, use.origins);
      if (first != from) of_one = footprint(access, levels_, runs, lines_);
      from = first;
      return of_one;
    };
    const Footprint body = footprint_from(node.first_inner_level);
    if (body.bytes > use.body.bytes) use.body = body;
    use.body_aliased = std::max(use.body_aliased, body.aliased_bytes);
    const Footprint loop = footprint_from(node.parent < 0 ? 0 : node.first_inner_level - 1);
    if (loop.bytes > use.loop.bytes) use.loop = loop;
    if (n != around_.node) continue;
    const double weight = std::min(1.0, around_.weight);
    for (double& direct : use.direct) direct = std::max(direct, body.bytes * weight);
    if (access.is_store) continue;
    for (double& waits : use.waits) waits = std::max(waits, waits_of(body) * weight);
    use.begun = std::max(use.begun, begun_of(body.bytes, body.runs) * weight);
  }
}

double PhaseWalk::untrained(const Footprint& footprint) {
  return std::min(footprint.lines_a_run, lines_until_trained);
}

double PhaseWalk::waits_of(const Footprint& body) {
  if (body.runs < 2 || body.distance < page_bytes) return 0;
  return std::max(1.0, body.runs / most_side_by_side) * untrained(body);
}

double PhaseWalk::begun_of(double bytes, double runs) {
  if (bytes <= runs * bytes_without_prefetch) return 2 * bytes;
  return std::min(bytes, runs * bytes_until_far_ahead);
}

bool PhaseWalk::goes_on(const Use& use) {
  return use.body.runs <= most_followed && use.loop.runs <= use.body.runs &&
         use.loop.bytes > use.body.bytes;
}

double PhaseWalk::share_of(const Node& node, const Use& use, size_t cache, double fetched) {
  const double anew = node.trips * use.direct[cache];
  return anew > 0 ? fetched / anew : 0;
}

double PhaseWalk::waits_of(const Node& node, const Use& use, size_t cache, double fetched) {
  const double each = use.waits[cache] * share_of(node, use, cache, fetched);
  if (!goes_on(use) || use.waits[cache] > waits_of(use.body)) return node.trips * each;
  return std::min(node.trips * each, use.waits[cache] * untrained(use.loop) / untrained(use.body));
}

bool PhaseWalk::is_followed(const Use& use) {
  const Footprint& body = use.body;
  if (use.is_scattered || use.begun > begun_of(body.bytes, body.runs) || !goes_on(use))
    return false;
  return body.runs <= 1 ||
         (body.distance >= page_bytes && turns_of(use).lines <= most_lines_in_turns);
}

Turns PhaseWalk::turns_of(const Use& use) {
  if (use.turns.runs >= use.body.runs) return use.turns;
  return {use.body.runs, use.body.lines_a_run};
}

double PhaseWalk::begun_of(const Node& node, const Use& use, double fetched) {
  const double all = node.trips * use.begun * share_of(node, use, cache_levels - 1, fetched);
  if (!is_followed(use)) return all;
  // Four whole rows of a matrix are one stretch of memory, but a core that reads the rows side by
  // side begins four stretches.
  return std::min(all, begun_of(use.loop.bytes, std::max(use.loop.runs, use.body.runs)));
}

double PhaseWalk::total_footprint(const Node& node) {
  double bytes = 0;
  for (const Use& use : node.uses) bytes += use.body.bytes;
  return bytes;
}

void PhaseWalk::finish_traffic() {
  for (size_t n = nodes_.size(); n > 0; --n) {
    Node& node = nodes_[n - 1];
    const double body = total_footprint(node);
    for (size_t c = 0; c < cache_levels; ++c) {
      const double lost = lost_share(c, body);
      for (Use& use : node.uses) {
        const double anew = node.trips * use.direct[c];
        // One iteration can fetch more bytes than the loop touches, if inner loops fetch lines
        // again.
        const double once = std::min(anew, std::max(use.direct[c], use.loop.bytes));
        const bool is_aliased = c == 0 && use.body_aliased > capacity(c);
        const double fetched = is_aliased ? anew : once + lost * (anew - once);
        add_traffic(node, use.buffer, c, fetched, waits_of(node, use, c, fetched));
        if (c + 1 == cache_levels) add_begun(node, use, begun_of(node, use, fetched));
      }
    }
  }
  phase_.footprint = total_footprint(nodes_[0]);
  phase_.task_footprint = total_footprint(nodes_[static_cast<size_t>(task_node_)]);
}

double PhaseWalk::lost_share(size_t cache, double bytes) const {
  const CacheLevel& level = machine_.caches[cache];
  const double ways = level.ways, filled = bytes / std::max(1.0, capacity(cache));
  // If the ways of a cache are no larger than a page, arrays fill the sets of the cache evenly. One
  // way of each set is left for other data that passes through the cache.
  if (level.way_bytes() <= page_bytes) return filled <= 1 - 1 / ways ? 0 : 1;
  // Pages lie in memory at random, so the number of pages that share the same sets has a Poisson
  // distribution. If that number exceeds the number of ways, each page evicts the page that is
  // needed next.
  return at_least(level.ways, ways * filled);
}

void PhaseWalk::add_traffic(const Node& node, size_t buffer, size_t cache, double bytes,
                            double waits) {
  if (node.parent < 0) {
    const double footprint = use_of(nodes_[0], buffer).body.bytes;
    Fetched& fetched = fetched_of(buffer);
    fetched.once[cache] = std::min(bytes, footprint);
    fetched.again[cache] = bytes - fetched.once[cache];
    fetched.waits[cache] = waits;
    fetched.is_stored = stored_.contains(buffer);
    return;
  }
  Node& parent = nodes_[static_cast<size_t>(node.parent)];
  Use& use = use_of(parent, buffer);
  use.direct[cache] += node.entries_per_iteration * bytes;
  use.waits[cache] += node.entries_per_iteration * waits;
}

void PhaseWalk::add_begun(const Node& node, const Use& use, double bytes) {
  if (node.parent < 0) {
    fetched_of(use.buffer).begun = bytes;
    return;
  }
  Use& outer = use_of(nodes_[static_cast<size_t>(node.parent)], use.buffer);
  outer.begun += node.entries_per_iteration * bytes;
  const bool fills_gaps = use.loop.runs < use.body.runs && use.body.distance < page_bytes;
  outer.is_scattered |= use.is_scattered || fills_gaps;
  const bool goes_nowhere = use.loop.bytes <= use.body.bytes;
  if (!goes_nowhere && !is_followed(use)) return;
  const Turns turns = goes_nowhere ? use.turns : turns_of(use);
  if (turns.runs <= 1) return;
  outer.turns.runs = std::max(outer.turns.runs, turns.runs);
  outer.turns.lines = std::max(outer.turns.lines, turns.lines);
}

Fetched& PhaseWalk::fetched_of(size_t buffer) {
  for (Fetched& fetched : fetched_)
    if (fetched.buffer == buffer) return fetched;
  return fetched_.emplace_back(Fetched{buffer});
}

}  // namespace tw::cost_model::facts
