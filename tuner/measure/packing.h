// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays to the layouts that kernels ask for and back, by the layout's definition and nothing that
// kernels use for it. Free functions; thread-safe.

#include <cstddef>

#include "base/result.h"
#include "dsl/interpret.h"
#include "dsl/layout.h"
#include "dsl/workload.h"
#include "runtime/artifact.h"

namespace tw::tuner {

/// The layout of an argument's storage.
Result<dsl::Layout> layout_of(const runtime::ArgumentInfo& argument, const dsl::Workload& workload);

/// Bytes of the array in that layout.
size_t packed_bytes(const dsl::Layout& layout, const dsl::Array& logical);

/// Writes all of the storage: its padding is zero.
void pack(const dsl::Layout& layout, const dsl::Array& logical, std::byte* storage);

/// Writes all of the array, which has its type and shape.
void unpack(const dsl::Layout& layout, const std::byte* storage, dsl::Array& logical);

}  // namespace tw::tuner
