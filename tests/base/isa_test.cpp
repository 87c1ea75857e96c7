// SPDX-License-Identifier: Apache-2.0
#include "base/isa.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <algorithm>

#include "base/target.h"

namespace tw {
namespace {

using testing::HasSubstr;
using testing::IsSubsetOf;

/// Sets the limit of instruction sets in the environment while the object lives. Then restores the
/// limit under which the test itself runs.
class Limited {
 public:
  explicit Limited(const std::string& isa) {
    if (const char* own = ::getenv(max_isa_variable)) own_ = own;
    ::setenv(max_isa_variable, isa.c_str(), 1);
  }
  Limited(const Limited&) = delete;
  ~Limited() {
    if (own_)
      ::setenv(max_isa_variable, own_->c_str(), 1);
    else
      ::unsetenv(max_isa_variable);
  }

 private:
  std::optional<std::string> own_;
};

TEST(Isa, EachContainsThoseBefore) {
  std::vector<std::string> before;
  for (const std::string& name : isa_names()) {
    const auto features = features_of_isa(name);
    ASSERT_TRUE(features) << name;
    EXPECT_TRUE(std::is_sorted(features->begin(), features->end())) << name;
    EXPECT_GT(features->size(), before.size()) << name;
    EXPECT_THAT(before, IsSubsetOf(*features)) << name;
    before = *features;
  }
  EXPECT_FALSE(features_of_isa(""));
  EXPECT_FALSE(features_of_isa("avx1"));
}

TEST(Isa, TargetsByLevelAreThoseOfThePsAbi) {
  EXPECT_EQ(parse_target("x86-64-v3")->to_string(), "x86-64-linux-avx-avx2-f16c-fma-sse4_1");
  EXPECT_EQ(parse_target("x86-64-v4")->to_string(),
            "x86-64-linux-avx-avx2-avx512bw-avx512cd-avx512dq-avx512f-avx512vl-f16c-fma-sse4_1");
}

TEST(Isa, Fault73_TheMachineHasNoMoreThanTheLimit) {
  if (host_target().architecture != Architecture::X86_64)
    GTEST_SKIP() << "[SKIP] instruction sets are of x86-64";
  const Target all = [] {
    const Limited limited("");
    return host_target();
  }();
  for (const std::string& name : isa_names()) {
    const Limited limited(name);
    const Target host = host_target();
    for (const std::string& feature : all.features) {
      const auto allowed = *features_of_isa(name);
      const bool expected = std::count(allowed.begin(), allowed.end(), feature) > 0;
      EXPECT_EQ(host.has(feature), expected) << name << " " << feature;
    }
    EXPECT_THAT(host.features, IsSubsetOf(all.features)) << name;
    EXPECT_EQ(host.to_string(), parse_target("host")->to_string());
    EXPECT_EQ(host.machine.name, all.machine.name) << "the same processor, with narrower vectors";
    const Core generic = parse_target(host.to_string())->machine.core;
    EXPECT_EQ(host.machine.core.vector_bytes, generic.vector_bytes) << name;
    EXPECT_EQ(host.machine.core.vector_registers, generic.vector_registers) << name;
    EXPECT_EQ(max_isa(), name);
    EXPECT_TRUE(check_max_isa());
  }
  const Limited lowest("sse41");
  EXPECT_EQ(host_target().machine.core.vector_bytes, 16);
}

TEST(Isa, Fault73_AnUnknownLimitIsAnErrorThatListsThem) {
  const Limited limited("avx3");
  const Status status = check_max_isa();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::Usage);
  EXPECT_THAT(status.error().message, HasSubstr("TILEWRIGHT_MAX_ISA: 'avx3'"));
  EXPECT_THAT(status.error().message, HasSubstr("sse41, avx, avx2, avx512"));
  EXPECT_THAT(status.error().message, HasSubstr("did you mean 'avx'"));
  EXPECT_FALSE(max_isa());
}

TEST(Isa, Fault73_NamesInAnyCaseAndThoseOfOneDnn) {
  for (const auto& [value, name] : {std::pair("AVX2", "avx2"), std::pair("avx512_core", "avx512"),
                                    std::pair("AVX512_CORE_VNNI", "avx512_vnni"),
                                    std::pair("avx512_core_amx", "amx"), std::pair("Amx", "amx")}) {
    const Limited limited(value);
    EXPECT_TRUE(check_max_isa()) << value;
    EXPECT_EQ(max_isa(), name);
  }
}

TEST(Isa, Fault73_TheLimitIsTheCauseOfWhatItExcludes) {
  const Limited limited("AVX2");
  EXPECT_EQ(cause_of_missing({"avx512f"}), "TILEWRIGHT_MAX_ISA=AVX2 allows no more");
  EXPECT_EQ(cause_of_missing({"avx2"}), "");
  EXPECT_EQ(cause_of_missing({"arm-64"}), "");
  const Limited none("");
  EXPECT_EQ(cause_of_missing({"avx512f"}), "");
}

TEST(Isa, AnEmptyVariableLimitsNothing) {
  const Limited limited("");
  EXPECT_TRUE(check_max_isa());
  EXPECT_FALSE(max_isa());
}

}  // namespace
}  // namespace tw
