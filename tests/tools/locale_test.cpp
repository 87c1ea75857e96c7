// SPDX-License-Identifier: Apache-2.0
// Tests results under a locale with a decimal comma and dots between thousands. A program that
// loads the library may have set such a locale.

#include <gtest/gtest.h>
#include <stdlib.h>

#include <clocale>
#include <cstdio>
#include <filesystem>
#include <locale>
#include <string>

#include "base/random.h"
#include "base/text.h"
#include "codegen/c_emitter.h"
#include "cost_model/booster.h"
#include "dsl/parse.h"
#include "schedules/schedule.h"
#include "tests/db/samples.h"
#include "tools/reports/report.h"
#include "tools/verb.h"

namespace tw::tools {
namespace {

namespace fs = std::filesystem;

/// Texts and predictions that must not depend on the locale.
struct Texts {
  std::string number, time, record, compute, c;
  std::vector<float> predictions;
  bool operator==(const Texts&) const = default;
};

std::vector<float> learned_predictions() {
  Random random(1);
  cost_model::TrainingSet data(2);
  cost_model::Matrix rows(2);
  for (int i = 0; i < 60; ++i) {
    const std::vector<float> row = {static_cast<float>(random.unit()),
                                    static_cast<float>(random.unit())};
    data.labels.push_back(row[0] - row[1]);
    data.rows.append(row);
    rows.append(row);
  }
  const auto booster = cost_model::Booster::train(data, {});
  return booster ? booster->predict(rows).value() : std::vector<float>();
}

Texts texts() {
  const auto compute =
      dsl::parse_compute("input a: f32[12345]; t: f32[i=12345] = a[i] * 2.5").value();
  const auto program = schedules::Schedule(compute).program().value();
  return {format_double(1234567.25),
          time_text(1'234'567.8),
          db::to_json(db::sample_record(12345)),
          dsl::to_text(compute),
          codegen::emit_c(program, "k").value(),
          learned_predictions()};
}

class DecimalComma : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tw_locale_XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    const std::string make = "localedef -i de_DE -f UTF-8 " + folder_ + "/comma > /dev/null 2>&1";
    (void)!std::system(make.c_str());
    ::setenv("LOCPATH", folder_.c_str(), 1);
    in_c_ = texts();
    if (!std::setlocale(LC_ALL, "comma")) GTEST_SKIP() << "[SKIP] no such locale can be made";
    std::locale::global(std::locale("comma"));
    char text[16];
    std::snprintf(text, sizeof text, "%.1f", 1.5);
    ASSERT_STREQ(text, "1,5");
  }
  void TearDown() override {
    std::locale::global(std::locale::classic());
    std::setlocale(LC_ALL, "C");
    ::unsetenv("LOCPATH");
    fs::remove_all(folder_);
  }

  std::string folder_;
  Texts in_c_;
};

TEST_F(DecimalComma, Fault70_WhatIsWrittenIsTheSame) {
  EXPECT_FALSE(in_c_.predictions.empty());
  const Texts here = texts();
  EXPECT_EQ(here.number, in_c_.number);
  EXPECT_EQ(here.time, in_c_.time);
  EXPECT_EQ(here.record, in_c_.record);
  EXPECT_EQ(here.compute, in_c_.compute);
  EXPECT_EQ(here.c, in_c_.c);
  EXPECT_EQ(here.predictions, in_c_.predictions);
}

TEST_F(DecimalComma, Fault70_WhatIsReadIsTheSame) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  EXPECT_EQ(parse_double("1,5"), std::nullopt);
  EXPECT_EQ(parse_seconds("1.5s").value(), 1.5);
  const db::Record record = db::sample_record(12345);
  EXPECT_EQ(db::from_json(db::to_json(record)).value(), record);
  db::Store store = db::open_store(folder_ + "/t.db");
  ASSERT_TRUE(store.append({{record}}));
  EXPECT_EQ(store.query({}).value(), std::vector<db::Record>{record});
}

}  // namespace
}  // namespace tw::tools
