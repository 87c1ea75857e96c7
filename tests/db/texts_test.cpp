// SPDX-License-Identifier: Apache-2.0
#include "db/tables/texts.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "db/tables/rows.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

// Stored blobs can be read only with the dictionary that packed them. A new dictionary needs a new
// number.
TEST(Texts, TheDictionaryNeverChanges) {
  EXPECT_EQ(text_dictionary().size(), 24576u);
  EXPECT_EQ(sha256_hex(text_dictionary()),
            "8cb24221e4c5d8257b2079478461d27d153ce0e7d5620aa1ba5bcda8e5b7b1ca");
}

TEST(Texts, EveryTextComesBack) {
  Random random(1);
  for (const size_t size : {0, 1, 7, 100, 4096, 1 << 20}) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(random.below(256));
    EXPECT_EQ(unpacked(packed(text)), text) << size;
  }
  EXPECT_EQ(unpacked(packed(std::string(1 << 20, 'x'))), std::string(1 << 20, 'x'));
}

TEST(Texts, AScheduleTakesHalf) {
  const std::string text =
      "tw1\nset_layout in NCHW16c\nset_layout w OIHW16i32o\nset_layout out NCHW16c\nsplit conv k "
      "32\nsplit conv k.1 16\nsplit conv x 7\nsplit conv c 16\nreorder conv n k.0 y x.0 c.0 r s "
      "c.1 x.1 k.1.0 k.1.1\ncache_write conv x.0\nvectorize conv k.1.1\nunroll conv x.1\nunroll "
      "conv k.1.0\nparallel conv n\nparallel conv k.0";
  EXPECT_LT(packed(text).size(), text.size() / 2);
}

TEST(Texts, Fault16_ADamagedBlobIsNoText) {
  const std::string blob = packed(sample_record(0).schedule);
  EXPECT_EQ(unpacked(""), std::nullopt);
  for (size_t size = 1; size < blob.size(); ++size)
    EXPECT_EQ(unpacked(blob.substr(0, size)), std::nullopt) << size;
  std::string newer = blob;
  newer[0] = 2;
  EXPECT_EQ(unpacked(newer), std::nullopt);
  Random random(2);
  for (int i = 0; i < 1000; ++i) {
    std::string flipped = blob;
    flipped[random.below(std::ssize(blob))] ^= static_cast<char>(1 << random.below(8));
    (void)unpacked(flipped);  // may be another text; records have hashes against that
  }
}

TEST(Texts, Fault27_ABlobThatClaimsToBeHugeIsNoText) {
  const std::string huge(8 << 20, 'x');
  EXPECT_LT(packed(huge).size(), 4096u);
  EXPECT_EQ(unpacked(packed(huge)), std::nullopt);
}

TEST(Texts, ARecordHasItsTextsBack) {
  Record record = sample_record(3), read;
  record.reason = "it was \"disturbed\"\nby a neighbour";
  ASSERT_TRUE(read_texts(packed_texts(record), read));
  EXPECT_EQ(read.workload, record.workload);
  EXPECT_EQ(read.reason, record.reason);
  EXPECT_EQ(read.configuration, "");
  EXPECT_FALSE(read_texts(packed(std::string(40, '\0')), read)) << "more texts than it has";
}

}  // namespace
}  // namespace tw::db
