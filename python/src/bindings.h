// SPDX-License-Identifier: Apache-2.0
#pragma once
// Each module of the library is bound by one function, in the order of tools/layers.txt, so that
// the types of a signature are known when it is bound.

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

/// A DType, its text ("f32"), or NumPy's name or type of it ("float32"). Raises TypeError.
DType dtype_of(const pybind11::handle& value);
/// An Expr, an Axis, or a number or truth value as a literal of `type`. Raises TypeError.
dsl::Expr expr_of(const pybind11::handle& value, DType type);

}  // namespace tw::python
