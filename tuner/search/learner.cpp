// SPDX-License-Identifier: Apache-2.0
#include "tuner/search/learner.h"

namespace tw::tuner {

void Learner::learn(const std::vector<cost_model::Sample>& samples, Notes* notes) {
  if (samples.empty()) return;
  if (const Status added = model_.add(samples); !added)
    note(notes, NoteKind::SamplesRefused, added.error().message);
  if (const Status learned = model_.learn_failures(); !learned)
    note(notes, NoteKind::FailuresUnknown, learned.error().message);
}

}  // namespace tw::tuner
