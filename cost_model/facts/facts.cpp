// SPDX-License-Identifier: Apache-2.0
#include "cost_model/facts/facts.h"

#include <algorithm>
#include <utility>

#include "cost_model/facts/phase_walk.h"

namespace tw::cost_model::facts {
namespace {

/// Computes the traffic of the phases of a kernel that is called again and again. A phase finds in
/// the caches the data that earlier phases, of this call or the previous one, left there.
class CallSequence {
 public:
  CallSequence(const Machine& machine, dsl::CacheState state, std::vector<Known> known,
               std::vector<std::vector<Fetched>> phases)
      : machine_(machine), state_(state), known_(std::move(known)), phases_(std::move(phases)) {}

  void add_traffic(size_t phase, PhaseFacts& facts) const {
    Traffic& traffic = facts.traffic;
    for (const Fetched& fetched : phases_[phase])
      for (size_t cache = 0; cache < cache_levels; ++cache) {
        const double lost = evicted_share(all_bytes(), cache);
        // A buffer that is no argument and no scratch buffer is local to a task.
        const double cold =
            fetched.buffer < known_.size() ? cold_share(phase, fetched.buffer, cache) : lost;
        const double bytes = fetched.once[cache] + fetched.again[cache];
        const double moved =
            fetched.once[cache] * cold + fetched.again[cache] * std::max(cold, lost);
        traffic[cache] += moved;
        const double share = bytes > 0 ? moved / bytes : 0;
        facts.waits[cache] += fetched.waits[cache] * share;
        if (cache + 1 < cache_levels) continue;
        facts.begun += fetched.begun * share;
        // Lines that were stored to are written back to memory. This traffic is added only for
        // memory, which either reads or writes at a time, while caches do both at once.
        const double written_back = fetched.is_stored ? bytes * lost : 0;
        traffic[cache] += written_back;
        facts.written_back += written_back;
      }
  }

 private:
  /// Returns the share of a buffer that a phase has to fetch into a cache. It is 0 if the bytes
  /// that were touched since the last use of the buffer fill at most half of the cache. It is 1 if
  /// they fill all of the cache, or if other operators evicted the buffer; in between it grows
  /// linearly.
  double cold_share(size_t phase, size_t buffer, size_t cache) const {
    // number of phases since the last use of the buffer, in this call or the previous one
    size_t back = 1;
    while (back < phases_.size() && !touches(before(phase, back), buffer)) ++back;
    if (back > phase && is_evicted(cache, known_[buffer])) return 1;
    return evicted_share(bytes_since(phase, back), cache);
  }

  double evicted_share(double bytes, size_t cache) const {
    return std::clamp(2 * bytes / std::max(1.0, capacity_of(machine_, cache)) - 1, 0.0, 1.0);
  }

  double all_bytes() const {
    double bytes = 0;
    for (const Known& known : known_) bytes += bytes_of(*known.buffer);
    return bytes;
  }

  /// Returns the bytes that are touched between two uses of an element: the use in the phase that
  /// ran `back` phases before, and the use in this phase. These are all bytes of the phases in
  /// between, and half of the bytes of these two phases, because an element may lie anywhere in its
  /// buffer.
  double bytes_since(size_t phase, size_t back) const {
    double bytes = 0;
    for (size_t buffer = 0; buffer < known_.size(); ++buffer) {
      double share = 0;
      for (size_t i = 0; i <= back; ++i)
        if (touches(before(phase, i), buffer)) share += i == 0 || i == back ? 0.5 : 1;
      bytes += std::min(1.0, share) * bytes_of(*known_[buffer].buffer);
    }
    return bytes;
  }

  size_t before(size_t phase, size_t back) const {
    return (phase + phases_.size() - back) % phases_.size();
  }

  bool touches(size_t phase, size_t buffer) const {
    return std::ranges::any_of(phases_[phase],
                               [&](const Fetched& f) { return f.buffer == buffer; });
  }

  /// True if other operators of the network evicted the buffer from the cache between the previous
  /// call of the kernel and this one, according to dsl::CacheState.
  bool is_evicted(size_t cache, const Known& known) const {
    if (state_ == dsl::CacheState::Hot || !(known.is_constant || known.is_output)) return false;
    const bool from_memory = known.is_constant && state_ == dsl::CacheState::NetworkMemory;
    return from_memory || cache + 1 < cache_levels;
  }

  const Machine& machine_;
  const dsl::CacheState state_;
  const std::vector<Known> known_;
  const std::vector<std::vector<Fetched>> phases_;
};

void add_buffers(const Program& program, KernelFacts& facts) {
  for (const schedules::Argument& argument : program.arguments) {
    if (argument.only_prepares) continue;
    facts.argument_bytes += bytes_of(argument.buffer);
    if (argument.constant) facts.constant_bytes += bytes_of(argument.buffer);
    if (!argument.is_output) continue;
    facts.output_bytes += bytes_of(argument.buffer);
    facts.output_elements += elements_of(argument.buffer);
  }
  for (const Buffer& buffer : program.scratch) facts.scratch_bytes += bytes_of(buffer);
}

}  // namespace
}  // namespace tw::cost_model::facts

namespace tw::cost_model {

void Instructions::add(const Instructions& other, double times) {
  fma += times * other.fma;
  slow_dots += times * other.slow_dots;
  arithmetic += times * other.arithmetic;
  calls += times * other.calls;
  divisions += times * other.divisions;
  vector_loads += times * other.vector_loads;
  broadcast_loads += times * other.broadcast_loads;
  strided_loads += times * other.strided_loads;
  gather_loads += times * other.gather_loads;
  stores += times * other.stores;
  scattered_stores += times * other.scattered_stores;
  split_accesses += times * other.split_accesses;
  tests += times * other.tests;
  prefetches += times * other.prefetches;
}

const BlockFacts* KernelFacts::hot_block() const {
  const BlockFacts* hot = nullptr;
  const auto weight = [](const BlockFacts& b) { return b.executions * b.instructions.total(); };
  for (const PhaseFacts& phase : phases)
    for (const BlockFacts& block : phase.blocks)
      if (!hot || weight(block) > weight(*hot)) hot = &block;
  return hot;
}

Result<KernelFacts> extract_facts(const schedules::Program& program, const Target& target,
                                  dsl::CacheState state) {
  KernelFacts kernel;
  facts::add_buffers(program, kernel);
  std::vector<facts::Known> known;
  std::vector<std::vector<facts::Fetched>> fetched;
  for (const schedules::Phase& phase : program.phases) {
    facts::PhaseWalk walk(program, target, kernel);
    known = walk.known();
    TW_TRY(PhaseFacts phase_facts, walk.walk(phase));
    fetched.push_back(walk.fetched());
    kernel.phases.push_back(std::move(phase_facts));
  }
  const facts::CallSequence calls(target.machine, state, known, std::move(fetched));
  for (size_t i = 0; i < kernel.phases.size(); ++i) calls.add_traffic(i, kernel.phases[i]);
  if (target.is_gpu()) {
    TW_TRY(kernel.gpu, extract_gpu_facts(program, target));
  }
  return kernel;
}

}  // namespace tw::cost_model
