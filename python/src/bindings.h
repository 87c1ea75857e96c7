// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions that bind the modules of the library, one for each module. They are called in the
// order of tools/layers.txt, so that all types in a signature are known when it is bound.

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

/// Converts a DType, its text ("f32"), or NumPy's name or type for it ("float32") to a DType.
/// Raises TypeError for other values.
DType dtype_of(const pybind11::handle& value);
/// Converts an Expr or an Axis to an Expr, and a number or truth value to a literal of `type`.
/// Raises TypeError for other values.
dsl::Expr expr_of(const pybind11::handle& value, DType type);

}  // namespace tw::python
