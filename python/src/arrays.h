// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts between arrays of Python and those of the library. Arrays of NumPy are used directly,
// those of other libraries (PyTorch, JAX) by the DLPack protocol. All functions require the GIL.

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "dsl/array.h"
#include "runtime/arguments.h"

namespace tw::python {

/// Memory of an array of the caller, and the object that keeps the memory alive.
struct BorrowedArray {
  runtime::Buffer buffer;
  pybind11::object owner;
};

/// The memory of `array`, without a copy; any strides are accepted. Raises TypeError, naming the
/// argument, if `array` is no array in the processor's memory, has another element type, or is
/// read-only and an output. Shapes are not checked here, as the runtime checks them.
BorrowedArray borrow_array(const pybind11::handle& array, const runtime::ArgumentInfo& argument);

/// Makes an uninitialised NumPy array.
pybind11::array new_array(DType type, const std::vector<int64_t>& shape);

/// Copies an array; the elements of the copy are in row-major order. Raises TypeError for another
/// element type than `type` and ValueError for another shape than `shape`; the message has `name`,
/// the tensor's name.
dsl::Array copied_array(const pybind11::handle& array, const std::string& name, DType type,
                        const std::vector<int64_t>& shape);
pybind11::array numpy_array(const dsl::Array& array);

}  // namespace tw::python
