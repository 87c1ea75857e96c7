// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays hold the elements of tensors in ordinary memory, in row-major order. The functions at the
// end fill them with random values for tests and verification. An Array is a value; several threads
// may read a const Array.

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

  /// Makes an array of zeros. Fails with Unsupported if the number of bytes overflows 64 bits, and
  /// with Usage if an extent is negative.
  static Result<Array> make(DType type, std::vector<int64_t> shape);

  int64_t size() const { return static_cast<int64_t>(data.size()) / size_bytes(type); }
  /// Returns the linear position of the element with these indices: 5 for {1, 2} in a shape of {2,
  /// 3}. Requires: the indices lie inside of the shape.
  int64_t offset(const std::vector<int64_t>& indices) const;

  /// Read or write the element at a linear position. get_float() and set_float() accept every type
  /// and convert integers; get_int() and set_int() require an integer type or bool.
  double get_float(int64_t position) const { return load_float(type, data.data(), position); }
  int64_t get_int(int64_t position) const { return load_int(type, data.data(), position); }
  void set_float(int64_t position, double value) {
    store_float(type, data.data(), position, value);
  }
  void set_int(int64_t position, int64_t value) { store_int(type, data.data(), position, value); }

  /// Read or write the element with these indices, whatever its type. set() truncates the value for
  /// an integer type.
  double get(const std::vector<int64_t>& indices) const { return get_float(offset(indices)); }
  void set(const std::vector<int64_t>& indices, double value);
};

/// Fills with random integers from -4 to 4 (0 to 4 for unsigned types). A sum of up to a million
/// products of two such numbers is exact in f32 in any order, so two correct kernels agree bit by
/// bit.
void fill_integers(Array& array, Random& random);
/// Fills with N(0, 1) values rounded to the type. If the type is an integer type or bool, this is
/// fill_integers().
void fill_normal(Array& array, Random& random);
/// Fills with N(0, 1) values, and replaces about one in eight by a NaN, an infinity, a denormal or
/// -0. An array of integers gets small integers instead, among them some extreme values of its
/// type, such as -128 and 127 for i8.
void fill_special(Array& array, Random& random);

}  // namespace tw::dsl
