// SPDX-License-Identifier: Apache-2.0
#pragma once
// Things that a run gave up, left out or replaced by something else, and went on without. None is a
// fault that ends the run, and none is silent: the first of a kind is told as one line, all are
// counted, and the program prints the counts with its result.
//
//   Notes notes([](const std::string& line) { note(line); });      // the program's
//   environment.notes = &notes;                                    // passed in
//   note(environment.notes, NoteKind::LostTrial, "the builder: SIGTERM");
//   for (const Note& n : notes.all()) ...                          // {"lost_trial", text, 3}
//
// Any thread may add to a Notes.

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace tw::tuner {

// enumerator, name in JSON, what the line begins with
#define TW_NOTE_KINDS(X)                                                                          \
  X(KnownUnusable, "known_unusable", "the best known kernel is of no use here")                   \
  X(WarmStartUnread, "warm_start_unread", "a part of what the database knows could not be read")  \
  X(SamplesRefused, "samples_refused", "the cost model refused samples, and learned the others")  \
  X(NotJudged, "not_judged",                                                                      \
    "the learned cost model could not be judged on a part of its samples")                        \
  X(PredictionIllegal, "prediction_illegal",                                                      \
    "the schedule that the cost model prefers is illegal, and the default one takes its place")   \
  X(CacheUnwritten, "cache_unwritten", "predictions are not kept for the next run")               \
  X(LostTrial, "lost_trial", "a candidate was lost with its worker, and is not counted as tried") \
  X(OtherVersion, "other_version", "a member of the farm is left out")

enum class NoteKind : uint8_t {
#define X(enumerator, name, text) enumerator,
  TW_NOTE_KINDS(X)
#undef X
};

/// "lost_trial"
std::string_view to_string(NoteKind kind);

/// All notes of a kind.
struct Note {
  NoteKind kind = NoteKind::KnownUnusable;
  std::string text;  ///< why, of the first
  int64_t count = 0;
};
/// "[tune] a candidate was lost with its worker, and is not counted as tried: SIGTERM"
std::string line_of(const Note& note);

class Notes {
 public:
  /// Called with line_of() the first note of each kind.
  using Tell = std::function<void(const std::string& line)>;

  explicit Notes(Tell tell = nullptr) : tell_(std::move(tell)) {}

  void add(NoteKind kind, std::string_view why);
  /// In the order in which their kinds came.
  std::vector<Note> all() const;

 private:
  Tell tell_;
  mutable std::mutex mutex_;
  std::vector<Note> notes_;
};

/// Adds a note where somebody collects them.
inline void note(Notes* notes, NoteKind kind, std::string_view why) {
  if (notes != nullptr) notes->add(kind, why);
}

}  // namespace tw::tuner
