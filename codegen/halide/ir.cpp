// SPDX-License-Identifier: Apache-2.0
#include "codegen/halide/ir.h"

namespace tw::codegen::halide {

Halide::Type storage_type(DType type) {
  const int bits = 8 * size_bytes(type);
  switch (info_of(type).kind) {
    case NumberKind::Float:
      return Halide::Float(bits);
    case NumberKind::BFloat:
      return Halide::BFloat(bits);
    case NumberKind::Int:
      return Halide::Int(bits);
    default:  // UInt, Bool, and the bits of kinds on which Halide does not compute
      return Halide::UInt(bits);
  }
}

Halide::Type value_type(DType type) {
  if (is_float(type)) return Halide::Float(type == Float64 ? 64 : 32);
  return type == Bool ? Halide::Bool() : storage_type(type);
}

HExpr handle_variable(const std::string& name) {
  return hi::Variable::make(Halide::type_of<void*>(), name);
}

}  // namespace tw::codegen::halide
