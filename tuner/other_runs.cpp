// SPDX-License-Identifier: Apache-2.0
#include "tuner/other_runs.h"

#include <utility>

#include "db/claims.h"

namespace tw::tuner {

OtherRuns::OtherRuns(db::Store& store, db::Key place, std::string session, std::string host,
                     Notes* notes)
    : store_(store),
      place_(std::move(place)),
      session_(std::move(session)),
      host_(std::move(host)),
      notes_(notes),
      is_shared_(store.is_shared()) {}

void OtherRuns::note_unread(const Error& error) {
  note(notes_, NoteKind::ClaimsUnread, error.message);
}

std::vector<Candidate> OtherRuns::claim(std::vector<Candidate> candidates,
                                        const std::string& insisted) {
  if (!is_shared_ || candidates.empty()) return candidates;
  std::vector<std::string> schedules;
  for (const Candidate& candidate : candidates)
    schedules.push_back(db::schedule_key(candidate.schedule));
  const auto granted = db::claim(store_, place_, schedules, session_, host_);
  if (!granted) {
    note_unread(granted.error());
    return candidates;
  }
  has_claims_ = true;
  std::vector<Candidate> own;
  for (size_t i = 0; i < candidates.size(); ++i)
    if ((*granted)[i] || candidates[i].schedule == insisted)
      own.push_back(std::move(candidates[i]));
  have_refused_ = have_refused_ || own.size() < candidates.size();
  return own;
}

bool OtherRuns::claim_finals() {
  if (!is_shared_) return true;
  const std::string finals(db::finals_claim);
  const auto granted = db::claim(store_, place_, {&finals, 1}, session_, host_);
  if (!granted) {
    note_unread(granted.error());
    return true;
  }
  has_claims_ = true;
  return granted->front();
}

bool OtherRuns::are_comparing() {
  const auto claimed = db::is_claimed(store_, place_, std::string(db::finals_claim), session_);
  if (!claimed) note_unread(claimed.error());
  return claimed.value_or(false);
}

void OtherRuns::end_claims() {
  if (std::exchange(has_claims_, false)) (void)db::release(store_, place_, session_);
}

void OtherRuns::begin() {
  if (!is_shared_) return;
  if (const auto last = db::last_row(store_))
    last_row_ = *last;
  else
    note_unread(last.error());
}

std::vector<db::Record> OtherRuns::new_trials() {
  if (!is_shared_) return {};
  if (!last_row_) {
    begin();
    return {};
  }
  auto news = db::news(store_, place_, *last_row_, session_);
  if (!news) {
    note_unread(news.error());
    return {};
  }
  last_row_ = news->last;
  return std::move(news->records);
}

}  // namespace tw::tuner
