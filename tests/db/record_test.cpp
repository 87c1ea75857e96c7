// SPDX-License-Identifier: Apache-2.0
#include "db/record.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "db/fields.h"
#include "tests/db/samples.h"

namespace tw::db {
namespace {

TEST(Record, CanonicalTextIsAsDocumented) {
  Record record;
  record.op = "relu";
  record.workload = "w\n";
  record.schedule = "tw1";
  record.latency_ns = -0.0;
  record.samples_ns = {1.5, 2};
  EXPECT_EQ(
      canonical_text(record),
      "tilewright-record 1\nop:4:relu\ntarget:0:\ndevice:0:\ntoolchain:0:\ncodegen_abi:1:1\n"
      "threads:1:1\nlayouts:0:\nstatus:2:ok\nlatency_ns:1:0\nlatency_low_ns:1:0\n"
      "latency_high_ns:1:0\nflops:1:0\npeak_gflops:1:0\nnoise:1:0\nverified_error:1:0\n"
      "program_version:0:\nhost:0:\nsession:0:\nseed:1:0\ntrial:1:0\ncreated_ms:1:0\nreason:0:\n"
      "samples_ns:5:1.5 2\nworkload:2:w\n\nschedule:3:tw1\n");
}

TEST(Record, FieldsOfVersion2AreInTheTextOfRecordsThatHaveThem) {
  Record record = sample_record(0);
  EXPECT_EQ(record_version_of(record), 1);
  const std::string before = canonical_text(record);
  record.configuration = "out: cpu_tile";
  EXPECT_EQ(record_version_of(record), 2);
  EXPECT_EQ(canonical_text(record), "tilewright-record 2\n" + before.substr(before.find('\n') + 1) +
                                        "machine:0:\nconfiguration:13:out: cpu_tile\n");
}

TEST(Record, FieldsOfVersion3AreInTheTextOfRecordsThatHaveThem) {
  Record record = sample_record(0);
  const std::string before = canonical_text(record);
  record.bytes = 1024;
  EXPECT_EQ(record_version_of(record), 3);
  EXPECT_EQ(canonical_text(record),
            "tilewright-record 3\n" + before.substr(before.find('\n') + 1) +
                "machine:0:\nconfiguration:0:\nbytes:4:1024\npeak_gb_per_s:1:0\n");
  record = seal(record);
  EXPECT_EQ(from_json(to_json(record)).value(), record);
}

TEST(Record, LinesSayTheVersionThatTheyNeed) {
  Record record = sample_record(0);
  EXPECT_TRUE(to_json(record).starts_with("{\"record\":1,"));
  EXPECT_EQ(to_json(record).find("machine"), std::string::npos);
  record.machine = "Zen 4; table; 0123456789abcdef";
  record = seal(record);
  const std::string line = to_json(record);
  EXPECT_TRUE(line.starts_with("{\"record\":2,"));
  EXPECT_EQ(from_json(line).value(), record);
  EXPECT_TRUE(check(from_json(line).value()));
  for (const char* version : {"0", "3", "\"2\""}) {
    std::string other = line;
    EXPECT_FALSE(from_json(other.replace(other.find('2'), 1, version))) << version;
  }
}

// A change of this hash would mean that all existing databases hold records of another version.
TEST(Record, HashOfAKnownRecordDoesNotChange) {
  const Record record = sample_record(3);
  EXPECT_EQ(record.hash, sha256_hex(canonical_text(record)));
  EXPECT_EQ(record.workload_hash, sha256_hex(record.workload));
  EXPECT_EQ(record.hash, "53b6d18d295b58bef872c00ed62053f8653eea37522cbbc32178f5bafc4a79d8");
}

TEST(Record, EveryFieldTakesPartInTheHash) {
  const Record original = sample_record(1);
  int fields = 0;
  visit_fields(original, [&](const char*, const auto&) { ++fields; });
  for (int changed = 0; changed < fields; ++changed) {
    Record copy = original;
    int index = 0;
    visit_fields(copy, [&](const char*, auto& member) {
      if (index++ != changed) return;
      using T = std::decay_t<decltype(member)>;
      if constexpr (std::is_same_v<T, std::string>)
        member += "x";
      else if constexpr (std::is_same_v<T, TrialStatus>)
        member = TrialStatus::Crash;
      else if constexpr (std::is_same_v<T, std::vector<double>>)
        member.push_back(1);
      else
        member += 1;
    });
    EXPECT_NE(seal(copy).hash, original.hash) << "field " << changed;
    EXPECT_FALSE(check(copy)) << "field " << changed << " changed without a new hash";
  }
}

TEST(Record, JsonRoundTripsExactly) {
  Record record = sample_record(2);
  record.reason = "quote \" backslash \\ line\nfeed, tab\t, umlaut \xc3\xbc";
  record.samples_ns = {0.1, 1e-300, 123456789.123456789, 5e15};
  record.seed = std::numeric_limits<int64_t>::min();
  record = seal(record);
  const std::string line = to_json(record);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  const Result<Record> back = from_json(line);
  ASSERT_TRUE(back) << error_of(back);
  EXPECT_EQ(*back, record);
  EXPECT_TRUE(check(*back));
}

TEST(Record, StatusesRoundTripThroughText) {
#define X(enumerator, text, meaning, proves)                    \
  EXPECT_EQ(parse_trial_status(text), TrialStatus::enumerator); \
  EXPECT_EQ(to_string(TrialStatus::enumerator), text);          \
  EXPECT_EQ(proves_wrong(TrialStatus::enumerator), proves);
  TW_TRIAL_STATUSES(X)
#undef X
  EXPECT_FALSE(parse_trial_status("okay"));
}

TEST(Record, SealKeepsAnInfiniteErrorAsTheLargestDouble) {
  Record record = sample_record(1);
  record.status = TrialStatus::Wrong;
  record.verified_error = std::numeric_limits<double>::quiet_NaN();
  record = seal(record);
  EXPECT_EQ(record.verified_error, std::numeric_limits<double>::max());
  EXPECT_TRUE(check(record)) << error_of(check(record));
  EXPECT_EQ(from_json(to_json(record)).value(), record);
}

TEST(Record, Fault28_ImpossibleFactsAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<const char*, std::function<void(Record&)>>> poisons = {
      {"latency_ns is 0", [](Record& r) { r.latency_ns = 0; }},
      {"latency_ns is negative", [](Record& r) { r.latency_ns = -1; }},
      {"latency_ns is not a finite", [=](Record& r) { r.latency_ns = nan; }},
      {"latency_high_ns is not a finite", [=](Record& r) { r.latency_high_ns = infinity; }},
      {"the interval does not hold", [](Record& r) { r.latency_low_ns = r.latency_ns + 1; }},
      {"the interval does not hold", [](Record& r) { r.latency_high_ns = r.latency_ns - 1; }},
      {"samples_ns holds 0", [](Record& r) { r.samples_ns.push_back(0); }},
      {"samples_ns holds a value that is not", [=](Record& r) { r.samples_ns.push_back(nan); }},
      {"samples_ns has 10001", [](Record& r) { r.samples_ns.assign(10'001, 1.0); }},
      {"peak", [](Record& r) { r.flops = 10.5 * r.peak_gflops * r.latency_ns; }},
      {"bandwidth",
       [](Record& r) {
         r.peak_gb_per_s = 100;
         r.bytes = 10.5 * r.peak_gb_per_s * r.latency_ns;
       }},
      {"peak_gflops is negative", [](Record& r) { r.peak_gflops = -1; }},
      {"workload is empty", [](Record& r) { r.workload = ""; }},
      {"tw1", [](Record& r) { r.schedule = "rm -rf"; }},
      {"threads is below 1", [](Record& r) { r.threads = 0; }},
      {"reason is 5000 bytes", [](Record& r) { r.reason = std::string(5000, 'x'); }},
      {"schedule is", [](Record& r) { r.schedule = "tw1" + std::string(1 << 19, 'x'); }},
      {"device is not UTF-8", [](Record& r) { r.device = "\xff\xfe"; }},
      {"device is not UTF-8", [](Record& r) { r.device = std::string("a\0b", 3); }},
  };
  ASSERT_TRUE(check(sample_record(0)));
  EXPECT_TRUE(check(dilated_record(0, 89)));
  const Status beyond = check(dilated_record(0, 91));
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find("10.1 times the machine's peak"), std::string::npos);
  for (const auto& [message, poison] : poisons) {
    Record record = sample_record(0);
    poison(record);
    const Status status = check(seal(record));
    ASSERT_FALSE(status) << message;
    EXPECT_NE(status.error().message.find(message), std::string::npos) << status.error().message;
  }
}

TEST(Record, AFailedTrialNeedsNoLatency) {
  Record record = sample_record(0);
  record.status = TrialStatus::Timeout;
  record.latency_ns = record.latency_low_ns = record.latency_high_ns = 0;
  record.samples_ns.clear();
  EXPECT_TRUE(check(seal(record)));
}

TEST(Record, BadLinesAreErrorsNotCrashes) {
  const std::string good = to_json(sample_record(0));
  std::vector<std::string> lines = {
      "",          "null",    "[]", "{", "{}", "\xff", R"({"record":1})", R"({"record":"1"})",
      good + good, good + "x"};
  for (size_t length = 1; length < good.size(); length += 7)
    lines.push_back(good.substr(0, length));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string line = good;
    const size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  lines.push_back(replaced(R"("record":1)", R"("record":2)"));
  lines.push_back(replaced(R"("threads":1)", R"("threads":1.5)"));
  lines.push_back(replaced(R"("status":"ok")", R"("status":"fine")"));
  lines.push_back(replaced(R"("latency_ns":10000.0)", R"("latency_ns":1e999)"));
  lines.push_back(replaced(R"("op":"matmul",)", ""));
  for (const std::string& line : lines) {
    const Result<Record> record = from_json(line);
    ASSERT_FALSE(record) << line;
    EXPECT_EQ(record.error().code, ErrorCode::Invalid);
  }
}

TEST(Record, ErrorsOfLinesNameTheFieldInPlainWords) {
  const std::string good = to_json(sample_record(0));
  const auto replaced = [&](const std::string& from, const std::string& to) {
    return std::string(good).replace(good.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, const char*>> problems = {
      {"{}", "the field record is missing"},
      {"[]", "it is not a JSON object"},
      {"not JSON", "it is not JSON: the error is at byte 2"},
      {good.substr(0, 100), "it is not JSON: it ends too early"},
      {R"({"record":"1"})", "record is not an integer"},
      {R"({"record":9})", "another record version: 9"},
      {replaced(R"("op":"matmul",)", ""), "the field op is missing"},
      {replaced(R"("hash":)", R"("hush":)"), "the field hash is missing"},
      {replaced(R"("op":"matmul")", R"("op":7)"), "op is not a text"},
      {replaced(R"("threads":1)", R"("threads":1.5)"), "threads is not an integer"},
      {replaced(R"("status":"ok")", R"("status":1)"), "status is not a text"},
      {replaced(R"("noise":0.01)", R"("noise":"low")"), "noise has a value that is not a number"},
      {replaced(R"("noise":0.01)", R"("noise":1e999)"), "it has a number that is too large"},
      {replaced(R"("samples_ns":[)", R"("samples_ns":["x",)"),
       "samples_ns has a value that is not a number"},
      {replaced(R"("samples_ns":[)", R"("samples_ns":3,"list":[)"), "samples_ns is not a list"},
  };
  for (const auto& [line, problem] : problems)
    EXPECT_EQ(error_of(from_json(line)),
              fmt::format("[record] {}; a line written by `tilewright db export` was expected; "
                          "export it again",
                          problem));
}

TEST(Record, Fault27_DeepOrLongJsonIsRefused) {
  EXPECT_FALSE(from_json(std::string(max_line_bytes - 1, '[')));
  EXPECT_FALSE(
      from_json(R"({"record":)" + std::string(500'000, '[') + std::string(500'000, ']') + "}"));
  EXPECT_FALSE(from_json(std::string(max_line_bytes + 1, ' ')));
}

// Compares with the implementation of another library, for all pairs of bytes and for random bytes.
TEST(Record, TextIsUtf8WithoutNul) {
  const auto is_utf8 = [](const std::string& text) {
    try {
      return !nlohmann::json(text).dump().empty() && text.find('\0') == std::string::npos;
    } catch (const nlohmann::json::type_error&) {
      return false;
    }
  };
  Random random(5);
  for (int i = 0; i < 1 << 16; ++i) {
    std::string text = {static_cast<char>(i >> 8), static_cast<char>(i & 255)};
    ASSERT_EQ(is_valid_text(text), is_utf8(text)) << i;
    const int64_t lead = random.below(2) ? 0xe0 + random.below(32) : random.below(256);
    text = {static_cast<char>(lead), static_cast<char>(0x7e + random.below(70)),
            static_cast<char>(0x7e + random.below(70)), static_cast<char>(0x7e + random.below(70))};
    ASSERT_EQ(is_valid_text(text), is_utf8(text)) << lead << " and three more, round " << i;
  }
  // Puts characters of several bytes at every position of a text, because texts are read a word at
  // a time.
  for (size_t at = 0; at < 20; ++at)
    for (const char* character : {"\xc3\xa9", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xff", "\x80"}) {
      const std::string text = std::string(at, 'a') + character + std::string(20 - at, 'b');
      ASSERT_EQ(is_valid_text(text), is_utf8(text)) << at;
      ASSERT_EQ(is_valid_text(text.substr(0, at + 1)), is_utf8(text.substr(0, at + 1))) << at;
    }
  for (const char* text : {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(is_valid_text(text)) << text;
  for (const char* text : {"\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "a\xff"})
    EXPECT_FALSE(is_valid_text(text));
}

}  // namespace
}  // namespace tw::db
