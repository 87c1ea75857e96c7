// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/notes.h"

#include <fmt/format.h>

#include <algorithm>

namespace tw::tuner {
namespace {

std::string_view meaning_of(NoteKind kind) {
  switch (kind) {
#define X(enumerator, name, text) \
  case NoteKind::enumerator:      \
    return text;
    TW_NOTE_KINDS(X)
#undef X
  }
  return "?";
}

}  // namespace

std::string_view to_string(NoteKind kind) {
  switch (kind) {
#define X(enumerator, name, text) \
  case NoteKind::enumerator:      \
    return name;
    TW_NOTE_KINDS(X)
#undef X
  }
  return "?";
}

std::string line_of(const Note& note) {
  return fmt::format("[tune] {}: {}", meaning_of(note.kind), note.text);
}

void Notes::add(NoteKind kind, std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(notes_, kind, &Note::kind);
    if (known != notes_.end()) {
      ++known->count;
      return;
    }
    notes_.push_back({kind, std::string(why), 1});
  }
  if (tell_) tell_(line_of({kind, std::string(why), 1}));
}

std::vector<Note> Notes::all() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

}  // namespace tw::tuner
