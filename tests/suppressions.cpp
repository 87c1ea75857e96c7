// SPDX-License-Identifier: Apache-2.0
// What sanitizers report wrongly or of libraries that are not ours, with the reason. Part of every
// test that is built with sanitizers, which ask for these lists by name.

#include <cstdlib>

extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return
      // PoCL and its LLVM never free what they made.
      "leak:libpocl\n"
      "leak:libLLVM\n"
      "leak:libclang\n"
      // newlocale of glibc 2.36 never frees the path that it makes of LOCPATH.
      "leak:argz_add_sep\n";
}

// To find thread-local variables of loaded libraries, LeakSanitizer guesses from an address that
// lies 16 bytes into a page what an old glibc kept before it, and then reads whatever stands there
// as an address: one process in some hundred crashes after its last test.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }

#ifdef __SANITIZE_THREAD__
// XGBoost loads a model with several threads of OpenMP. ThreadSanitizer does not see the barriers
// of GCC's OpenMP, whose library is not instrumented, and would report races between these threads.
// The library reads the variable when it is loaded, together with XGBoost, during a test.
[[gnu::constructor]] static void use_one_openmp_thread() { setenv("OMP_NUM_THREADS", "1", 0); }
#endif
