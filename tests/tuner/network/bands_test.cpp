// SPDX-License-Identifier: Apache-2.0
#include "tuner/network/bands.h"

#include <gmock/gmock.h>

#include <map>
#include <optional>

#include "base/random.h"

namespace tw::tuner {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// A script of calls. Each call reads any number of storages and writes one storage.
class Scripts : public testing::Test {
 protected:
  size_t storage(std::optional<ScriptPart> part = {}) {
    script_.storages.push_back({.part = part});
    return script_.storages.size() - 1;
  }

  /// Adds a call that takes `cost_us`, reads `from` and writes `to`.
  void call_into(const std::string& name, const std::vector<size_t>& from, size_t to,
                 double cost_us = 100) {
    ScriptCall call{.name = name};
    dsl::Compute compute;
    for (const size_t input : from) {
      call.arguments.push_back({name, {}, input});
      compute.inputs.emplace_back();
    }
    call.arguments.push_back({name, {}, to});
    compute.outputs.push_back("out");
    call.kernel = script_.kernels.size();
    call.cost_ns = 1000 * cost_us;
    script_.kernels.emplace_back().workload.compute = compute;
    script_.calls.push_back(std::move(call));
  }
  /// Adds a call that writes a new storage, and returns this storage.
  size_t call(const std::string& name, const std::vector<size_t>& from, double cost_us = 100) {
    const size_t to = storage();
    call_into(name, from, to, cost_us);
    return to;
  }

  void find(int threads = 2) { script_ = with_bands(std::move(script_), threads); }

  /// Returns the names of all calls in their order. A band with two chains is written as "[a b |
  /// c]".
  std::string order() const {
    std::string text;
    size_t band = 0, behind = 0, chain = 0;
    for (size_t i = 0; i < script_.calls.size(); ++i) {
      if (band < script_.bands.size() && script_.bands[band].first == i) {
        text += "[";
        chain = 0;
        behind = i + script_.bands[band].chains[0];
      } else if (behind == i && behind > 0) {
        text += "| ";
        behind += script_.bands[band].chains[++chain];
      }
      text += script_.calls[i].name;
      if (behind == i + 1 && chain + 1 == script_.bands[band].chains.size()) {
        text += "]";
        behind = 0;
        ++band;
      }
      text += i + 1 < script_.calls.size() ? " " : "";
    }
    return text;
  }

  Script script_;
  const size_t x_ = storage();
};

TEST_F(Scripts, AChainOfCallsHasNoBand) {
  call("c", {call("b", {call("a", {x_})})});
  find();
  EXPECT_THAT(script_.bands, IsEmpty());
  EXPECT_EQ(order(), "a b c");
}

TEST_F(Scripts, BranchesRunSideBySideTheLongestFirst) {
  const size_t in = call("in", {x_}), a1 = call("a1", {in}), b1 = call("b1", {in}, 90),
               a2 = call("a2", {a1}), c1 = call("c1", {in}, 40), b2 = call("b2", {b1}, 200);
  call("out", {a2, b2, c1});
  find();
  EXPECT_EQ(order(), "in [b1 b2 | a1 a2 | c1] out");
  EXPECT_THAT(script_.bands[0].chains, ElementsAre(2, 2, 1));
}

TEST_F(Scripts, ProjectionsOfAttentionAreABand) {
  const size_t q = call("q", {x_}), k = call("k", {x_}), s = call("scores", {q, k}, 20),
               p = call("softmax", {s}, 20), v = call("v", {x_});
  call("out", {p, v});
  find();
  EXPECT_EQ(order(), "[q | k] [v | scores softmax] out");
}

TEST_F(Scripts, BandsAreNotWorthAWaitOfTheThreads) {
  call("out", {call("a", {x_}, 0.2), call("b", {x_}, 0.2)});
  find();
  EXPECT_THAT(script_.bands, IsEmpty());
}

TEST_F(Scripts, PiecesOfAConcatenationAreWrittenSideBySide) {
  const size_t whole = storage(), inner = storage(ScriptPart{whole, 64}),
               a = storage(ScriptPart{whole, 0}), b = storage(ScriptPart{inner, 0}),
               c = storage(ScriptPart{inner, 64});
  call_into("a", {x_}, a);
  call_into("b", {x_}, b);
  call_into("c", {x_}, c);
  call("d", {inner});
  call("out", {whole});
  find();
  EXPECT_EQ(order(), "[a | b | c] [d | out]");
}

TEST_F(Scripts, ACallThatReadsAWholeWaitsForItsPieces) {
  const size_t whole = storage(), a = storage(ScriptPart{whole, 0}),
               b = storage(ScriptPart{whole, 64});
  call_into("a", {x_}, a);
  call_into("b", {a}, b);
  call("c", {whole});
  find();
  EXPECT_THAT(script_.bands, IsEmpty());
}

TEST_F(Scripts, LoopsStayWhole) {
  // Two recurrences. The array `states` holds all values of h: each trip reads one value and writes
  // the next, and `out` reads the last value.
  std::vector<size_t> last;
  for (const std::string name : {"f", "b"}) {
    const size_t rows = call(name + "_x", {x_}), states = storage(),
                 first = storage(ScriptPart{states, 0}),
                 h = storage(ScriptPart{states, 0, 64, 0, 4}),
                 next = storage(ScriptPart{states, 64, 64, 0, 4});
    call_into(name + "_0", {x_}, first, 1);
    const size_t begin = script_.calls.size();
    call_into(name + "_t", {h, rows}, next);
    script_.loops.push_back({name, begin, begin + 1, 4, {states}});
    last.push_back(storage(ScriptPart{states, 256}));
  }
  call("out", last);
  find();
  EXPECT_EQ(order(), "[f_x f_0 f_t | b_x b_0 b_t] out");
  ASSERT_THAT(script_.loops, SizeIs(2));
  EXPECT_EQ(script_.loops[1].name, "b");
  EXPECT_EQ(script_.loops[1].first, 5u);
  EXPECT_EQ(script_.loops[1].end, 6u);
}

TEST_F(Scripts, MoreThreadsMakeWiderBands) {
  std::vector<size_t> results;
  for (int i = 0; i < 80; ++i) results.push_back(call(std::to_string(i), {x_}));
  call("out", results);
  find(4);
  size_t calls = 0;
  for (const ScriptBand& band : script_.bands) {
    EXPECT_LE(band.chains.size(), runtime::most_chains);
    calls += band.chains.size();
  }
  EXPECT_EQ(calls, 80u);
}

/// Random scripts, in which each call reads storages that earlier calls wrote. The chains of a band
/// may run in any order, so no call may read what another chain of its band writes.
TEST_F(Scripts, RandomScriptsKeepTheirDependences) {
  Random random(5);
  size_t bands = 0;
  for (int round = 0; round < 200; ++round) {
    script_ = {};
    std::vector<size_t> values = {storage()};
    std::map<size_t, std::string> writer;
    const int64_t count = 5 + random.below(40);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<size_t> from;
      for (int64_t reads = 1 + random.below(2); reads > 0; --reads)
        from.push_back(
            values[values.size() - 1 -
                   static_cast<size_t>(random.below(std::min<int64_t>(4, std::ssize(values))))]);
      const std::string name = std::to_string(i);
      values.push_back(call(name, from, static_cast<double>(1 + random.below(50))));
      writer[values.back()] = name;
    }
    find(2 + static_cast<int>(random.below(3)));
    ASSERT_THAT(script_.calls, SizeIs(static_cast<size_t>(count)));
    bands += script_.bands.size();
    std::vector<size_t> band_of(script_.calls.size(), SIZE_MAX), chain_of(script_.calls.size());
    for (size_t band = 0; band < script_.bands.size(); ++band) {
      size_t at = script_.bands[band].first;
      for (size_t chain = 0; chain < script_.bands[band].chains.size(); ++chain)
        for (size_t i = 0; i < script_.bands[band].chains[chain]; ++i, ++at) {
          band_of[at] = band;
          chain_of[at] = chain;
        }
    }
    std::map<size_t, size_t> written_by;
    for (size_t i = 0; i < script_.calls.size(); ++i) {
      const auto& arguments = script_.calls[i].arguments;
      for (size_t a = 0; a + 1 < arguments.size(); ++a) {
        if (arguments[a].storage == 0) continue;
        ASSERT_TRUE(written_by.contains(arguments[a].storage)) << "round " << round;
        const size_t by = written_by[arguments[a].storage];
        ASSERT_TRUE(band_of[i] == SIZE_MAX || band_of[by] != band_of[i] ||
                    chain_of[by] == chain_of[i])
            << "round " << round;
      }
      written_by[arguments.back().storage] = i;
    }
  }
  EXPECT_GT(bands, 200u);
}

}  // namespace
}  // namespace tw::tuner
