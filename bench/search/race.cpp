// SPDX-License-Identifier: Apache-2.0
#include "bench/search/race.h"

#include <algorithm>
#include <map>

#include "bench/agreement.h"
#include "bench/observed.h"
#include "bench/ours.h"
#include "bench/peers/peer.h"
#include "dsl/random_inputs.h"

namespace tw::bench {
namespace {

// Number of elements of each output that are compared with the interpreter, which computes in f64.
constexpr int samples = 300;

/// The contenders of a race: the forms of oneDNN, if it has any, the winners of the searches, and
/// the best kernel of the database.
class Field {
 public:
  Field(const SearchTask& task, std::shared_ptr<runtime::ThreadPool> pool)
      : task_(&task),
        setup_{&task.item->workload, task.inputs, task.tuning.threads},
        pool_(std::move(pool)) {}

  /// Enters oneDNN's forms as contenders, if oneDNN has the operator.
  Status prepare() {
    TW_TRY(const Peer onednn, find_peer("onednn", false, {}));
    auto forms = onednn.make(task_->item->name, setup_);
    if (!forms && forms.error().code == ErrorCode::Unsupported) return {};
    TW_TRY(contenders_, std::move(forms));
    forms_ = contenders_.size();
    for (const auto& form : contenders_) TW_RETURN_IF_ERROR(check(*form));
    return {};
  }

  /// Enters a contender and returns its index. Fails if the contender cannot run or its outputs are
  /// wrong.
  Result<size_t> enter(std::unique_ptr<Contender> contender) {
    TW_RETURN_IF_ERROR(check(*contender));
    contenders_.push_back(std::move(contender));
    return contenders_.size() - 1;
  }

  /// Enters a kernel of ours and returns its index. Searches that found the same kernel share one
  /// contender.
  Result<size_t> enter(const std::string& schedule, const runtime::Artifact& artifact) {
    if (const auto it = ours_.find(schedule); it != ours_.end()) return it->second;
    TW_TRY(auto contender, make_ours(artifact, setup_, Interface::Storage, pool_));
    TW_TRY(const size_t place, enter(std::move(contender)));
    return ours_[schedule] = place;
  }

  /// Times all contenders, and returns the time of one call of each in ns, by index.
  Result<std::vector<double>> time(int rounds, SearchRow& row) const {
    std::vector<Contender*> contenders;
    for (const auto& contender : contenders_) contenders.push_back(contender.get());
    const tuner::Clock& clock = task_->environment->clock;
    const Rounds options = rounds_for(rounds, setup_.threads);
    std::vector<double> ns;
    TW_TRY(const Observed observed, observe(setup_.threads, clock, [&](tuner::Watch&) -> Status {
             // A comparison in `rounds` rounds of A B B A would also have 2 * `rounds` batches of
             // each contender.
             TW_TRY(ns, fastest_calls(contenders, 2 * rounds, options, clock));
             return {};
           }));
    row.peak_gflops = observed.peak_gflops;
    row.disturbed = observed.disturbed;
    row.agreement = agreement_;
    if (forms_ == 0) return ns;
    const auto end = ns.begin() + static_cast<std::ptrdiff_t>(forms_);
    const auto fastest = std::min_element(ns.begin(), end);
    row.onednn_ns = *fastest;
    row.onednn = contenders[static_cast<size_t>(fastest - ns.begin())]->description();
    return ns;
  }

 private:
  Status check(Contender& contender) {
    TW_RETURN_IF_ERROR(contender.run(0));
    TW_TRY(const dsl::Arrays outputs, contender.outputs());
    if (reference_.empty()) reference_ = outputs;
    TW_TRY(const Agreement agreement,
           check_agreement(task_->item->workload, *task_->inputs, outputs, reference_, samples,
                           task_->tuning.seed));
    agreement_.ours = std::max(agreement_.ours, agreement.ours);
    agreement_.peer = std::max(agreement_.peer, agreement.peer);
    agreement_.apart = std::max(agreement_.apart, agreement.apart);
    return {};
  }

  const SearchTask* task_;
  Setup setup_;
  std::shared_ptr<runtime::ThreadPool> pool_;
  std::vector<std::unique_ptr<Contender>> contenders_;
  size_t forms_ = 0;  ///< number of oneDNN's forms, which come first
  /// Outputs of the first contender, with which those of all others are compared.
  dsl::Arrays reference_;
  std::map<std::string, size_t> ours_;  ///< indices by schedule
  Agreement agreement_;                 ///< largest differences of all contenders
};

/// Enters the winner of a search and returns its index; nullopt if the winner was timed in a
/// process of its own, or if the search failed.
Result<std::optional<size_t>> enter_winner(Field& field, Searched& searched) {
  std::optional<size_t> place;
  if (searched.artifact) {
    TW_TRY(place, field.enter(searched.trace.schedule, *searched.artifact));
  } else if (searched.contender) {
    TW_TRY(place, field.enter(std::move(searched.contender)));
  }
  return place;
}

/// Enters the workload's best kernel in the database of --known, for comparison. The searches do
/// not know this kernel. Returns its index in the race; nullopt if there is no database or no such
/// kernel.
Result<std::optional<size_t>> enter_known(Field& field, const SearchTask& task) {
  std::optional<size_t> place;
  if (task.known.empty()) return place;
  TW_TRY(db::Store store, db::Store::open(task.known, db::OpenMode::ReadOnly));
  const dsl::Workload& workload = task.item->workload;
  TW_TRY(const auto known, tuner::best_known(store, workload, task.target, task.tuning.threads));
  if (!known) return place;
  TW_TRY(const runtime::Artifact artifact,
         tuner::build_schedule(workload, known->schedule, task.target, task.tuning.threads, false,
                               *task.environment));
  TW_TRY(place, field.enter(known->schedule, artifact));
  return place;
}

Status time_winners(std::vector<Searched>& searched, const SearchTask& task, int rounds,
                    const std::shared_ptr<runtime::ThreadPool>& pool, SearchRow& row) {
  Field field(task, pool);
  TW_RETURN_IF_ERROR(field.prepare());
  std::vector<std::optional<size_t>> places;
  for (size_t i = 0; i < searched.size(); ++i) {
    auto place = enter_winner(field, searched[i]);
    if (!place) row.traces[i].error = place.error().message;
    places.push_back(place.value_or(std::nullopt));
  }
  TW_TRY(const std::optional<size_t> known, enter_known(field, task));
  TW_TRY(const std::vector<double> ns, field.time(rounds, row));
  for (size_t i = 0; i < places.size(); ++i)
    if (places[i]) row.traces[i].final_ns = ns[*places[i]];
  if (known) row.known_ns = ns[*known];
  return {};
}

}  // namespace

Result<SearchRow> race(SearchTask task, const std::vector<const Strategy*>& strategies, int rounds,
                       std::shared_ptr<runtime::ThreadPool> pool) {
  SearchRow row;
  row.name = task.item->name;
  row.workload = task.item->workload.key();
  row.threads = task.tuning.threads;
  row.flops = dsl::count_flops(task.item->workload.compute);
  TW_TRY(const dsl::Arrays inputs,
         dsl::random_inputs(task.item->workload.compute, task.tuning.seed));
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
