// SPDX-License-Identifier: Apache-2.0
#include "tools/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tw::tools {
namespace {

using ::testing::HasSubstr;

dsl::Array counted(DType type, std::vector<int64_t> shape) {
  dsl::Array array = dsl::Array::make(type, std::move(shape)).value();
  for (int64_t i = 0; i < array.size(); ++i)
    if (is_float(type))
      array.set_float(i, static_cast<double>(i) / 2);
    else
      array.set_int(i, i % 2);
  return array;
}

/// Returns a file of version 1 with this header and these elements.
std::string file_of(std::string header, const std::string& elements) {
  header += '\n';
  std::string bytes = "\x93NUMPY";
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes + header + elements;
}

ErrorCode refusal(const std::string& bytes) {
  const auto array = parse_npy(bytes, "x.npy");
  EXPECT_FALSE(array);
  if (array) return ErrorCode::Internal;
  EXPECT_THAT(array.error().message, HasSubstr("[npy] x.npy "));
  return array.error().code;
}

TEST(Npy, WhatIsWrittenIsRead) {
  for (const DType type : all_dtypes)
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{2, 3}, {5}, {}, {0, 4}, {1, 2, 3, 4}}) {
      if (type == BFloat16) continue;  // NumPy has no such type
      const dsl::Array array = counted(type, shape);
      const auto bytes = npy_bytes(array);
      ASSERT_TRUE(bytes) << bytes.error().message;
      EXPECT_EQ((bytes->size() - array.data.size()) % 64, 0u);
      const auto read = parse_npy(*bytes, "x.npy");
      ASSERT_TRUE(read) << read.error().message;
      EXPECT_EQ(read->type, array.type);
      EXPECT_EQ(read->shape, array.shape);
      EXPECT_EQ(read->data, array.data);
    }
}

TEST(Npy, HeadersMayBeSpacedOtherwise) {
  const auto array = parse_npy(
      file_of("{\"descr\": 1, 'shape':(2 ,1), 'fortran_order':  False,'descr':'|u1'}", "\3\4"),
      "x.npy");
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(array->get_int(1), 4);
}

TEST(Npy, Fault10_ArraysThatWouldHaveToBeConvertedAreRefused) {
  const std::string rest = "'fortran_order': False, 'shape': (1,), }";
  EXPECT_EQ(refusal(file_of("{'descr': '<c8', " + rest, "12345678")), ErrorCode::Unsupported);
  EXPECT_EQ(refusal(file_of("{'descr': '>f4', " + rest, "1234")), ErrorCode::Unsupported);
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "1234")),
            ErrorCode::Unsupported);
  EXPECT_EQ(npy_bytes(counted(BFloat16, {2})).error().code, ErrorCode::Unsupported);
}

TEST(Npy, FilesThatAreDamagedOrNoneAreRefused) {
  const std::string whole = npy_bytes(counted(Float32, {2, 3})).value();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(refusal(whole.substr(0, bytes)), ErrorCode::Invalid) << bytes;
  EXPECT_EQ(refusal(whole + "x"), ErrorCode::Invalid);
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "")),
            ErrorCode::Invalid);
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': False, }", "")), ErrorCode::Invalid);
  EXPECT_EQ(refusal(file_of("{'descr': '<f4', 'fortran_order': False, "
                            "'shape': (4611686018427387904, 4611686018427387904), }",
                            "")),
            ErrorCode::Invalid);
}

TEST(Npy, MissingFilesAreNamed) {
  const auto array = read_npy("/nonexistent/x.npy");
  ASSERT_FALSE(array);
  EXPECT_EQ(array.error().code, ErrorCode::Environment);
  EXPECT_THAT(array.error().message, HasSubstr("/nonexistent/x.npy"));
}

}  // namespace
}  // namespace tw::tools
