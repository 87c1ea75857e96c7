// SPDX-License-Identifier: Apache-2.0
// Implements explain(), doubted() and best_records().

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/text.h"
#include "base/time_text.h"
#include "db/answers.h"
#include "db/maintenance.h"
#include "db/ranking.h"
#include "db/store.h"
#include "db/store_state.h"
#include "db/tables/best.h"
#include "db/tables/rows.h"

namespace tw::db {
namespace {

/// Sets the numbers of sessions, hosts and trials that timed the answer's schedule, and the
/// interval of its latency.
void count_witnesses(const JudgedGroup& group, Explanation& out) {
  const std::vector<SessionTiming> timings =
      sessions_of(group.trials, group.judgements, schedule_key(out.record));
  if (timings.empty()) return;
  std::set<std::string_view> hosts;
  for (const SessionTiming& timing : timings) {
    hosts.insert(timing.host);
    out.trials += timing.trials;
  }
  out.sessions = std::ssize(timings);
  out.hosts = std::ssize(hosts);
  const double scale = out.record.latency_ns / timings[timings.size() / 2].latency_ns;
  const bool is_alone = timings.size() == 1;
  out.low_ns = is_alone ? out.record.latency_low_ns : timings.front().latency_ns * scale;
  out.high_ns = is_alone ? out.record.latency_high_ns : timings.back().latency_ns * scale;
}

/// Returns the text of a latency that is scaled to the peak of the group. The text has the latency
/// scaled to the peak that was measured with the answer.
std::string on_clock_of(const Ranked& answer, const JudgedGroup& group, double latency_ns) {
  return time_text(latency_ns * (group.trials[answer.index].latency_ns / answer.latency_ns));
}

/// Returns the reason why a trial with a smaller latency than the answer is not the answer.
std::string why_not(const JudgedGroup& group, size_t index, const Record& record,
                    const Ranked& answer) {
  const Judgement& judgement = group.judgements[index];
  if (judgement.doubt == Doubt::NotTimed)
    return fmt::format("its status is {}{}{}", to_string(record.status),
                       record.reason.empty() ? "" : ": ", record.reason);
  if (judgement.doubt != Doubt::None) return describe(judgement);
  if (judgement.latency_ns >= answer.latency_ns)
    return fmt::format("its machine was faster then: on the clock of the answer it takes {}",
                       on_clock_of(answer, group, judgement.latency_ns));
  const std::vector<SessionTiming> timings =
      sessions_of(group.trials, group.judgements, group.trials[index].schedule_hash);
  return fmt::format("the median of its schedule is {}, of {}",
                     on_clock_of(answer, group, timings[timings.size() / 2].latency_ns),
                     counted(std::ssize(timings), "session"));
}

// Number of doubted records that are read at a time. The limit is checked in between.
constexpr size_t read_together = 64;

/// Calls visit(i, record) for trials of a group, given by their indexes in it. Damaged records are
/// left out.
Status each_record(Store::State& state, const JudgedGroup& group, const std::vector<size_t>& places,
                   const std::function<void(size_t, Record)>& visit) {
  std::vector<int64_t> rows;
  std::map<int64_t, size_t> place_of_row;
  for (const size_t i : places) {
    rows.push_back(group.trials[i].trial);
    place_of_row[rows.back()] = i;
  }
  TW_TRY(std::vector<StoredRecord> stored, state.read(rows));
  for (StoredRecord& of : stored) visit(place_of_row.at(of.row), std::move(of.record));
  return {};
}

Doubted doubted_trial(const JudgedGroup& group, size_t i, Record record) {
  return {std::move(record), group.judgements[i].doubt, describe(group.judgements[i])};
}

Status add_not_used(Store::State& state, const JudgedGroup& group, int64_t limit,
                    Explanation& out) {
  std::vector<size_t> better;
  for (size_t i = 0; i < group.trials.size(); ++i)
    if (group.trials[i].latency_ns > 0 && group.trials[i].latency_ns < out.record.latency_ns)
      better.push_back(i);
  std::sort(better.begin(), better.end(), [&](size_t a, size_t b) {
    const RankedTrial &x = group.trials[a], &y = group.trials[b];
    return std::tie(x.latency_ns, x.hash) < std::tie(y.latency_ns, y.hash);
  });
  out.not_used_count = std::ssize(better);
  if (limit > 0 && std::ssize(better) > limit) better.resize(static_cast<size_t>(limit));
  const auto answer = best_of(group.trials, group.judgements);
  if (!answer) return {};
  return each_record(state, group, better, [&](size_t i, Record record) {
    std::string why = why_not(group, i, record, *answer);
    out.not_used.push_back({std::move(record), group.judgements[i].doubt, std::move(why)});
  });
}

/// Adds the trials that report the answer's schedule as wrong but are too few to refute it.
Status add_against(Store::State& state, const JudgedGroup& group, Explanation& out) {
  const std::string schedule = schedule_key(out.record);
  std::vector<size_t> against;
  for (size_t i = 0; i < group.trials.size(); ++i)
    if (proves_wrong(group.trials[i].status) && group.trials[i].schedule_hash == schedule)
      against.push_back(i);
  return each_record(state, group, against, [&](size_t i, Record record) {
    out.against.push_back(doubted_trial(group, i, std::move(record)));
  });
}

}  // namespace

Result<std::optional<Explanation>> Store::State::explain(const Key& key, int64_t limit) {
  TW_TRY(const Transaction one_state, Transaction::begin_reading(connection));
  TW_TRY(std::optional<Record> record, best(key, {}));
  if (!record) return std::optional<Explanation>();
  TW_TRY(const std::optional<Group> found, find_group(connection, group_key_of(*record)));
  if (!found) return std::optional<Explanation>();
  TW_TRY(const JudgedGroup group, judged_group(connection, found->id));
  Explanation explanation;
  explanation.likeness = likeness_of(record->device, key.device);
  explanation.record = std::move(*record);
  explanation.latency_ns = explanation.record.latency_ns;
  count_witnesses(group, explanation);
  TW_RETURN_IF_ERROR(add_not_used(*this, group, limit, explanation));
  TW_RETURN_IF_ERROR(add_against(*this, group, explanation));
  return std::optional(std::move(explanation));
}

Result<std::vector<Doubted>> doubted(Store& store, int64_t limit) {
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  std::vector<Doubted> found;
  TW_RETURN_IF_ERROR(each_group(store.state().connection, [&](const Group& of) -> Status {
    if (limit > 0 && std::ssize(found) == limit) return {};
    TW_TRY(const JudgedGroup group, judged_group(store.state().connection, of.id));
    std::vector<size_t> listed;
    for (size_t i = 0; i < group.trials.size(); ++i)
      if (is_listed(group.judgements[i].doubt)) listed.push_back(i);
    const auto is_enough = [&] { return limit > 0 && std::ssize(found) == limit; };
    for (size_t at = 0; at < listed.size() && !is_enough(); at += read_together) {
      const auto end =
          listed.begin() + static_cast<std::ptrdiff_t>(std::min(at + read_together, listed.size()));
      const Status read =
          each_record(store.state(), group, {listed.begin() + static_cast<std::ptrdiff_t>(at), end},
                      [&](size_t i, Record record) {
                        if (!is_enough())
                          found.push_back(doubted_trial(group, i, std::move(record)));
                      });
      if (!read) return read;
    }
    return {};
  }));
  return found;
}

Result<std::vector<Record>> best_records(Store& store) {
  TW_TRY(const Transaction one_state, Transaction::begin_reading(store.state().connection));
  std::vector<int64_t> rows;
  TW_TRY(Statement statement,
         Statement::prepare(store.state().connection, "SELECT trial FROM best"));
  TW_RETURN_IF_ERROR(statement.each([&](const Row& row) {
    rows.push_back(row.integer(0));
    return true;
  }));
  TW_TRY(std::vector<StoredRecord> stored, store.state().read(rows));
  std::vector<Record> records = records_of(std::move(stored));
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.hash < b.hash; });
  return records;
}

}  // namespace tw::db
