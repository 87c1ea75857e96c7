// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tests leave out where they are built with sanitizers.

namespace tw {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

/// Built with a sanitizer that has an allocator of its own and shadow memory, which leaves no room
/// for an address space limit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool has_shadow_memory = true;
#else
inline constexpr bool has_shadow_memory = false;
#endif

}  // namespace tw
