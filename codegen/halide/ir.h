// SPDX-License-Identifier: Apache-2.0
#pragma once
// Declares short names for the parts of programs and of Halide's IR that this folder uses, and maps
// our element types to Halide's types. Halide::Internal is no stable interface, so the version of
// Halide's wheel is pinned. Private to codegen/halide; thread-safe.

#include <Halide.h>

#include <string>

#include "base/dtype.h"
#include "schedules/program/affine.h"
#include "schedules/program/program.h"
#include "schedules/program/ranges.h"

namespace tw::codegen::halide {

using dsl::BinaryOp;
using dsl::UnaryOp;
using schedules::Affine;
using schedules::Allocate;
using schedules::Assign;
using schedules::Barrier;
using schedules::Block;
using schedules::Buffer;
using schedules::Combine;
using schedules::Commit;
using schedules::Expr;
using schedules::If;
using schedules::Loop;
using schedules::LoopKind;
using schedules::Phase;
using schedules::PrefetchLines;
using schedules::Program;
using schedules::Range;
using schedules::Ranges;
using schedules::Stmt;
using schedules::Wait;
using HExpr = Halide::Expr;
using HStmt = Halide::Internal::Stmt;
namespace hi = Halide::Internal;

inline const Halide::Type index32 = Halide::Int(32), index64 = Halide::Int(64);

/// Returns Halide's type of elements in memory. A Bool is stored as a byte.
Halide::Type storage_type(DType type);

/// Returns Halide's type in which values of these elements are computed.
Halide::Type value_type(DType type);

/// Returns the variable of a pointer, which is a parameter of the generated function or is defined
/// at the top of its body.
HExpr handle_variable(const std::string& name);

}  // namespace tw::codegen::halide
