// SPDX-License-Identifier: Apache-2.0
#pragma once
// Each of these functions defines the Python classes and functions for one module of the library.
// module.cpp calls them in the order of tools/layers.txt. So each type is bound before the
// signatures that use it, and docstrings show its Python name.

#include <pybind11/pybind11.h>

#include "base/dtype.h"
#include "dsl/expr.h"

namespace tw::python {

void bind_dsl(pybind11::module_& module);
void bind_schedules(pybind11::module_& module);
void bind_db(pybind11::module_& module);
void bind_runtime(pybind11::module_& module);
void bind_graph(pybind11::module_& module);
void bind_codegen(pybind11::module_& module);
void bind_tuner(pybind11::module_& module);
void bind_networks(pybind11::module_& module);
void bind_analysis(pybind11::module_& module);

/// Converts a Python value to a DType. The value may be a DType, its text ("f32"), NumPy's name
/// ("float32") or NumPy's type (np.float32). Raises TypeError for other values.
DType dtype_of(const pybind11::handle& value);
/// Converts a Python value to an Expr. The value may be an Expr, an Axis, or a number or truth
/// value, which becomes a literal of `type`. Numbers of NumPy are numbers, too. Raises ValueError
/// for a number that does not fit into `type`, and TypeError for other values.
dsl::Expr expr_of(const pybind11::handle& value, DType type);

}  // namespace tw::python
