// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays: tensor values in ordinary memory, row-major in their logical shape, and the random fills
// that tests and verification use. An Array is a value; several threads may read a const Array.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/random.h"
#include "base/result.h"

namespace tw::dsl {

struct Array {
  DType type = Float32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;

  /// Makes an array of zeros. Unsupported if the number of bytes overflows 64 bits, Usage if an
  /// extent is negative.
  static Result<Array> make(DType type, std::vector<int64_t> shape);

  int64_t size() const { return static_cast<int64_t>(data.size()) / size_bytes(type); }
  /// The linear position of an element. Requires: the indices lie inside of the shape.
  int64_t offset(const std::vector<int64_t>& indices) const;

  /// Access by linear position. The float forms also convert integers; the integer forms require an
  /// integer type or bool.
  double get_float(int64_t position) const { return load_float(type, data.data(), position); }
  int64_t get_int(int64_t position) const { return load_int(type, data.data(), position); }
  void set_float(int64_t position, double value) {
    store_float(type, data.data(), position, value);
  }
  void set_int(int64_t position, int64_t value) { store_int(type, data.data(), position, value); }

  /// Reads an element of any type by its indices.
  double get(const std::vector<int64_t>& indices) const { return get_float(offset(indices)); }
  void set(const std::vector<int64_t>& indices, double value);
};

/// Fills with random integers from -4 to 4 (0 to 4 for unsigned types). Products and sums of up to
/// a million of them are exact in f32 in any order, so two correct kernels agree bit by bit.
void fill_integers(Array& array, Random& random);
/// Fills with N(0, 1) values rounded to the type. An array of integers or bool is filled as by
/// fill_integers().
void fill_normal(Array& array, Random& random);
/// Fills with N(0, 1) values of which one in eight is replaced by a NaN, an infinity, a denormal or
/// -0. Integer arrays get the smallest and largest values of their type among small integers.
void fill_special(Array& array, Random& random);

}  // namespace tw::dsl
