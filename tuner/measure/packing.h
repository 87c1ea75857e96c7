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

/// The layout in which a kernel expects the argument; row-major if the argument names none. Errors:
/// as dsl::Layout::parse().
Result<dsl::Layout> layout_of(const runtime::ArgumentInfo& argument, const dsl::Workload& workload);

/// Bytes that the array takes in `layout`, including padding.
size_t packed_bytes(const dsl::Layout& layout, const dsl::Array& logical);

/// Copies the array into `storage` in `layout`, and sets the padding to zero. `storage` has
/// packed_bytes() bytes.
void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage);

/// Copies `storage`, which is in `layout`, into the row-major array `logical`, whose type and shape
/// are set already.
void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical);

}  // namespace tw::tuner
