// SPDX-License-Identifier: Apache-2.0
#include "db/engine/libpq.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tw::db {
namespace {

// 5 is the version of the library's binary interface, which has not changed since PostgreSQL 8.0.
constexpr const char* libpq_name = "libpq.so.5";

Result<Libpq> open_libpq() {
  Libpq library;
  void* handle = dlopen(libpq_name, RTLD_NOW | RTLD_LOCAL);
  std::string missing = handle ? "" : dlerror();
#define X(name)                                                                    \
  if (handle) {                                                                    \
    library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name)); \
    if (!library.name) missing = #name;                                            \
  }
  TW_LIBPQ_FUNCTIONS(X)
#undef X
#ifdef LIBPQ_HAS_PIPELINING
  library.has_pipeline = handle != nullptr;
#define X(name)                                                                    \
  if (handle) {                                                                    \
    library.name = reinterpret_cast<decltype(library.name)>(dlsym(handle, #name)); \
    library.has_pipeline &= library.name != nullptr;                               \
  }
  TW_LIBPQ_PIPELINE_FUNCTIONS(X)
#undef X
#endif
  if (missing.empty()) return library;
  return fail(ErrorCode::Environment,
              fmt::format("[open] PostgreSQL's client library {} cannot be used ({}); install it "
                          "(Debian: libpq5), or name a file with --db",
                          libpq_name, missing));
}

}  // namespace

Result<const Libpq*> libpq() {
  static const Result<Libpq> library = open_libpq();
  if (!library) return tl::unexpected(library.error());
  return &*library;
}

}  // namespace tw::db
