// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "bench/observed.h"
#include "codegen/backend.h"
#include "dsl/random_inputs.h"
#include "tuner/processes/scratch.h"
#include "tuner/trial_record.h"
#include "tuner/workers/device_lock.h"

namespace tw::bench {
namespace {

// Limit on the total size of the copies of weights. A core can use only the last-level cache of its
// own group of cores, 32 to 96 MiB on known machines, but virtual machines report the sum over all
// groups.
constexpr int64_t most_rotated_bytes = int64_t{256} << 20;

// Largest number of calls of a batch on a GPU. A graph of more calls would take longer to make than
// it saves.
constexpr int64_t most_device_calls = 4096;

Rounds rounds_of(const CompareOptions& options) {
  if (options.gpu != nullptr) return {.rounds = options.rounds, .most_calls = most_device_calls};
  Rounds rounds = rounds_for(options.rounds, options.tuning.threads);
  rounds.prepares = options.cache == CacheState::Network;
  return rounds;
}

/// Returns the fastest of the peer's forms. Requires: all of them are correct.
Result<Contender*> choose_form(std::vector<std::unique_ptr<Contender>>& forms,
                               const CompareOptions& options, const tuner::Clock& clock, Row& row) {
  std::vector<Contender*> contenders;
  for (const auto& form : forms) contenders.push_back(form.get());
  if (contenders.size() == 1) return contenders[0];
  TW_TRY(const std::vector<double> ns, fastest_calls(contenders, 3, rounds_of(options), clock));
  for (size_t i = 0; i < ns.size(); ++i) {
    const auto [form, added] = row.forms.emplace(contenders[i]->description(), ns[i]);
    form->second = std::min(form->second, ns[i]);
  }
  return contenders[static_cast<size_t>(std::min_element(ns.begin(), ns.end()) - ns.begin())];
}

Result<Agreement> check_form(const Item& item, const dsl::Arrays& inputs, const dsl::Arrays& mine,
                             Contender& form, const CompareOptions& options) {
  TW_RETURN_IF_ERROR(form.run(0));
  TW_TRY(const dsl::Arrays theirs, form.outputs());
  return check_agreement(item.workload, inputs, mine, theirs, options.samples, options.seed,
                         form.own_rounding());
}

/// Removes forms with wrong outputs. If none is left, returns the error of the last one.
Status check_forms(const Item& item, const dsl::Arrays& inputs, Contender& ours,
                   std::vector<std::unique_ptr<Contender>>& forms, const CompareOptions& options,
                   Row& row) {
  TW_RETURN_IF_ERROR(ours.run(0));
  TW_TRY(const dsl::Arrays mine, ours.outputs());
  Status last;
  std::erase_if(forms, [&](const std::unique_ptr<Contender>& form) {
    const auto agreement = check_form(item, inputs, mine, *form, options);
    if (!agreement) {
      row.wrong_forms[form->description()] = agreement.error().message;
      last = tl::unexpected<Error>(agreement.error());
      return true;
    }
    row.agreement.ours = std::max(row.agreement.ours, agreement->ours);
    row.agreement.peer = std::max(row.agreement.peer, agreement->peer);
    row.agreement.apart = std::max(row.agreement.apart, agreement->apart);
    return false;
  });
  return forms.empty() ? last : Status();
}

/// Waits until no other program measures on the GPU, for instance a tuner, and reserves the GPU for
/// this one.
Result<tuner::DeviceTurn> device_turn(const runtime::Device& gpu, const tuner::Clock& clock) {
  constexpr int64_t patience_ns = 60'000'000'000;
  const std::string name =
      tuner::device_lock_name(codegen::backend_of(gpu.facts()), gpu.facts().index);
  TW_TRY(tuner::DeviceLock lock, tuner::DeviceLock::open(tuner::places_of_all, name));
  return lock.take(clock, {clock() + patience_ns});
}

Result<Observed> observed(const CompareOptions& options, const tuner::Clock& clock,
                          const std::function<Status(tuner::Watch&)>& timing) {
  if (options.gpu != nullptr) {
    TW_TRY(const tuner::DeviceTurn turn, device_turn(*options.gpu->device, clock));
    return observe_device(*options.gpu->device, [&] {
      tuner::NoWatch watch;
      return timing(watch);
    });
  }
  return observe(options.tuning.threads, clock, timing);
}

/// Returns the roofline of a row. It names no cache level if some arrays are evicted from the
/// caches before each call.
tools::Roofline line_of(const Item& item, const Row& row, const CompareOptions& options,
                        const tuner::Clock& clock) {
  tools::Roofline line = tools::roofline(item.workload, options.target, row.threads,
                                         row.versus.a_ns.value, row.peak_gflops);
  if (options.cache != CacheState::Hot) line.level.clear();
  return tools::with_bandwidth(line, options.target, row.threads, clock);
}

Status time_forms(const Item& item, Contender& ours, std::vector<std::unique_ptr<Contender>>& forms,
                  const CompareOptions& options, const tuner::Clock& clock, Row& row) {
  TW_TRY(const Observed seen, observed(options, clock, [&](tuner::Watch& watch) -> Status {
           TW_TRY(Contender* const peer, choose_form(forms, options, clock, row));
           row.peer = peer->description();
           row.peer_call_ns = peer->empty_call_ns();
           Rounds rounds = rounds_of(options);
           rounds.watch = &watch;
           TW_TRY(row.versus, interleave(ours, *peer, rounds, clock));
           return {};
         }));
  row.peak_gflops = tuner::peak_for(item.workload, options.target, seen.peak_gflops);
  // On a processor, disturbed rounds were repeated, unless all rounds were disturbed.
  if (options.gpu != nullptr)
    row.disturbed = seen.disturbed;
  else if (row.versus.rounds < options.rounds)
    row.disturbed = fmt::format("{} of {} rounds count: {}", row.versus.rounds, options.rounds,
                                row.versus.disturbance);
  row.roofline = line_of(item, row, options, clock);
  return {};
}

Result<std::unique_ptr<Contender>> make_our_contender(const runtime::Artifact& artifact,
                                                      const Setup& setup,
                                                      const CompareOptions& options,
                                                      std::shared_ptr<runtime::ThreadPool> pool) {
  if (setup.gpu != nullptr) return make_ours_on_device(artifact, setup);
  return make_ours(artifact, setup,
                   options.peer.row_major ? Interface::Logical : Interface::Storage,
                   std::move(pool));
}

Status compare_into(Row& row, const Item& item, const CompareOptions& options,
                    std::shared_ptr<runtime::ThreadPool> pool, db::Store& store,
                    const tuner::Environment& environment, const tuner::OnProgress& on_progress) {
  TW_TRY(const Found found,
         options.schedule.empty()
             ? find_kernel(tuned_workload(item, options), options.target, options.tuning,
                           options.search, store, environment, on_progress)
             : build_kernel(item.workload, options.target, options.schedule, options.tuning.threads,
                            environment));
  row.schedule = found.schedule;
  row.searched = found.searched;
  TW_TRY(const dsl::Arrays inputs, dsl::random_inputs(item.workload.compute, options.seed));
  const bool rotates = options.cache == CacheState::Cold && options.gpu == nullptr;
  const Setup setup{
      &item.workload,
      &inputs,
      options.tuning.threads,
      options.cache,
      rotates ? std::min(2 * options.target.machine.l3_bytes(), most_rotated_bytes) : 0,
      options.gpu};
  TW_TRY(const auto ours, make_our_contender(found.artifact, setup, options, std::move(pool)));
  TW_TRY(auto forms, options.peer.make(item.name, setup));
  return compare_contenders(item, inputs, *ours, std::move(forms), options, environment.clock, row);
}

}  // namespace

dsl::Workload tuned_workload(const Item& item, const CompareOptions& options) {
  dsl::Workload workload = item.workload;
  if (options.cache != CacheState::Hot && !options.target.is_gpu())
    workload.state = dsl::CacheState::NetworkMemory;
  return workload;
}

Status compare_contenders(const Item& item, const dsl::Arrays& inputs, Contender& ours,
                          std::vector<std::unique_ptr<Contender>> forms,
                          const CompareOptions& options, const tuner::Clock& clock, Row& row) {
  row.layouts = ours.description();
  TW_RETURN_IF_ERROR(check_forms(item, inputs, ours, forms, options, row));
  return time_forms(item, ours, forms, options, clock, row);
}

Result<Row> compare(const Item& item, const CompareOptions& options,
                    std::shared_ptr<runtime::ThreadPool> pool, db::Store& store,
                    const tuner::Environment& environment, const tuner::OnProgress& on_progress) {
  Row row;
  row.name = item.name;
  row.workload = item.workload.text();
  row.count = item.count;
  row.threads = options.tuning.threads;
  row.flops = dsl::count_flops(item.workload.compute);
  const Status done =
      compare_into(row, item, options, std::move(pool), store, environment, on_progress);
  if (!done && done.error().code == ErrorCode::Interrupted)
    return tl::unexpected<Error>(done.error());
  if (!done) row.error = done.error().message;
  return row;
}

}  // namespace tw::bench
