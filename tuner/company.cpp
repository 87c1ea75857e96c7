// SPDX-License-Identifier: Apache-2.0
#include "tuner/company.h"

#include <utility>

namespace tw::tuner {

Company::Company(db::Store& store, db::Key place, std::string session, Notes* notes)
    : store_(store),
      place_(std::move(place)),
      session_(std::move(session)),
      notes_(notes),
      is_shared_(store.is_shared()) {}

void Company::leave() {
  // Claims that cannot be ended expire.
  if (std::exchange(has_claims_, false)) (void)store_.release(place_, session_);
}

void Company::miss(const Error& error) { note(notes_, NoteKind::ClaimsUnread, error.message); }

std::vector<Candidate> Company::claim(std::vector<Candidate> candidates) {
  if (!is_shared_ || candidates.empty()) return candidates;
  std::vector<std::string> schedules;
  for (const Candidate& candidate : candidates)
    schedules.push_back(db::schedule_key(candidate.schedule));
  const auto granted = store_.claim(place_, schedules, session_);
  if (!granted) {
    miss(granted.error());
    return candidates;
  }
  has_claims_ = true;
  std::vector<Candidate> own;
  for (size_t i = 0; i < candidates.size(); ++i)
    if ((*granted)[i]) own.push_back(std::move(candidates[i]));
  has_met_others_ = has_met_others_ || own.size() < candidates.size();
  return own;
}

bool Company::claim_finals() {
  if (!is_shared_) return true;
  const std::string finals(db::finals_claim);
  const auto granted = store_.claim(place_, {&finals, 1}, session_);
  if (!granted) {
    miss(granted.error());
    return true;
  }
  has_claims_ = true;
  return granted->front();
}

void Company::begin() {
  if (!is_shared_) return;
  const auto last = store_.last_row();
  if (last)
    heard_ = *last;
  else
    miss(last.error());
}

std::vector<db::Record> Company::news() {
  if (!is_shared_) return {};
  auto news = store_.news(place_, heard_, session_);
  if (!news) {
    miss(news.error());
    return {};
  }
  heard_ = news->last;
  return std::move(news->records);
}

}  // namespace tw::tuner
