// SPDX-License-Identifier: Apache-2.0
#include "db/exchange/t4.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "db/transfer.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

using Json = nlohmann::json;

/// Checks one result against the rules of results-schema.json 1.0.0.
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
  ASSERT_TRUE(export_t4(store, empty));
  EXPECT_EQ(Json::parse(empty.str()),
            (Json{{"schema_version", "1.0.0"}, {"results", Json::array()}}));
  ASSERT_TRUE(store.append(sample_records(0, 3)));
  ASSERT_TRUE(export_to(store, folder / "out.json"));
  const Json document = Json::parse(read_bytes(folder / "out.json"));
  EXPECT_EQ(document["schema_version"], "1.0.0");
  ASSERT_EQ(document["results"].size(), 3u);
  for (const Json& result : document["results"]) expect_valid(result);
}

TEST(T4, WhatWasExportedIsImported) {
  const Folder folder;
  Store from = open_store(folder / "a.db"), to = open_store(folder / "b.db");
  ASSERT_TRUE(from.append(sample_records(0, 300)));
  ASSERT_TRUE(export_to(from, folder / "out.json"));
  const auto imported = import_t4(to, folder / "out.json");
  ASSERT_TRUE(imported) << imported.error().message;
  EXPECT_EQ(imported->inserted, 300);
  EXPECT_EQ(to.query({.order = Order::Created}).value(),
            from.query({.order = Order::Created}).value());
  EXPECT_EQ(import_t4(to, folder / "out.json")->inserted, 0);
}

TEST(T4, ResultsOfOthersAndChangedOnesAreKeptApart) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  Json document = {{"schema_version", "1.0.0"},
                   {"metadata", {{"tool", {{"name", "another"}}}}},
                   {"results", Json::array()}};
  const auto import = [&] {
    std::istringstream in(document.dump(2));
    return import_t4(store, in, "that");
  };
  Json foreign = Json::parse(to_t4(sample_record(0)));
  foreign["measurements"] = Json::array({{{"name", "time"}, {"value", 3}, {"unit", "ms"}}});
  document["results"].push_back(foreign);
  const auto none = import();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::Invalid);
  EXPECT_NE(none.error().message.find("that holds no records"), std::string::npos);
  EXPECT_EQ(store.info()->quarantined, 0);

  document["results"].push_back(Json::parse(to_t4(sample_record(1))));
  Record changed = sample_record(2);
  changed.latency_ns /= 2;
  document["results"].push_back(Json::parse(to_t4(changed)));
  const auto some = import();
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->inserted, 1);
  EXPECT_EQ(some->quarantined, 2);
  EXPECT_EQ(store.query({}).value(), std::vector{sample_record(1)});

  document["results"] =
      Json::array({5, Json::array({6}), foreign, Json::parse(to_t4(sample_record(3)))});
  EXPECT_EQ(import().value(), (AppendSummary{1, 0, 3}));

  std::istringstream broken("{\"results\": [");
  EXPECT_NE(import_t4(store, broken, "that").error().message.find("that is no JSON"),
            std::string::npos);
  const auto error_in = [&](const std::string& text) {
    std::istringstream in(text);
    return error_of(import_t4(store, in, "that"));
  };
  EXPECT_EQ(error_in("{\"results\": ["), "[import] that is no JSON: it ends too early");
  EXPECT_EQ(error_in("{\"results\": ]"), "[import] that is no JSON: the error is at byte 13");
  EXPECT_EQ(error_in("{\"n\": 1e999}"), "[import] that has a number that is too large");
}

TEST(T4, ADocumentWithoutAListOfResultsIsRefused) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  const std::string result = to_t4(sample_record(0));
  for (const std::string& text :
       {std::string("[1,2]"), std::string("{}"), std::string("5"), "[" + result + "]",
        "{\"results\": " + result + "}", "{\"results\": 5, \"others\": [" + result + "]}",
        "[{\"results\": [" + result + "]}]"}) {
    std::istringstream in(text);
    const auto imported = import_t4(store, in, "that");
    ASSERT_FALSE(imported) << text;
    EXPECT_EQ(imported.error().code, ErrorCode::Invalid) << text;
    EXPECT_NE(imported.error().message.find("that holds no records"), std::string::npos);
  }
  EXPECT_EQ(store.info()->records, 0);
  std::istringstream empty("{\"results\": []}");
  EXPECT_EQ(import_t4(store, empty, "that").value(), AppendSummary{});
}

TEST(T4, ManyResultsOfOthersBeforeTheFirstRecordAreRefused) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  std::string results;
  for (int i = 0; i < 63; ++i) results += "{},";
  const std::string record = to_t4(sample_record(0)) + "]}";
  std::istringstream few("{\"results\": [" + results + record);
  EXPECT_EQ(import_t4(store, few, "few").value(), (AppendSummary{1, 0, 63}));
  std::istringstream many("{\"results\": [" + results + "{}, " + record);
  const auto refused = import_t4(store, many, "many");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("many holds no records"), std::string::npos);
  std::istringstream endless("{\"results\": [" + results + "{}, and no JSON");
  EXPECT_NE(error_of(import_t4(store, endless, "endless")).find("endless holds no records"),
            std::string::npos);
}

TEST(T4, Fault27_DeeplyNestedResultsAreRefused) {
  const Folder folder;
  Store store = open_store(folder / "a.db");
  constexpr size_t levels = 300'000;
  const std::string arrays = std::string(levels, '[') + std::string(levels, ']');
  std::string objects;
  for (size_t i = 0; i < levels; ++i) objects += "{\"a\":";
  objects += "1" + std::string(levels, '}');
  const std::string record = to_t4(sample_record(0));
  for (const std::string& deep : {arrays, objects}) {
    std::istringstream inside("{\"results\":[{\"a\":" + deep + "}," + deep + "," + record + "]}");
    const auto some = import_t4(store, inside, "inside");
    ASSERT_TRUE(some) << error_of(some);
    EXPECT_EQ(some->inserted + some->duplicates, 1);
    EXPECT_EQ(some->quarantined, 2);
    std::istringstream beside("{\"metadata\":" + deep + ",\"results\":[" + record + "]}");
    EXPECT_EQ(import_t4(store, beside, "beside").value(), (AppendSummary{0, 1, 0}));
    std::istringstream cut("{\"results\":[{\"a\":" + deep.substr(0, deep.size() / 2));
    EXPECT_EQ(import_t4(store, cut, "cut").error().code, ErrorCode::Invalid);
  }
}

}  // namespace
}  // namespace tw::db
