// SPDX-License-Identifier: Apache-2.0
#pragma once
// A type for arguments that a bound function checks itself. If an argument has a wrong type,
// pybind11 raises an error that lists all signatures. A function with a parameter of type Argument
// accepts every object. So it can raise an error of one sentence that says what was given and what
// was expected.

#include <pybind11/pybind11.h>

namespace tw::python {

inline int accepts_any(PyObject* /*value*/) { return 1; }

/// Any Python object. In docstrings and stubs its type is shown as T.
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
