// SPDX-License-Identifier: Apache-2.0
#pragma once
// A type for arguments that the called function checks itself. pybind11 rejects an argument of a
// wrong type with a list of all signatures; a function that takes an Argument can raise one
// sentence with the given and the expected value instead.

#include <pybind11/pybind11.h>

namespace tw::python {

inline int accepts_any(PyObject* /*value*/) { return 1; }

/// Any Python object. Signatures and stubs show the type T.
template <typename T>
class Argument : public pybind11::object {
  PYBIND11_OBJECT_DEFAULT(Argument, object, accepts_any)
  using object::object;
};

}  // namespace tw::python

template <typename T>
struct pybind11::detail::handle_type_name<tw::python::Argument<T>> {
  static constexpr auto name = make_caster<T>::name;
};
