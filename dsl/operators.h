// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operators that have a name: a sorted table with one row for each, with its attributes and the
// function that declares it as a Compute. All code that lists operators reads this table.
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
      std::nullopt;  ///< default value; without it and without `same_as` the attribute is required
  std::string_view same_as =
      {};  ///< another attribute, whose value is the default; printed if the two values differ
  std::string_view alias = {};  ///< a second name, which parse_shape() accepts
  bool is_flag = false;         ///< true if the value is 0 or 1
  bool always = false;          ///< true if the attribute is printed even if it has its default
};

struct Operator {
  std::string_view name;
  std::string_view summary;
  std::vector<Attribute> attributes;  ///< in the order of the canonical text
  std::string_view example;           ///< attributes that are tuned if the user gives none
  Result<Compute> (*declare)(const Attributes& resolved, DType type);

  const Attribute* find(std::string_view attribute) const;
};

/// All operators, sorted by name.
const std::vector<Operator>& operators();

/// Finds an operator by name; `matmul` is a second name of dense. Usage if there is no such
/// operator: the message lists the operators, and if other libraries use the name, it says the
/// operator's name here.
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

/// The canonical text of resolved attributes, without those at their defaults: `n=1 c=64 h=56`.
std::string print_attributes(const Operator& op, const Attributes& resolved);

}  // namespace tw::dsl
