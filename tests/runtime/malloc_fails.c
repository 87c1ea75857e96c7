/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: makes the N-th allocation of the process fail, N from MALLOC_FAILS_AT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

static int fails_now(void) {
  static long left = -1;
  if (left < 0) {
    const char* text = getenv("MALLOC_FAILS_AT");
    left = text != NULL ? atol(text) : 0;
  }
  return __atomic_load_n(&left, __ATOMIC_RELAXED) > 0 &&
         __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) == 0;
}

void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* __libc_realloc(void* old, size_t size);

void* malloc(size_t size) { return fails_now() ? NULL : __libc_malloc(size); }
void* realloc(void* old, size_t size) { return fails_now() ? NULL : __libc_realloc(old, size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return fails_now() ? NULL : __libc_memalign(alignment, size);
}
