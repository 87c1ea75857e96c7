// SPDX-License-Identifier: Apache-2.0
#include "db/t4.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/db/samples.h"

namespace tw::db {
namespace {

using Json = nlohmann::json;

/// The rules of results-schema.json 1.0.0 for one result.
void expect_valid(const Json& result) {
  static const std::set<std::string> invalidities = {"timeout",     "compile",     "runtime",
                                                     "correctness", "constraints", "correct"};
  for (const char* required : {"configuration", "times", "invalidity", "correctness"})
    ASSERT_TRUE(result.contains(required)) << required;
  EXPECT_TRUE(result["timestamp"].is_string());
  EXPECT_TRUE(result["configuration"].is_object());
  EXPECT_TRUE(result["objectives"].is_array());
  EXPECT_TRUE(result["times"].is_object());
  EXPECT_TRUE(result["times"]["runtimes"].is_array());
  EXPECT_TRUE(invalidities.contains(result["invalidity"].get<std::string>()));
  EXPECT_TRUE(result["correctness"].is_number());
  for (const Json& measurement : result["measurements"]) {
    EXPECT_TRUE(measurement["name"].is_string());
    EXPECT_TRUE(measurement["value"].is_number() || measurement["value"].is_string());
    EXPECT_TRUE(measurement["unit"].is_string());
  }
}

TEST(T4, EveryStatusGivesAResultOfTheSchema){
#define X(enumerator, text, meaning, proves_wrong)                  \
  {                                                                 \
    Record record = sample_record(0);                               \
    record.status = TrialStatus::enumerator;                        \
    const Json result = Json::parse(to_t4(seal(record)));           \
    expect_valid(result);                                           \
    EXPECT_EQ(result["correctness"], proves_wrong ? 0 : 1) << text; \
  }
    TW_TRIAL_STATUSES(X)
#undef X
}

TEST(T4, TimesBeyondTheCalendarEndWithIt) {
  EXPECT_EQ(utc_text(INT64_MIN), "0001-01-01T00:00:00.000Z");
  EXPECT_EQ(utc_text(INT64_MAX), "9999-12-31T23:59:59.999Z");
  EXPECT_EQ(utc_text(1'700'000'000'000), "2023-11-14T22:13:20.000Z");
}

TEST(T4, TimesAreMilliseconds) {
  const Json result = Json::parse(to_t4(sample_record(0)));
  EXPECT_EQ(result["timestamp"], "2023-11-14T22:13:20.000Z");
  EXPECT_EQ(result["invalidity"], "correct");
  EXPECT_DOUBLE_EQ(result["times"]["runtimes"][1].get<double>(), 0.01);
  EXPECT_EQ(result["measurements"][0]["name"], result["objectives"][0]);
  EXPECT_DOUBLE_EQ(result["measurements"][0]["value"].get<double>(), 0.01);
  EXPECT_EQ(result["configuration"]["schedule"], sample_record(0).schedule);
}

TEST(T4, AnExportIsOneDocument) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  std::ostringstream empty;
  ASSERT_TRUE(store.export_t4(empty));
  EXPECT_EQ(Json::parse(empty.str()),
            (Json{{"schema_version", "1.0.0"}, {"results", Json::array()}}));
  ASSERT_TRUE(store.append(sample_records(0, 3)));
  ASSERT_TRUE(store.export_to(folder / "out.json"));
  const Json document = Json::parse(read_bytes(folder / "out.json"));
  EXPECT_EQ(document["schema_version"], "1.0.0");
  ASSERT_EQ(document["results"].size(), 3u);
  for (const Json& result : document["results"]) expect_valid(result);
}

}  // namespace
}  // namespace tw::db
