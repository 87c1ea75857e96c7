// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags that say which sanitizer the build has, so that tests can leave out checks that do not work
// with it.

namespace tw {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

/// True in a build with AddressSanitizer or ThreadSanitizer. These have an allocator of their own
/// and reserve so much address space for shadow memory that no address space limit can be set.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool has_shadow_memory = true;
#else
inline constexpr bool has_shadow_memory = false;
#endif

}  // namespace tw
