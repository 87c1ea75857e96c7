// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts between arrays of Python and arrays of the library. NumPy's arrays are used directly;
// arrays of other libraries (PyTorch, JAX) are read by the DLPack protocol. All functions require
// the GIL.

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "dsl/array.h"
#include "runtime/arguments.h"

namespace tw::python {

/// The memory of an array that Python code passed, and the Python object that keeps the memory
/// alive.
struct BorrowedArray {
  runtime::Buffer buffer;
  pybind11::object owner;
};

/// Returns the memory of `array` without a copy; the array may have any strides. `argument`
/// describes the kernel's argument for which the array is passed. Raises TypeError if `array` is no
/// array in the processor's memory, if it has another element type than the argument, or if the
/// argument is an output and the array is read-only. The message names the argument. The runtime
/// checks shapes later.
BorrowedArray borrow_array(const pybind11::handle& array, const runtime::ArgumentInfo& argument);

/// Makes an uninitialised NumPy array.
pybind11::array new_array(DType type, const std::vector<int64_t>& shape);

/// Copies an array to a row-major dsl::Array. Raises TypeError if its element type is not `type`,
/// and ValueError if its shape is not `shape`. `name` is the tensor's name in these messages.
dsl::Array copied_array(const pybind11::handle& array, const std::string& name, DType type,
                        const std::vector<int64_t>& shape);
pybind11::array numpy_array(const dsl::Array& array);

}  // namespace tw::python
