// SPDX-License-Identifier: Apache-2.0
#include "tuner/build_queue.h"

#include <gmock/gmock.h>

#include <string>

namespace tw::tuner {
namespace {

using testing::ElementsAre;

/// A builder that logs its calls of finish().
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
  /// Returns a batch with one candidate. `name` is the candidate's schedule and identifies the
  /// batch.
  static Batch batch(const std::string& name) {
    Batch batch;
    batch.candidates.resize(1);
    batch.candidates[0].schedule = name;
    return batch;
  }
  static std::string name_of(const Batch& batch) { return batch.candidates[0].schedule; }

  BuildQueue queue(bool overlaps, size_t most) {
    return BuildQueue(builder_, overlaps, most, [this](const Batch& batch) {
      events_.push_back((unwanted_ == name_of(batch) ? "drop " : "begin ") + name_of(batch));
      return unwanted_ != name_of(batch);
    });
  }
  /// Pushes batches whenever the queue has room, and measures each batch that it gives back.
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
  run(queue(true, 2), {"a", "b", "c"});
  EXPECT_THAT(events_, ElementsAre("begin a", "begin b", "finish", "measure a", "begin c", "finish",
                                   "measure b", "finish", "measure c"));
}

TEST_F(Queue, WithoutOverlapBuildsTheNextBatchAfterOneIsMeasured) {
  run(queue(false, 2), {"a", "b", "c"});
  EXPECT_THAT(events_, ElementsAre("begin a", "finish", "measure a", "begin b", "finish",
                                   "measure b", "begin c", "finish", "measure c"));
}

TEST_F(Queue, WithoutOverlapBuildsAllThatWaitTogether) {
  run(queue(false, 4), {"a", "b", "c", "d", "e", "f"});
  EXPECT_THAT(events_,
              ElementsAre("begin a", "finish", "measure a", "begin b", "begin c", "begin d",
                          "finish", "finish", "finish", "measure b", "measure c", "measure d",
                          "begin e", "begin f", "finish", "finish", "measure e", "measure f"));
}

TEST_F(Queue, SaysWhoseBuildsWereWaitedFor) {
  const auto counts = [](const BuildQueue& queue) {
    std::vector<size_t> found;
    for (const Share& share : queue.waited_for()) found.push_back(share.candidates);
    return found;
  };
  BuildQueue two = queue(false, 4);
  for (const char* name : {"a", "b", "c"}) two.push(batch(name));
  (void)two.pop();
  EXPECT_THAT(counts(two), ElementsAre(1));
  two.resume();
  (void)two.pop();
  EXPECT_THAT(counts(two), ElementsAre(1, 1));
  two.resume();
  (void)two.pop();
  EXPECT_THAT(counts(two), ElementsAre());
}

TEST_F(Queue, HoldsOneBatchBesideTheOneThatIsBuilt) {
  for (const bool overlaps : {true, false}) {
    events_.clear();
    BuildQueue two = queue(overlaps, 2);
    EXPECT_TRUE(two.is_empty());
    two.push(batch("a"));
    EXPECT_TRUE(two.has_room());
    two.push(batch("b"));
    EXPECT_FALSE(two.has_room());
    EXPECT_EQ(events_.size(), overlaps ? 2 : 1);
  }
}

TEST_F(Queue, DropsWhatNobodyWantsAnyMore) {
  unwanted_ = "b";
  run(queue(true, 2), {"a", "b", "c"});
  EXPECT_THAT(events_, ElementsAre("begin a", "drop b", "begin c", "finish", "measure a", "finish",
                                   "measure c"));
}

}  // namespace
}  // namespace tw::tuner
