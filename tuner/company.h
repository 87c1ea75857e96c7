// SPDX-License-Identifier: Apache-2.0
#pragma once
// The company of a run: other runs that tune the same workload on devices of the same class, and
// share a database on a server (db/claims.h). They divide the schedules among them, and learn from
// what the others measure. Without a server, or without others, everything is granted and there is
// no news. Where the server cannot be asked, a run goes on as if it were alone, and notes it.
// Private to the run. Not thread-safe.

#include <string>
#include <vector>

#include "db/store.h"
#include "tuner/search/scoring.h"
#include "tuner/workers/notes.h"

namespace tw::tuner {

class Company {
 public:
  /// `place` names what is tuned (database_key()). The store and the notes must outlive it.
  Company(db::Store& store, db::Key place, std::string session, Notes* notes);
  Company(const Company&) = delete;
  Company& operator=(const Company&) = delete;
  ~Company() { leave(); }

  bool is_shared() const { return is_shared_; }
  /// The candidates that nobody else has under way or has measured. They are this run's for
  /// db::claim_s, and longer as long as it claims others.
  std::vector<Candidate> claim(std::vector<Candidate> candidates);
  /// True once a candidate was refused: others are there.
  bool has_met_others() const { return has_met_others_; }
  /// True if this run is to compare the fastest kernels at its end; false while another one does.
  bool claim_finals();
  /// The trials of others that were stored since the last call, or since begin().
  std::vector<db::Record> news();
  /// Says that the run knows the trials that are stored by now.
  void begin();
  /// Ends the run's claims.
  void leave();

 private:
  void miss(const Error& error);

  db::Store& store_;
  const db::Key place_;
  const std::string session_;
  Notes* notes_;
  const bool is_shared_;
  bool has_claims_ = false, has_met_others_ = false;
  int64_t heard_ = 0;  ///< number of the row up to which news is known
};

}  // namespace tw::tuner
