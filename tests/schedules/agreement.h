// SPDX-License-Identifier: Apache-2.0
#pragma once
// The check that ends most tests of this folder: running a Program gives the values that its
// Compute defines.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/integer.h"
#include "base/random.h"
#include "dsl/interpret.h"
#include "dsl/parse.h"
#include "schedules/program/evaluate.h"
#include "schedules/schedule.h"

namespace tw::schedules {

/// Calls `visit` with each index vector of `shape`.
template <typename F>
void for_each_index(const std::vector<int64_t>& shape, F&& visit) {
  const int64_t count = *checked_product(shape);
  for (int64_t position = 0; position < count; ++position) {
    std::vector<int64_t> indices(shape.size());
    int64_t rest = position;
    for (size_t d = shape.size(); d > 0; --d) {
      indices[d - 1] = rest % shape[d - 1];
      rest /= shape[d - 1];
    }
    visit(indices, position);
  }
}

inline void set(dsl::Array& array, int64_t position, int64_t value) {
  if (is_float(array.type)) return array.set_float(position, static_cast<double>(value));
  array.set_int(position, value);
}

/// Returns inputs of random integers from -2 to 2, or from 0 to 2 for unsigned types. Sums and
/// products of so small integers are exact in every type and in every order of reduction.
inline dsl::Arrays exact_inputs(const dsl::Compute& compute, uint64_t seed) {
  Random random(seed);
  dsl::Arrays arrays;
  for (const dsl::Input& input : compute.inputs) {
    dsl::Array array = dsl::Array::make(input.type, input.shape).value();
    for (int64_t i = 0; i < array.size(); ++i) {
      const int64_t value = is_signed(input.type) ? random.below(5) - 2 : random.below(3);
      set(array, i, value);
    }
    arrays[input.name] = std::move(array);
  }
  return arrays;
}

/// Returns the bytes of `array` in the argument's layout. The layout may round extents up to whole
/// blocks. The elements that this adds hold `padding`. In inputs that is 77, a value that must not
/// influence any result.
inline std::vector<std::byte> packed(const Argument& argument, const dsl::Array& array,
                                     int64_t padding = 77) {
  dsl::Array storage = dsl::Array::make(argument.buffer.type, argument.buffer.extents).value();
  for (int64_t i = 0; i < storage.size(); ++i) set(storage, i, padding);
  const auto bytes = static_cast<size_t>(size_bytes(array.type));
  for_each_index(argument.shape, [&](const std::vector<int64_t>& indices, int64_t position) {
    const int64_t at = argument.layout.offset(argument.shape, indices);
    std::memcpy(storage.data.data() + static_cast<size_t>(at) * bytes,
                array.data.data() + static_cast<size_t>(position) * bytes, bytes);
  });
  return storage.data;
}

/// Runs `program` on exact_inputs() and compares its outputs with those of the interpreter. Returns
/// the first difference or error, or nullopt if all outputs agree. `tolerance` is relative to the
/// expected element, or absolute if that element is below 1 in magnitude; 0 requires equality.
inline std::optional<std::string> disagreement(const dsl::Compute& compute, const Program& program,
                                               uint64_t seed = 1, double tolerance = 0) {
  const dsl::Arrays inputs = exact_inputs(compute, seed);
  const auto expected = dsl::interpret(compute, inputs);
  if (!expected) return "the compute itself: " + expected.error().message;
  Storage storage;
  for (const Argument& argument : program.arguments)
    if (!argument.is_output && !argument.prepared)
      storage[argument.buffer.name] = packed(argument, inputs.at(argument.buffer.name));
  if (const Status status = evaluate(program, storage); !status) return status.error().message;
  std::optional<std::string> difference;
  for (const Argument& argument : program.arguments) {
    if (!argument.is_output) continue;
    const dsl::Array& want = expected->at(argument.buffer.name);
    const std::byte* got = storage.at(argument.buffer.name).data();
    for_each_index(argument.shape, [&](const std::vector<int64_t>& indices, int64_t position) {
      if (difference) return;
      const double x = want.get_float(position);
      const double y =
          load_float(argument.buffer.type, got, argument.layout.offset(argument.shape, indices));
      if (x == y || (std::isnan(x) && std::isnan(y)) ||
          std::fabs(x - y) <= tolerance * std::max(1.0, std::fabs(x)))
        return;
      difference = fmt::format("{}[{}] is {}, expected {}", argument.buffer.name,
                               fmt::join(indices, ", "), y, x);
    });
  }
  return difference;
}

}  // namespace tw::schedules
