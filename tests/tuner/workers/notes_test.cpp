// SPDX-License-Identifier: Apache-2.0
#include "tuner/workers/notes.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace tw::tuner {
namespace {

TEST(Notes, TheFirstOfAKindIsToldAndAllAreCounted) {
  std::vector<std::string> told;
  Notes notes([&](const std::string& line) { told.push_back(line); });
  for (const char* why : {"first", "second", "third"}) note(&notes, NoteKind::LostTrial, why);
  note(&notes, NoteKind::SamplesRefused, "not finite");
  note(nullptr, NoteKind::SamplesRefused, "nobody collects it");
  EXPECT_THAT(told, testing::ElementsAre(testing::HasSubstr(": first"),
                                         testing::HasSubstr(": not finite")));
  const std::vector<Note> all = notes.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(to_string(all[0].kind), "lost_trial");
  EXPECT_EQ(all[0].text, "first");
  EXPECT_EQ(all[0].count, 3);
  EXPECT_EQ(all[1].count, 1);
}

}  // namespace
}  // namespace tw::tuner
