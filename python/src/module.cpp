// SPDX-License-Identifier: Apache-2.0
// The extension module of the package `tilewright`. It has the types and functions of the C++
// interfaces, with the names that they have in C++.

#include "python/src/bindings.h"

PYBIND11_MODULE(_tilewright, module) {
  module.doc() = "Tilewright's C++ interfaces; import tilewright instead.";
  module.attr("__version__") = TW_VERSION;
  tw::python::bind_dsl(module);
  tw::python::bind_schedules(module);
  tw::python::bind_db(module);
  tw::python::bind_runtime(module);
  tw::python::bind_graph(module);
  tw::python::bind_codegen(module);
  tw::python::bind_tuner(module);
  tw::python::bind_networks(module);
  tw::python::bind_analysis(module);
}
