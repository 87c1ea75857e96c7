/* SPDX-License-Identifier: Apache-2.0 */
/* To be preloaded: makes the N-th allocation after the program's start fail, N from MALLOC_FAILS_AT. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

static long left; /* allocations until the one that fails; 0: none will */

void* __libc_malloc(size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* __libc_realloc(void* old, size_t size);

/* libcrypto 3.0 dereferences null when its own first initialisation runs out of memory, so one hash is
 * made before the counting begins. */
__attribute__((constructor)) static void begin(void) {
  typedef unsigned char* (*Hash)(const unsigned char*, size_t, unsigned char*);
  unsigned char digest[32];
  const Hash sha256 = (Hash)dlsym(RTLD_DEFAULT, "SHA256");
  if (sha256 != NULL) sha256(digest, 0, digest);
  const char* text = getenv("MALLOC_FAILS_AT");
  left = text != NULL ? atol(text) : 0;
}

static int fails_now(void) {
  return __atomic_load_n(&left, __ATOMIC_RELAXED) > 0 &&
         __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) == 0;
}

void* malloc(size_t size) { return fails_now() ? NULL : __libc_malloc(size); }
void* realloc(void* old, size_t size) { return fails_now() ? NULL : __libc_realloc(old, size); }
void* aligned_alloc(size_t alignment, size_t size) {
  return fails_now() ? NULL : __libc_memalign(alignment, size);
}
