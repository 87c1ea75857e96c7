// SPDX-License-Identifier: Apache-2.0
#include "bench/summary.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tw::bench {
namespace {

using Json = nlohmann::json;

TEST(Summary, LeavesOutWhatOnlyACloserLookNeeds) {
  const Json document = {
      {"date", "2001-02-03"},
      {"rows",
       {{{"name", "r01"}, {"ratio", 1.0123456789}, {"schedule", "tw1"}, {"count", 12345678}},
        {{"name", "r02"}, {"error", "[bench] no kernel"}, {"peer_forms_us", {{"nchw", 1.0}}}}}},
      {"search",
       {{"rows", {{{"best_us", 66.66666}, {"traces", {{{"points", {1, 2}}}}}}}},
        {"summary", {{{"winner", nullptr}}}}}}};
  const Json expected = {
      {"date", "2001-02-03"},
      {"rows",
       {{{"name", "r01"}, {"ratio", 1.0123}, {"count", 12345678}},
        {{"name", "r02"}, {"error", "[bench] no kernel"}}}},
      {"search", {{"rows", {{{"best_us", 66.667}}}}, {"summary", {{{"winner", nullptr}}}}}}};
  EXPECT_EQ(summary_of(document), expected);
  EXPECT_EQ(summary_of(expected), expected);
}

TEST(Summary, ARowALine) {
  const Json document = {{"machine", {{"cores", 2}, {"features", {"avx", "fma"}}}},
                         {"rows", {{{"name", "r01"}}, {{"name", "r02"}}}},
                         {"search", {{"rows", Json::array()}, {"summary", {{{"rows", 3}}}}}}};
  EXPECT_EQ(row_lines(document),
            "{\n"
            "  \"machine\": {\"cores\":2,\"features\":[\"avx\",\"fma\"]},\n"
            "  \"rows\": [\n"
            "    {\"name\":\"r01\"},\n"
            "    {\"name\":\"r02\"}\n"
            "  ],\n"
            "  \"search\": {\n"
            "    \"rows\": [],\n"
            "    \"summary\": [\n"
            "      {\"rows\":3}\n"
            "    ]\n"
            "  }\n"
            "}\n");
  EXPECT_EQ(Json::parse(row_lines(document)), document);
}

}  // namespace
}  // namespace tw::bench
