// SPDX-License-Identifier: Apache-2.0
#pragma once
// Other runs that tune the same workload on devices of the same class, and share a database on a
// server (db/claims.h). The runs divide the schedules among them, and learn from what the others
// measure. Without a server every schedule is granted and there are no trials of others. Where the
// server cannot be asked, no call fails: a run goes on as if it were alone, and notes it
// (NoteKind::ClaimsUnread). Private to the run. Not thread-safe.

#include <string>
#include <vector>

#include "db/store.h"
#include "tuner/search/scoring.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

class OtherRuns {
 public:
  /// `place` names what is tuned (database_key()), `host` is that of the run. The store and the
  /// notes must outlive it.
  OtherRuns(db::Store& store, db::Key place, std::string session, std::string host, Notes* notes);
  OtherRuns(const OtherRuns&) = delete;
  OtherRuns& operator=(const OtherRuns&) = delete;
  ~OtherRuns() { end_claims(); }

  bool is_shared() const { return is_shared_; }
  /// The candidates that no other run has under way or has measured, and the one with the schedule
  /// `insisted`. They are this run's for db::claim_s, and longer as long as it claims others.
  std::vector<Candidate> claim(std::vector<Candidate> candidates, const std::string& insisted);
  /// True once a candidate was refused.
  bool have_refused() const { return have_refused_; }
  /// Claims the comparison of the fastest kernels at the end; false while another run makes it.
  bool claim_finals();
  /// True while another run compares the fastest kernels.
  bool are_comparing();
  /// Marks the trials that are stored by now as known: new_trials() leaves them out.
  void begin();
  /// The trials of others that were stored since the last call, or since begin().
  std::vector<db::Record> new_trials();
  /// Ends the run's claims. Claims that cannot be ended expire.
  void end_claims();

 private:
  void note_unread(const Error& error);

  db::Store& store_;
  const db::Key place_;
  const std::string session_, host_;
  Notes* notes_;
  const bool is_shared_;
  bool has_claims_ = false, have_refused_ = false;
  /// Number of the row up to which trials are known; nullopt: not known yet.
  std::optional<int64_t> last_row_ = {};
};

}  // namespace tw::tuner
