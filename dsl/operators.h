// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operators that are known by name: one row each in a sorted table, with their attributes and
// the function that declares them as a Compute. Everything that lists operators reads this table.
//
//   TW_TRY(const Operator* conv, find_operator("conv2d"));
//   const Attributes given = {{"c", 64}, {"h", 56}, {"w", 56}, {"k", 64}, {"r", 3}, {"s", 3}};
//   TW_TRY(Attributes all, resolve(*conv, given));
//   TW_TRY(Compute compute, declare(*conv, all, Float32));
//
// Reduced floats (f16, bf16) accumulate in f32 and are rounded by the last stage; i8 and u8
// accumulate and return i32. Thread-safe.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"

namespace tw::dsl {

using Attributes = std::map<std::string, int64_t>;

struct Attribute {
  std::string_view name;
  std::string_view meaning;
  int64_t minimum = 0;
  std::optional<int64_t> value =
      std::nullopt;  ///< the default; without one and without same_as it is required
  std::string_view same_as =
      {};  ///< defaults to the value of this attribute; printed where it differs
  std::string_view alias = {};  ///< a second name in parse_shape
  bool is_flag = false;         ///< 0 or 1
  bool always = false;          ///< printed even where it is the default
};

struct Operator {
  std::string_view name;
  std::string_view summary;
  std::vector<Attribute> attributes;  ///< their order is that of the canonical text
  std::string_view example;           ///< attributes to tune when none are given
  Result<Compute> (*declare)(const Attributes& resolved, DType type);

  const Attribute* find(std::string_view attribute) const;
};

/// Sorted by name.
const std::vector<Operator>& operators();

/// Finds an operator by name; `matmul` is a second name of dense. If there is none it fails with
/// Usage; the message lists the operators and, if other libraries use the name, says what the
/// operator is called here.
Result<const Operator*> find_operator(std::string_view name);

/// Fills in defaults and brings the attributes into canonical form (conv2d's stride_h = stride_w =
/// 2 becomes stride = 2). Fails with Usage for unknown, missing and out-of-range attributes, and
/// with Unsupported ("extent overflow") for extents beyond 2^48.
Result<Attributes> resolve(const Operator& op, const Attributes& given);

/// The compute of an operator. Requires attributes in the form that resolve() returns. Fails with
/// Usage if the attributes contradict each other (groups that do not divide the channels, a kernel
/// larger than the padded input), and with Unsupported if the operator is not defined for the data
/// type or extents overflow.
Result<Compute> declare(const Operator& op, const Attributes& resolved, DType type);

/// `n=1 c=64 h=56`: the canonical text of resolved attributes, without those at their defaults.
std::string print_attributes(const Operator& op, const Attributes& resolved);

}  // namespace tw::dsl
