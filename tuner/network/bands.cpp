// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/bands.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace tw::tuner {
namespace {

/// The time for waking the threads of a band and for waiting until they are done, in ns
/// (runtime/thread_pool.h).
constexpr double fork_ns = 500;
/// Largest number of units of a window, where a unit is a call outside of loops or a whole loop.
/// The limit bounds the time of the search for windows.
constexpr size_t most_units = 96;

/// Calls that stay together: all calls of a loop, or a single call. `end` is the index after the
/// last call.
struct Unit {
  size_t first = 0, end = 0;
  std::optional<size_t> loop = {};  ///< index into Script::loops
  double cost_ns = 0;
};

std::vector<Unit> units_of(const Script& script) {
  std::vector<Unit> units;
  size_t loop = 0;
  for (size_t call = 0; call < script.calls.size();) {
    while (loop < script.loops.size() && script.loops[loop].end <= call) ++loop;
    Unit& unit = units.emplace_back(Unit{call, call + 1});
    if (loop < script.loops.size() && script.loops[loop].first == call)
      unit = {call, script.loops[loop].end, loop};
    for (; call < unit.end; ++call) unit.cost_ns += script.calls[call].cost_ns;
  }
  return units;
}

/// Dependences between units. Two units depend on each other if one of them writes data that the
/// other reads or writes. Dependent units have to run in order.
class Dependences {
 public:
  Dependences(const Script& script, const std::vector<Unit>& units) : script_(script) {
    for (size_t storage = 0; storage < script.storages.size(); ++storage)
      places_.push_back(place_of(storage));
    std::vector<Accesses> accesses;
    for (const Unit& unit : units) accesses.push_back(accesses_of(unit));
    for (size_t unit = 0; unit < units.size(); ++unit) {
      std::vector<bool>& later = later_.emplace_back();
      for (size_t other = unit + 1; other < std::min(unit + most_units, units.size()); ++other)
        later.push_back(are_dependent(accesses[unit], accesses[other]));
    }
  }

  /// True if `unit` and `later` depend on each other. Requires: unit < later < unit + most_units.
  bool between(size_t unit, size_t later) const { return later_[unit][later - unit - 1]; }

 private:
  /// For each storage that a unit uses, true if the unit writes it.
  using Accesses = std::map<size_t, bool>;
  /// The array that contains a storage. `moves` is true if the storage moves in that array while a
  /// loop runs.
  struct Place {
    size_t array = 0;
    bool moves = false;
  };

  Place place_of(size_t storage) const {
    Place place{storage};
    while (const auto& part = script_.storages[place.array].part) {
      place.moves |= part->advance != 0;
      place.array = part->whole;
    }
    return place;
  }

  Accesses accesses_of(const Unit& unit) const {
    Accesses accesses;
    for (size_t number = unit.first; number < unit.end; ++number) {
      const ScriptCall& call = script_.calls[number];
      const size_t inputs = script_.kernels[call.kernel].workload.compute.inputs.size();
      for (size_t i = 0; i < call.arguments.size(); ++i)
        if (!call.arguments[i].is_constant) accesses[call.arguments[i].storage] |= i >= inputs;
    }
    return accesses;
  }

  bool are_dependent(const Accesses& unit, const Accesses& other) const {
    for (const auto& [storage, writes] : unit)
      for (const auto& [other_storage, other_writes] : other)
        if ((writes || other_writes) && may_overlap(storage, other_storage)) return true;
    return false;
  }

  /// True if two storages may overlap in memory. Two parts of an array, such as inputs of a
  /// concatenation, do not overlap unless one is a part of the other, or one moves in a loop.
  bool may_overlap(size_t a, size_t b) const {
    return places_[a].array == places_[b].array &&
           (places_[a].moves || places_[b].moves || is_within(a, b) || is_within(b, a));
  }

  bool is_within(size_t storage, size_t whole) const {
    while (storage != whole && script_.storages[storage].part)
      storage = script_.storages[storage].part->whole;
    return storage == whole;
  }

  const Script& script_;
  std::vector<Place> places_;             ///< for each storage
  std::vector<std::vector<bool>> later_;  ///< for each unit, the units that follow it
};

/// A window: the units from `first` to `end` - 1, and the chains into which they are split.
struct Window {
  size_t first = 0, end = 0;
  std::vector<std::vector<size_t>> chains = {};
};

/// The chains of a window. The window grows from its last unit towards the beginning of the script.
class Chains {
 public:
  Chains(const std::vector<Unit>& units, const Dependences& dependences)
      : units_(units), dependences_(dependences) {}

  /// Adds a unit to the window. All chains with a unit that depends on the new unit are joined into
  /// one chain with it. Requires: the unit is the one just before the units that were added.
  void add(size_t unit) {
    Chain joined{.units = {unit}, .cost_ns = units_[unit].cost_ns};
    std::erase_if(chains_, [&](const Chain& chain) {
      if (std::ranges::none_of(chain.units,
                               [&](size_t later) { return dependences_.between(unit, later); }))
        return false;
      joined.units.insert(joined.units.end(), chain.units.begin(), chain.units.end());
      joined.cost_ns += chain.cost_ns;
      return true;
    });
    chains_.push_back(std::move(joined));
  }

  /// Returns the most time in ns that running the chains side by side on this many threads can
  /// save, minus fork_ns. Negative if nothing can be saved.
  double saved_ns(int threads) const {
    double all = 0, longest = 0;
    for (const Chain& chain : chains_) {
      all += chain.cost_ns;
      longest = std::max(longest, chain.cost_ns);
    }
    return all - std::max(longest, all / threads) - fork_ns;
  }

  size_t count() const { return chains_.size(); }

  /// The units of each chain, in order. The chain with the longest time comes first, so that the
  /// other chains run beside it.
  std::vector<std::vector<size_t>> sorted() && {
    for (Chain& chain : chains_) std::ranges::sort(chain.units);
    std::ranges::sort(chains_, [](const Chain& a, const Chain& b) {
      return std::pair(-a.cost_ns, a.units.front()) < std::pair(-b.cost_ns, b.units.front());
    });
    std::vector<std::vector<size_t>> sorted;
    for (Chain& chain : chains_) sorted.push_back(std::move(chain.units));
    return sorted;
  }

 private:
  struct Chain {
    std::vector<size_t> units;
    double cost_ns = 0;
  };
  const std::vector<Unit>& units_;
  const Dependences& dependences_;
  std::vector<Chain> chains_;
};

/// Returns the windows that do not overlap and together save the most time. If several choices save
/// equally much, windows with fewer units are preferred.
std::vector<Window> best_windows(const std::vector<Unit>& units, const Dependences& dependences,
                                 int threads) {
  // saved[i] is the most time that windows of the first i units save. begins[i] is the first unit
  // of the window that ends before unit i, or i if no window ends there.
  std::vector<double> saved(units.size() + 1, 0);
  std::vector<size_t> begins(units.size() + 1);
  std::iota(begins.begin(), begins.end(), size_t{0});
  for (size_t end = 1; end <= units.size(); ++end) {
    saved[end] = saved[end - 1];
    Chains chains(units, dependences);
    for (size_t first = end; first > 0 && end - first < most_units;) {
      chains.add(--first);
      if (chains.count() > runtime::most_chains) break;
      const double together = saved[first] + chains.saved_ns(threads);
      if (chains.count() < 2 || together <= saved[end]) continue;
      saved[end] = together;
      begins[end] = first;
    }
  }
  std::vector<Window> windows;
  for (size_t end = units.size(); end > 0;) {
    if (begins[end] == end) {
      --end;
      continue;
    }
    Window& window = windows.emplace_back(Window{begins[end], end});
    Chains chains(units, dependences);
    while (end > window.first) chains.add(--end);
    window.chains = std::move(chains).sorted();
  }
  std::ranges::reverse(windows);
  return windows;
}

/// Moves the calls of a unit from `from` to the end of `to`. If the unit is a loop, the loop is
/// moved too.
void append(const Unit& unit, Script& from, Script& to) {
  const size_t first = to.calls.size();
  for (size_t call = unit.first; call < unit.end; ++call)
    to.calls.push_back(std::move(from.calls[call]));
  if (!unit.loop) return;
  ScriptLoop& loop = to.loops.emplace_back(std::move(from.loops[*unit.loop]));
  loop.first = first;
  loop.end = to.calls.size();
}

}  // namespace

Script with_bands(Script script, int threads) {
  const std::vector<Unit> units = units_of(script);
  const std::vector<Window> windows = best_windows(units, Dependences(script, units), threads);
  Script arranged = script;
  arranged.calls.clear();
  arranged.loops.clear();
  size_t unit = 0;
  for (const Window& window : windows) {
    for (; unit < window.first; ++unit) append(units[unit], script, arranged);
    ScriptBand& band = arranged.bands.emplace_back(ScriptBand{arranged.calls.size(), {}});
    for (const std::vector<size_t>& chain : window.chains) {
      const size_t before = arranged.calls.size();
      for (const size_t member : chain) append(units[member], script, arranged);
      band.chains.push_back(arranged.calls.size() - before);
    }
    unit = window.end;
  }
  for (; unit < units.size(); ++unit) append(units[unit], script, arranged);
  return arranged;
}

}  // namespace tw::tuner
