// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags by which tests leave out what they cannot check in a build with sanitizers.

namespace tw {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

/// True in a build with a sanitizer that has an allocator of its own and shadow memory, which
/// leaves no room for an address space limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool has_shadow_memory = true;
#else
inline constexpr bool has_shadow_memory = false;
#endif

}  // namespace tw
