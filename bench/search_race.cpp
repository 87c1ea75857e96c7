// SPDX-License-Identifier: Apache-2.0
#include "bench/search_race.h"

#include <algorithm>
#include <map>

#include "bench/agreement.h"
#include "bench/observed.h"
#include "bench/ours.h"
#include "bench/peer.h"

namespace tw::bench {
namespace {

constexpr int samples = 300;  // of outputs, against f64

/// What is timed: winners, what the database knew, and the forms of oneDNN.
struct Field {
  std::vector<std::unique_ptr<Contender>> contenders;
  std::map<std::string, size_t> ours;       ///< by schedule: one kernel is timed once
  std::vector<std::optional<size_t>> of;    ///< by trace
  std::optional<size_t> known;
  size_t onednn = 0;  ///< the first form; those after it are the others

  size_t add(std::unique_ptr<Contender> contender) {
    contenders.push_back(std::move(contender));
    return contenders.size() - 1;
  }
};

Result<size_t> enter_ours(Field& field, const std::string& schedule,
                          const runtime::Artifact& artifact, const Setup& setup,
                          const std::shared_ptr<runtime::ThreadPool>& pool) {
  if (const auto it = field.ours.find(schedule); it != field.ours.end()) return it->second;
  TW_TRY(auto contender, make_ours(artifact, setup, Interface::Storage, pool));
  return field.ours[schedule] = field.add(std::move(contender));
}

Status enter_known(Field& field, const SearchTask& task, const Setup& setup,
                   const std::shared_ptr<runtime::ThreadPool>& pool) {
  if (task.known.empty()) return {};
  TW_TRY(db::Store store, db::Store::open(task.known, db::OpenMode::ReadOnly));
  const dsl::Workload& workload = task.item->workload;
  TW_TRY(const auto known,
         tuner::best_known(store, workload, task.target, task.tuning.threads));
  if (!known) return {};
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(workload, known->schedule, task.target, task.tuning.threads, false,
                               *task.environment));
  TW_TRY(field.known, enter_ours(field, known->schedule, artifact, setup, pool));
  return {};
}

/// oneDNN last: its outputs are what all others are compared with.
Status check_field(const Field& field, const SearchTask& task, SearchRow& row) {
  Contender& reference = *field.contenders[field.onednn];
  TW_RETURN_IF_ERROR(reference.run(0));
  TW_TRY(const dsl::Arrays theirs, reference.outputs());
  for (const auto& contender : field.contenders) {
    if (contender.get() == &reference) continue;
    TW_RETURN_IF_ERROR(contender->run(0));
    TW_TRY(const dsl::Arrays outputs, contender->outputs());
    TW_TRY(const Agreement agreement, check_agreement(task.item->workload, *task.inputs, outputs,
                                                      theirs, samples, task.tuning.seed));
    row.agreement.ours = std::max(row.agreement.ours, agreement.ours);
    row.agreement.peer = std::max(row.agreement.peer, agreement.peer);
    row.agreement.apart = std::max(row.agreement.apart, agreement.apart);
  }
  return {};
}

Status time_field(const Field& field, const SearchTask& task, int rounds, SearchRow& row) {
  std::vector<Contender*> contenders;
  for (const auto& contender : field.contenders) contenders.push_back(contender.get());
  const tuner::Clock& clock = task.environment->clock;
  std::vector<double> ns;
  TW_TRY(const Observed observed, observe(task.tuning.threads, clock, [&]() -> Status {
           // As many batches of each as `rounds` of A B B A have.
           TW_TRY(ns, fastest_calls(contenders, 2 * rounds,
                                    rounds_for(rounds, task.tuning.threads), clock));
           return {};
         }));
  row.peak_gflops = observed.peak_gflops;
  row.disturbed = observed.disturbed;
  for (size_t i = 0; i < row.traces.size(); ++i)
    if (field.of[i]) row.traces[i].final_ns = ns[*field.of[i]];
  if (field.known) row.known_ns = ns[*field.known];
  const auto fastest = std::min_element(ns.begin() + static_cast<std::ptrdiff_t>(field.onednn),
                                        ns.end());
  row.onednn_ns = *fastest;
  row.onednn = contenders[static_cast<size_t>(fastest - ns.begin())]->description();
  return {};
}

Status time_winners(std::vector<Searched>& searched, const SearchTask& task, int rounds,
                    const std::shared_ptr<runtime::ThreadPool>& pool, SearchRow& row) {
  const Setup setup{&task.item->workload, task.inputs, task.tuning.threads, 0};
  Field field;
  for (size_t i = 0; i < searched.size(); ++i) {
    std::optional<size_t> place;
    if (searched[i].artifact) {
      TW_TRY(place, enter_ours(field, row.traces[i].schedule, *searched[i].artifact, setup, pool));
    } else if (searched[i].contender) {
      place = field.add(std::move(searched[i].contender));
    }
    field.of.push_back(place);
  }
  TW_RETURN_IF_ERROR(enter_known(field, task, setup, pool));
  TW_TRY(auto forms, onednn_peer().make(task.item->name, setup));
  field.onednn = field.contenders.size();
  for (auto& form : forms) field.add(std::move(form));
  TW_RETURN_IF_ERROR(check_field(field, task, row));
  return time_field(field, task, rounds, row);
}

}  // namespace

Result<SearchRow> race(SearchTask task, const std::vector<const Strategy*>& strategies, int rounds,
                       std::shared_ptr<runtime::ThreadPool> pool) {
  SearchRow row;
  row.name = task.item->name;
  row.workload = task.item->workload.key();
  row.threads = task.tuning.threads;
  row.flops = dsl::count_flops(task.item->workload.compute);
  TW_TRY(const dsl::Arrays inputs, make_inputs(task.item->workload, task.tuning.seed));
  task.inputs = &inputs;
  std::vector<Searched> searched;
  for (const Strategy* strategy : strategies) {
    TW_TRY(Searched one, run_strategy(*strategy, task));
    row.traces.push_back(one.trace);
    searched.push_back(std::move(one));
  }
  if (const Status timed = time_winners(searched, task, rounds, pool, row); !timed)
    row.error = timed.error().message;
  const bool any = std::any_of(row.traces.begin(), row.traces.end(),
                               [](const Trace& trace) { return trace.error.empty(); });
  if (!any && row.error.empty()) row.error = "[bench] no strategy found a kernel";
  return row;
}

}  // namespace tw::bench
