// SPDX-License-Identifier: Apache-2.0
#include "python/src/arrays.h"

#include <dlpack/dlpack.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "python/src/bindings.h"
#include "runtime/dlpack.h"
#include "runtime/strided.h"

namespace tw::python {
namespace {

namespace py = pybind11;
using runtime::ArgumentInfo;

std::string what_is(const ArgumentInfo& argument) {
  return fmt::format("{} '{}': expected {}[{}]", argument.is_output ? "output" : "input",
                     argument.name, to_string(argument.dtype), fmt::join(argument.shape, ", "));
}

/// True for types that NumPy gets from the package ml_dtypes, such as bf16. Their type numbers
/// differ between processes.
bool is_of_ml_dtypes(DType type) { return is_narrow_float(type) && type != Float16; }

/// Returns NumPy's number for the type; -1 for types of ml_dtypes.
int numpy_number(DType type) {
  // A plain static could deadlock, because the look-up may release the GIL, and another thread that
  // gets the GIL may wait for the static.
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<std::vector<int>> numbers;
  const auto look_up = [] {
    std::vector<int> all;
    for (const DType each : all_dtypes)
      all.push_back(is_of_ml_dtypes(each)
                        ? -1
                        : py::dtype::from_args(py::str(std::string(info_of(each).in_numpy))).num());
    return all;
  };
  return numbers.call_once_and_store_result(look_up).get_stored()[static_cast<size_t>(type)];
}

std::optional<DType> type_named(const std::string& name) {
  return find_dtype(&DTypeInfo::in_numpy, name);
}

std::optional<DType> type_of(const py::dtype& dtype) {
  if (dtype.byteorder() == '>') return std::nullopt;
  // Numbers are compared first, because reading the name of a type takes longer than the rest of a
  // call.
  const int number = dtype.num();
  for (const DType type : all_dtypes)
    if (number == numpy_number(type)) return type;
  return type_named(dtype.attr("name").cast<std::string>());
}

py::dtype dtype_named(DType type) {
  if (is_of_ml_dtypes(type))
    return py::dtype::from_args(
        py::module_::import("ml_dtypes").attr(std::string(info_of(type).in_numpy).c_str()));
  return py::dtype(numpy_number(type));
}

/// Returns the strides of the array in elements. Raises TypeError if a stride is not a multiple of
/// the size of an element.
std::vector<int64_t> strides_of(const py::array& array, const ArgumentInfo& argument) {
  const int64_t bytes = size_bytes(argument.dtype);
  std::vector<int64_t> strides;
  for (py::ssize_t i = 0; i < array.ndim(); ++i) {
    if (array.strides(i) % bytes != 0)
      throw py::type_error(
          fmt::format("{}, got strides that are no multiple of the {} bytes of an "
                      "element; copy the array first",
                      what_is(argument), bytes));
    strides.push_back(array.strides(i) / bytes);
  }
  return strides;
}

BorrowedArray borrow_numpy(const py::array& array, const ArgumentInfo& argument) {
  const auto type = type_of(array.dtype());
  if (type != argument.dtype)
    throw py::type_error(fmt::format("{}, got an array of {}", what_is(argument),
                                     py::str(array.dtype()).cast<std::string>()));
  if (argument.is_output && !array.writeable())
    throw py::type_error(what_is(argument) + ", got an array that is read-only");
  BorrowedArray borrowed{{const_cast<void*>(array.data()), *type, {}, {}}, array};
  borrowed.buffer.shape.assign(array.shape(), array.shape() + array.ndim());
  // Most arrays are row-major, and need no strides.
  if ((array.flags() & py::array::c_style) == 0)
    borrowed.buffer.strides = strides_of(array, argument);
  return borrowed;
}

/// Exports the array as a DLPack capsule. Raises TypeError if the array refuses, as a PyTorch
/// tensor that requires a gradient does.
py::object dlpack_capsule(const py::handle& array, const ArgumentInfo& argument) {
  try {
    return array.attr("__dlpack__")();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_BufferError) && !error.matches(PyExc_RuntimeError)) throw;
    const auto why = py::str(error.value()).cast<std::string>();
    throw py::type_error(fmt::format("{}, got an array that refuses: {}", what_is(argument), why));
  }
}

BorrowedArray borrow_dlpack(const py::handle& array, const ArgumentInfo& argument) {
  // A PyTorch view may have elements that are negated when they are read. DLPack would export the
  // memory without the negation.
  if (py::hasattr(array, "is_neg") && array.attr("is_neg")().cast<bool>())
    throw py::type_error(what_is(argument) +
                         ", got a view of negated elements; call resolve_neg() first");
  // The capsule owns the exported tensor and frees it in its destructor, so the capsule is kept
  // alive.
  const py::object made = dlpack_capsule(array, argument);
  if (!PyCapsule_IsValid(made.ptr(), "dltensor"))
    throw py::type_error(what_is(argument) + ", got a DLPack capsule of another kind");
  const auto* const managed =
      static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(made.ptr(), "dltensor"));
  const DLTensor& tensor = managed->dl_tensor;
  if (tensor.device.device_type != kDLCPU)
    throw py::type_error(
        fmt::format("{} in the processor's memory, got an array of DLPack device {}",
                    what_is(argument), int{tensor.device.device_type}));
  const auto type = tensor.dtype.lanes == 1
                        ? runtime::dlpack_dtype(tensor.dtype.code, tensor.dtype.bits)
                        : std::nullopt;
  if (type != argument.dtype)
    throw py::type_error(
        fmt::format("{}, got an array of another element type", what_is(argument)));
  BorrowedArray borrowed{{static_cast<char*>(tensor.data) + tensor.byte_offset, *type, {}, {}},
                         made};
  borrowed.buffer.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  if (tensor.strides != nullptr)
    borrowed.buffer.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  return borrowed;
}

}  // namespace

BorrowedArray borrow_array(const py::handle& array, const ArgumentInfo& argument) {
  if (py::isinstance<py::array>(array))
    return borrow_numpy(py::reinterpret_borrow<py::array>(array), argument);
  if (py::hasattr(array, "__dlpack__")) return borrow_dlpack(array, argument);
  throw py::type_error(
      fmt::format("{}, got {}: no NumPy array, and nothing with __dlpack__", what_is(argument),
                  py::str(py::type::of(array).attr("__name__")).cast<std::string>()));
}

py::array new_array(DType type, const std::vector<int64_t>& shape) {
  return {dtype_named(type), std::vector<py::ssize_t>(shape.begin(), shape.end())};
}

dsl::Array copied_array(const py::handle& given, const std::string& name, DType type,
                        const std::vector<int64_t>& shape) {
  ArgumentInfo argument;
  argument.name = name;
  argument.dtype = type;
  argument.shape = shape;
  const py::array array = py::array::ensure(given, 0);
  const auto got = array ? type_of(array.dtype()) : std::nullopt;
  if (got != type) throw py::type_error(what_is(argument) + ", got an array of another type");
  if (!std::equal(shape.begin(), shape.end(), array.shape(), array.shape() + array.ndim()))
    throw py::value_error(what_is(argument) + ", got another shape");
  const py::array rows = py::array::ensure(array, py::array::c_style);
  dsl::Array copy{type, shape, std::vector<std::byte>(static_cast<size_t>(rows.nbytes()))};
  std::memcpy(copy.data.data(), rows.data(), copy.data.size());
  return copy;
}

py::array numpy_array(const dsl::Array& array) {
  py::array copy = new_array(array.type, array.shape);
  std::memcpy(copy.mutable_data(), array.data.data(), array.data.size());
  return copy;
}

DType dtype_of(const py::handle& value) {
  if (py::isinstance<DType>(value)) return value.cast<DType>();
  if (py::isinstance<py::str>(value)) {
    const auto name = value.cast<std::string>();
    if (const auto type = type_named(name)) return *type;
    if (const auto type = parse_dtype(name)) return *type;
  } else if (const auto type =
                 type_of(py::dtype::from_args(py::reinterpret_borrow<py::object>(value)))) {
    return *type;
  }
  throw py::type_error(
      fmt::format("{} is no element type: expected {}, or NumPy's name of one of these",
                  py::repr(value).cast<std::string>(), known_dtypes()));
}

}  // namespace tw::python
