// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_queue.h"

#include <gmock/gmock.h>

#include <string>

namespace tw::tuner {
namespace {

using testing::ElementsAre;

/// Says what it does.
class TellingBuilder : public Builder {
 public:
  explicit TellingBuilder(std::vector<std::string>& events) : events_(events) {}
  Status begin(const BuildRequest&) override { return {}; }
  std::vector<BuildOutcome> finish() override {
    events_.emplace_back("finish");
    return {BuildOutcome{.artifact = "kernel"}};
  }
  std::string toolchain() const override { return ""; }

 private:
  std::vector<std::string>& events_;
};

class Queue : public testing::Test {
 protected:
  /// A batch that is known by the schedule of its candidate.
  static Batch batch(const std::string& name) {
    Batch batch;
    batch.candidates.resize(1);
    batch.candidates[0].schedule = name;
    return batch;
  }
  static std::string name_of(const Batch& batch) { return batch.candidates[0].schedule; }

  BuildQueue queue(bool overlaps) {
    return BuildQueue(builder_, overlaps, [this](const Batch& batch) {
      events_.push_back((unwanted_ == name_of(batch) ? "drop " : "begin ") + name_of(batch));
      return unwanted_ != name_of(batch);
    });
  }
  /// Measures all batches of a queue that is kept full.
  void run(BuildQueue queue, std::vector<std::string> names) {
    for (;;) {
      while (queue.has_room() && !names.empty()) {
        queue.push(batch(names.front()));
        names.erase(names.begin());
      }
      if (queue.is_empty()) return;
      const Batch built = queue.pop();
      EXPECT_EQ(built.built.size(), 1u);
      events_.push_back("measure " + name_of(built));
      queue.resume();
    }
  }

  std::vector<std::string> events_;
  TellingBuilder builder_{events_};
  std::string unwanted_;
};

TEST_F(Queue, BuildsTheNextBatchWhileOneIsMeasured) {
  run(queue(true), {"a", "b", "c"});
  EXPECT_THAT(events_, ElementsAre("begin a", "finish", "begin b", "measure a", "finish", "begin c",
                                   "measure b", "finish", "measure c"));
}

TEST_F(Queue, WithoutOverlapBuildsTheNextBatchAfterOneIsMeasured) {
  run(queue(false), {"a", "b", "c"});
  EXPECT_THAT(events_, ElementsAre("begin a", "finish", "measure a", "begin b", "finish",
                                   "measure b", "begin c", "finish", "measure c"));
}

TEST_F(Queue, HoldsOneBatchBesideTheOneThatIsBuilt) {
  BuildQueue two = queue(true);
  EXPECT_TRUE(two.is_empty());
  two.push(batch("a"));
  EXPECT_TRUE(two.has_room());
  two.push(batch("b"));
  EXPECT_FALSE(two.has_room());
  EXPECT_THAT(events_, ElementsAre("begin a"));
}

TEST_F(Queue, DropsWhatNobodyWantsAnyMore) {
  unwanted_ = "b";
  run(queue(true), {"a", "b", "c"});
  EXPECT_THAT(events_, ElementsAre("begin a", "finish", "drop b", "measure a", "begin c", "finish",
                                   "measure c"));
}

}  // namespace
}  // namespace tw::tuner
