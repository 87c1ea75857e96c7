// SPDX-License-Identifier: Apache-2.0
// Settings of sanitizers for reports that are wrong or that blame libraries of others, each with
// its reason. The file is part of every test that is built with sanitizers. The sanitizers call
// these functions by name.

#include <cstdlib>

extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return
      // PoCL and its LLVM never free the memory that they allocate.
      "leak:libpocl\n"
      "leak:libLLVM\n"
      "leak:libclang\n"
      // newlocale of glibc 2.36 never frees the path that it makes from LOCPATH.
      "leak:argz_add_sep\n";
}

// Turns off the part of AddressSanitizer that looks for thread-local variables of loaded libraries.
// If a thread-local address lies 16 bytes into a page, that part takes the 16 bytes before it for a
// header of an old glibc and uses their content as an address. One process in some hundred crashes
// by this after its last test.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "intercept_tls_get_addr=0"; }

#ifdef __SANITIZE_THREAD__
// XGBoost loads a model with several OpenMP threads. GCC's OpenMP library is not instrumented, so
// ThreadSanitizer does not see its barriers and would report races between these threads. XGBoost
// is loaded during a test, and its OpenMP library reads the variable only then.
[[gnu::constructor]] static void use_one_openmp_thread() { setenv("OMP_NUM_THREADS", "1", 0); }
#endif
