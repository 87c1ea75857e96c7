// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tw::tuner {

/// Number of candidates in one round of a search, unless the caller asks for another number.
inline constexpr int usual_batch_size = 8;

}  // namespace tw::tuner
