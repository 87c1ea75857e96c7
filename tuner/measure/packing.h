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

/// The layout of an argument in memory.
Result<dsl::Layout> layout_of(const runtime::ArgumentInfo& argument, const dsl::Workload& workload);

/// Size of the array in that layout, in bytes.
size_t packed_bytes(const dsl::Layout& layout, const dsl::Array& logical);

/// Packs the array into `storage`. Padding is set to zero.
void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage);

/// Unpacks `storage` into the array, whose type and shape are already set.
void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical);

}  // namespace tw::tuner
