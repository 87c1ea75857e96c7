// SPDX-License-Identifier: Apache-2.0
#pragma once
// Converts arrays to the layouts that kernels ask for and back. The conversion follows the
// definition of a layout and shares no code with kernels. Free functions; thread-safe.

#include <cstddef>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/layout.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"

namespace tw::tuner {

/// Returns the layout in which a kernel expects the argument; row-major if the argument names none.
/// Fails with the errors of dsl::Layout::parse().
Result<dsl::Layout> layout_of(const runtime::ArgumentInfo& argument, const dsl::Workload& workload);

/// Returns the bytes of the array in `layout`, including padding.
size_t packed_bytes(const dsl::Layout& layout, const dsl::Array& logical);

/// Copies the array into `storage` in `layout`, and sets the padding to zero. `storage` has
/// packed_bytes() bytes.
void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage);

/// Copies the elements of `storage`, which is in `layout`, into the row-major array `logical`. The
/// padding is left out. Requires: `logical` already has its type and shape.
void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical);

}  // namespace tw::tuner
