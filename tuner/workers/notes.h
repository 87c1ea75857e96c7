// SPDX-License-Identifier: Apache-2.0
#pragma once
// Notes on things that a run gave up, left out or replaced in order to continue. A note does not
// end a run, but the user is told. The first note of each kind is printed as one line; all notes
// are counted, and the program prints the counts with its result.
//
//   Notes notes([](const std::string& line) { note(line); });      // the notes of the program
//   environment.notes = &notes;                                    // and passes it in
//   note(environment.notes, NoteKind::LostTrial, "the builder: SIGTERM");
//   for (const Note& n : notes.all()) ...                          // {"lost_trial", text, 3}
//
// Thread-safe.

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tw::tuner {

// Each row has an enumerator, its name in JSON, and the beginning of the line that is printed.
#define TW_NOTE_KINDS(X)                                                                          \
  X(KnownUnusable, "known_unusable", "the best known kernel is of no use here")                   \
  X(WarmStartUnread, "warm_start_unread", "a part of what the database knows could not be read")  \
  X(SamplesRefused, "samples_refused", "the cost model refused samples, and learned the others")  \
  X(FailuresUnknown, "failures_unknown", "the cost model could not learn which candidates fail")  \
  X(PredictionIllegal, "prediction_illegal",                                                      \
    "the schedule that the cost model prefers is illegal, and the default one takes its place")   \
  X(CacheUnwritten, "cache_unwritten", "predictions are not kept for the next run")               \
  X(RecordRefused, "record_refused",                                                              \
    "the database keeps a trial aside, which `db quarantine` lists")                              \
  X(RecordsSpooled, "records_spooled",                                                            \
    "the database lacks records until it takes them from a file")                                 \
  X(LostTrial, "lost_trial",                                                                      \
    "a candidate failed through no fault of its own, and is not counted as tried")                \
  X(ModelDoubtful, "model_doubtful",                                                              \
    "the model was imported, though not all of it is as it should be")                            \
  X(KernelsUnmeasured, "kernels_unmeasured", "kernels of the network were not measured")          \
  X(ClosingEarly, "closing_early", "interrupted")                                                 \
  X(PrecisionUncompared, "precision_uncompared", "the network was not compared with that in f32") \
  X(DemandUnkept, "demand_unkept", "the database does not keep the demand that the run leaves")   \
  X(ClaimsUnread, "claims_unread", "what other runs of the workload have under way is not known") \
  X(OtherVersion, "other_version", "a member of the farm is left out")

enum class NoteKind : uint8_t {
#define X(enumerator, name, text) enumerator,
  TW_NOTE_KINDS(X)
#undef X
};

/// Returns the name of the kind in JSON: "lost_trial".
std::string_view to_string(NoteKind kind);

/// All notes of one kind.
struct Note {
  NoteKind kind = NoteKind::KnownUnusable;
  std::string text;  ///< reason that the first note gave
  int64_t count = 0;
};
/// Returns a note as a line: "[tune] a candidate failed through no fault of its own, and is not
/// counted as tried: SIGTERM".
std::string line_of(const Note& note);

class Notes {
 public:
  /// Called with the line_of() of the first note of each kind, on the thread that adds it.
  using Tell = std::function<void(const std::string& line)>;

  explicit Notes(Tell tell = nullptr) : tell_(std::move(tell)) {}

  void add(NoteKind kind, std::string_view why);
  /// Returns one entry for each kind of which there are notes, in the order of their first notes.
  std::vector<Note> all() const;

 private:
  Tell tell_;
  mutable std::mutex mutex_;
  std::vector<Note> notes_;
};

/// Adds a note unless `notes` is null.
inline void note(Notes* notes, NoteKind kind, std::string_view why) {
  if (notes != nullptr) notes->add(kind, why);
}

}  // namespace tw::tuner
