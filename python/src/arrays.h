// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays of Python as the runtime takes them: NumPy's without a copy, others (PyTorch's, JAX's) by
// the DLPack protocol. All functions require the GIL.

#include <pybind11/numpy.h>

#include <string>
#include <vector>

#include "dsl/array.h"
#include "runtime/arguments.h"

namespace tw::python {

/// Memory of an array of the caller's, and what keeps it alive.
struct BorrowedArray {
  runtime::Buffer buffer;
  pybind11::object owner;
};

/// The memory of `array`, without a copy; strides may be any. TypeError, naming the argument, for
/// what is no array of the processor, for another element type, and for an output that is
/// read-only. Shapes are left to the runtime's checks.
BorrowedArray borrow_array(const pybind11::handle& array, const runtime::ArgumentInfo& argument);

/// A new, uninitialised NumPy array.
pybind11::array new_array(DType type, const std::vector<int64_t>& shape);

/// The elements in row-major order. TypeError for another element type, ValueError for another
/// shape, naming the tensor.
dsl::Array copied_array(const pybind11::handle& array, const std::string& name, DType type,
                        const std::vector<int64_t>& shape);
pybind11::array numpy_array(const dsl::Array& array);

}  // namespace tw::python
