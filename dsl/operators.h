// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operators that have a name, such as conv2d. They are the rows of one table, sorted by name; a
// row has the operator's attributes and the function that declares the operator as a Compute.
//
//   TW_TRY(const Operator* conv, find_operator("conv2d"));
//   const Attributes given = {{"c", 64}, {"h", 56}, {"w", 56}, {"k", 64}, {"r", 3}, {"s", 3}};
//   TW_TRY(Attributes all, resolve(*conv, given));
//   TW_TRY(Compute compute, declare(*conv, all, Float32));
//
// Operators on f16 and bf16 compute and sum in f32, and their last stage rounds to the type. Sums
// and products of i8 and u8 are computed in i32 and stay i32; only the qlinear operators return u8.
// Thread-safe.

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

/// Returns all operators, sorted by name.
const std::vector<Operator>& operators();

/// Finds an operator by name; `matmul` is a second name of dense. Fails with Usage if there is no
/// such operator. The message lists the operators; for a name of other libraries, such as `gemm`,
/// it gives the name that the operator has here.
Result<const Operator*> find_operator(std::string_view name);

/// Fills in default values and brings the attributes into canonical form, in which equal operators
/// have equal attributes: stride_h = stride_w = 2 of conv2d becomes stride = 2. Fails with Usage
/// for unknown, missing and out-of-range attributes, and with Unsupported ("extent overflow") for
/// extents beyond 2^48.
Result<Attributes> resolve(const Operator& op, const Attributes& given);

/// Makes the compute of an operator. Requires: resolve() returned the attributes. Fails with Usage
/// if the attributes contradict each other, for example if the groups do not divide the channels or
/// the kernel is larger than the padded input. Fails with Unsupported if the operator is not
/// defined for the data type or extents overflow.
Result<Compute> declare(const Operator& op, const Attributes& resolved, DType type);

/// Returns the canonical text of resolved attributes: `n=1 c=64 h=56`. An attribute that has its
/// default value is left out unless Attribute::always is true.
std::string print_attributes(const Operator& op, const Attributes& resolved);

}  // namespace tw::dsl
