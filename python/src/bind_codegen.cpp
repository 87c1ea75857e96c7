// SPDX-License-Identifier: Apache-2.0
// Binds codegen/: functions that print the code of a kernel as text.

#include <pybind11/pybind11.h>

#include <string>

#include "codegen/c_emitter.h"
#include "python/src/bindings.h"
#include "python/src/errors.h"
#include "schedules/program/program.h"

namespace tw::python {

namespace py = pybind11;
using namespace py::literals;

void bind_codegen(py::module_& m) {
  m.def(
      "emit_c",
      [](const schedules::Program& program, const std::string& prefix) {
        return value_of(codegen::emit_c(program, prefix));
      },
      "program"_a, "prefix"_a = "kernel",
      "Prints the program as portable C, for people to read. The names of its functions begin with "
      "the prefix.");
}

}  // namespace tw::python
