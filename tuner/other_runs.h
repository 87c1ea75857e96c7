// SPDX-License-Identifier: Apache-2.0
#pragma once
// Coordinates this run with other runs that tune the same workload on devices of the same class and
// share a database on a server (db/claims.h). The runs divide the schedules among themselves, and
// each learns from the measurements of the others. Without a server every schedule is granted and
// there are no trials of others. If the server cannot be asked, no call fails: the run goes on as
// if it were alone and notes this (NoteKind::ClaimsUnread). Private to the run. Not thread-safe.

#include <string>
#include <vector>

#include "db/store.h"
#include "tuner/search/scoring.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

class OtherRuns {
 public:
  /// `place` is the database_key() of the workload, `session` and `host` name this run and its
  /// machine. The store and the notes must outlive the object.
  OtherRuns(db::Store& store, db::Key place, std::string session, std::string host, Notes* notes);
  OtherRuns(const OtherRuns&) = delete;
  OtherRuns& operator=(const OtherRuns&) = delete;
  ~OtherRuns() { end_claims(); }

  bool is_shared() const { return is_shared_; }
  /// Claims the candidates for this run, and returns those that no other run has claimed or
  /// measured. The candidate with the schedule `insisted` is always returned. A claim lasts for
  /// db::claim_s, and longer while the run goes on claiming.
  std::vector<Candidate> claim(std::vector<Candidate> candidates, const std::string& insisted);
  /// True if claim() has ever refused a candidate.
  bool have_refused() const { return have_refused_; }
  /// Claims the comparison of the fastest kernels at the end of a run. Returns false while another
  /// run makes that comparison.
  bool claim_finals();
  /// True while another run compares the fastest kernels.
  bool are_comparing();
  /// Marks all trials that are stored by now as known, so that new_trials() leaves them out.
  void begin();
  /// The trials of other runs that were stored since the last call, or since begin().
  std::vector<db::Record> new_trials();
  /// Ends the run's claims. Claims that the server cannot be told about expire by themselves.
  void end_claims();

 private:
  void note_unread(const Error& error);

  db::Store& store_;
  const db::Key place_;
  const std::string session_, host_;
  Notes* notes_;
  const bool is_shared_;
  bool has_claims_ = false, have_refused_ = false;
  /// Number of the database row up to which trials are known; nullopt before it was read.
  std::optional<int64_t> last_row_ = {};
};

}  // namespace tw::tuner
