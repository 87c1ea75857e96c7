// SPDX-License-Identifier: Apache-2.0
#pragma once
// Coordinates this run with other runs that tune the same workload on devices of the same model and
// share a database on a server. A run claims a schedule (db/claims.h) before it builds the
// schedule, so that each schedule is tried by only one run. Each run learns from the measurements
// of the others. Without a server, every claim is granted, and there are no trials of others. If
// the server cannot be reached, no function fails; the run goes on as if it were alone, and adds a
// note (NoteKind::ClaimsUnread). Private to the run. Not thread-safe.

#include <string>
#include <vector>

#include "db/store.h"
#include "tuner/search/scoring.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

class OtherRuns {
 public:
  /// `place` is the database_key() of the workload. `session` and `host` name this run and its
  /// machine. Notes are added to `notes`. The store and the notes must outlive the object.
  OtherRuns(db::Store& store, db::Key place, std::string session, std::string host, Notes* notes);
  OtherRuns(const OtherRuns&) = delete;
  OtherRuns& operator=(const OtherRuns&) = delete;
  ~OtherRuns() { end_claims(); }

  bool is_shared() const { return is_shared_; }
  /// Claims the candidates for this run. Returns the candidates that no other run has claimed or
  /// measured. The candidate with the schedule `insisted` is always returned. A claim expires if
  /// the run claims nothing more for db::claim_s seconds.
  std::vector<Candidate> claim(std::vector<Candidate> candidates, const std::string& insisted);
  /// True if claim() has ever refused a candidate.
  bool have_refused() const { return have_refused_; }
  /// Claims the comparison of the fastest kernels, which only one run makes, at the end. Returns
  /// false while another run has this claim.
  bool claim_finals();
  /// True while another run compares the fastest kernels.
  bool are_comparing();
  /// Marks all trials that are in the database now as known, so that new_trials() leaves them out.
  void begin();
  /// Returns the trials that other runs have stored since the previous call of new_trials() or
  /// begin().
  std::vector<db::Record> new_trials();
  /// Ends all claims of the run. If the server cannot be told, the claims expire by themselves.
  void end_claims();

 private:
  void note_unread(const Error& error);

  db::Store& store_;
  const db::Key place_;
  const std::string session_, host_;
  Notes* notes_;
  const bool is_shared_;
  bool has_claims_ = false, have_refused_ = false;
  /// Index of the last database row whose trial is known here; nullopt until begin() has read it.
  std::optional<int64_t> last_row_ = {};
};

}  // namespace tw::tuner
