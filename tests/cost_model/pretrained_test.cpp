// SPDX-License-Identifier: Apache-2.0
#include "cost_model/pretrained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "cost_model/features.h"

namespace tw::cost_model {
namespace {

using ::testing::HasSubstr;

size_t feature_at(std::string_view name) {
  const auto table = feature_table();
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == name) return i;
  throw std::runtime_error("no such feature");
}

Machine machine_with_vectors(int bytes) {
  Machine machine;
  machine.core.vector_bytes = bytes;
  return machine;
}

/// Kernels that the analytic model expects to take 2^14 ns. Kernels with a first feature above a
/// half take twice as long, and so do kernels on machines with short vectors; both together, four
/// times as long.
class Kernels {
 public:
  explicit Kernels(uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 400; ++i) {
      std::vector<float> row(feature_count());
      for (float& value : row) value = static_cast<float>(random.unit());
      row[feature_at("analytic_ns")] = 14;
      rows.push_back(std::move(row));
    }
  }
  double ns(size_t i) const {
    return std::exp2(14 + (rows[i][0] > 0.5F ? 1 : 0) + (i % 2 == 0 ? 1 : 0));
  }
  const Machine& machine(size_t i) const { return i % 2 == 0 ? narrow : wide; }
  std::vector<CorpusTrial> trials() const {
    std::vector<CorpusTrial> all;
    for (size_t i = 0; i < rows.size(); ++i)
      all.push_back({rows[i], &machine(i), ns(i), std::exp2(14)});
    return all;
  }

  std::vector<std::vector<float>> rows;
  Machine narrow = machine_with_vectors(16), wide = machine_with_vectors(32);
};

TEST(Pretrained, LearnsByWhatTheAnalyticModelIsWrongOnEachMachine) {
  const Kernels seen(1), unseen(2);
  const auto model = Pretrained::train(seen.trials());
  ASSERT_TRUE(model) << model.error().message;
  double error = 0;
  for (size_t i = 0; i < unseen.rows.size(); ++i) {
    const auto times = model->times(std::vector{&unseen.rows[i]}, unseen.machine(i));
    ASSERT_TRUE(times) << times.error().message;
    error += std::abs((*times)[0] - std::log2(unseen.ns(i)));
  }
  // The error of the analytic model is 1 (a factor of 2) on average.
  EXPECT_LT(error / static_cast<double>(unseen.rows.size()), 0.1);
}

TEST(Pretrained, TheSameTrialsGiveTheSameBytes) {
  const Kernels kernels(1);
  const auto model = Pretrained::train(kernels.trials()),
             again = Pretrained::train(kernels.trials());
  ASSERT_TRUE(model && again);
  EXPECT_EQ(model->to_bytes(), again->to_bytes());
  EXPECT_EQ(model->name(), again->name());
  EXPECT_EQ(model->name().size(), 16u);
}

TEST(Pretrained, Fault45_BytesAreReadBackOrRefused) {
  const Kernels kernels(1);
  const auto model = Pretrained::train(kernels.trials());
  ASSERT_TRUE(model);
  const std::string& bytes = model->to_bytes();
  const auto read = Pretrained::from_bytes(bytes);
  ASSERT_TRUE(read) << read.error().message;
  std::vector<const std::vector<float>*> rows;
  for (const std::vector<float>& row : kernels.rows) rows.push_back(&row);
  EXPECT_EQ(*read->times(rows, kernels.wide), *model->times(rows, kernels.wide));

  std::string flipped = bytes, older = bytes;
  flipped[bytes.size() / 2] ^= 1;
  older.replace(older.find("features "), 10, "features 9");
  for (const auto& [wrong, why] : std::vector<std::pair<std::string, std::string>>{
           {flipped, "truncated or changed"},
           {bytes.substr(0, bytes.size() - 1), "truncated or changed"},
           {older, "with features 9"},
           {"", "no header"},
           {"tilewright-cost-model 3\n", "no such model"}}) {
    const auto refused = Pretrained::from_bytes(wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::Invalid);
    EXPECT_THAT(refused.error().message, HasSubstr(why));
  }
}

TEST(Pretrained, Fault45_AnyChangedOrMissingByteIsNoticed) {
  const auto model = Pretrained::train(Kernels(1).trials());
  ASSERT_TRUE(model);
  const std::string& bytes = model->to_bytes();
  for (size_t i = 0; i < bytes.size(); i += 1 + bytes.size() / 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x10);
    EXPECT_FALSE(Pretrained::from_bytes(changed)) << "byte " << i;
    EXPECT_FALSE(Pretrained::from_bytes(bytes.substr(0, i))) << i << " bytes";
  }
}

TEST(Pretrained, WhatTellsNothingApartIsAnError) {
  const auto none = Pretrained::train({});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Invalid);
}

}  // namespace
}  // namespace tw::cost_model
