// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <set>

namespace tw {
namespace {

TEST(DTypes, AreFoundByEachOfTheirNames) {
  for (const DType type : all_dtypes) {
    EXPECT_EQ(parse_dtype(to_string(type)).value(), type);
    EXPECT_EQ(find_dtype(&DTypeInfo::in_numpy, info_of(type).in_numpy), type);
    EXPECT_EQ(find_dtype(&DTypeInfo::in_onnx, info_of(type).in_onnx), type);
  }
  EXPECT_FALSE(find_dtype(&DTypeInfo::in_numpy, "f32"));
  EXPECT_EQ(
      parse_dtype("u64").error().message,
      "[dtype] 'u64' is no data type: use one of f32, f16, bf16, i8, u8, i32, i64, bool, f64, "
      "i16, u16, u32");
}

TEST(DTypes, DifferInKindOrSize) {
  std::set<std::pair<NumberKind, int>> seen;
  for (const DType type : all_dtypes)
    EXPECT_TRUE(seen.emplace(info_of(type).kind, size_bytes(type)).second) << to_string(type);
}

TEST(DTypes, IntegersWrapAtTheirLimits) {
  EXPECT_EQ(integer_limits(UInt16).largest, 65535);
  EXPECT_EQ(integer_limits(Int64).least, INT64_MIN);
  for (const DType type : all_dtypes) {
    if (is_float(type) || type == Bool || type == Int64) continue;
    const auto [least, largest] = integer_limits(type);
    EXPECT_EQ(wrap_to(type, largest + 1), least) << to_string(type);
    EXPECT_EQ(wrap_to(type, least - 1), largest) << to_string(type);
    EXPECT_EQ(wrap_to(type, least), least) << to_string(type);
    int64_t memory[2] = {};
    for (const int64_t value : {least, largest, int64_t{1}}) {
      store_int(type, memory, 1, value);
      EXPECT_EQ(load_int(type, memory, 1), value) << to_string(type);
    }
  }
  EXPECT_EQ(wrap_to(Bool, 256), 1);
}

}  // namespace
}  // namespace tw
