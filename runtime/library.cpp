// SPDX-License-Identifier: Apache-2.0
#include "runtime/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

#ifndef MFD_EXEC  // Linux 6.3
#define MFD_EXEC 0x0010U
#endif

namespace tw::runtime {
namespace {

// Linux with vm.memfd_noexec requires the flag MFD_EXEC. Older versions do not know the flag and
// fail with EINVAL; then the call is repeated without it.
Descriptor memory_file() {
  const int descriptor = memfd_create("tilewright-kernel", MFD_CLOEXEC | MFD_EXEC);
  if (descriptor >= 0 || errno != EINVAL) return Descriptor(descriptor);
  return Descriptor(memfd_create("tilewright-kernel", MFD_CLOEXEC));
}

// Creates a file and removes its name at once, before anything is written. So only the descriptor
// gives access to the file.
Descriptor nameless_file(const std::string& directory) {
  std::string path = directory + "/tilewright-XXXXXX";
  Descriptor file(mkostemp(path.data(), O_CLOEXEC));
  if (file) unlink(path.c_str());
  return file;
}

Result<void*> open_object(const Descriptor& file, std::string_view object) {
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  TW_RETURN_IF_ERROR(write_all(file.get(), path, object));
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ErrorCode::Invalid, dlerror());
  return handle;
}

}  // namespace

// The descriptor stays open while the object is loaded. dlopen() identifies objects by their path,
// /proc/self/fd/N. If the descriptor were closed, a later file with the same N would be taken for
// this object.
Library::Library(Library&& other) noexcept
    : file_(std::move(other.file_)), handle_(std::exchange(other.handle_, nullptr)) {}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(handle_, other.handle_);
  return *this;
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

Result<Library> Library::load(std::string_view object, const LoadOptions& options) {
  if (object.substr(0, 4) != "\177ELF")
    return fail(ErrorCode::Invalid,
                "[library] the object is no ELF file: expected a shared object");
  std::vector<std::string> places = options.directories;
  if (options.in_memory) places.insert(places.begin(), "");
  std::vector<std::string> attempts;
  ErrorCode code = ErrorCode::Environment;
  for (const std::string& place : places) {
    Descriptor file = place.empty() ? memory_file() : nameless_file(place);
    const std::string name = place.empty() ? "memory" : place;
    if (!file) {
      attempts.push_back(fmt::format("{}: {}", name, std::strerror(errno)));
      continue;
    }
    const auto handle = open_object(file, object);
    if (handle) return Library(std::move(file), *handle);
    attempts.push_back(fmt::format("{}: {}", name, handle.error().message));
    code = handle.error().code;
  }
  return fail(code,
              fmt::format("[library] cannot load the object ({}): expected a directory that may "
                          "hold executable files, or a valid object",
                          join(attempts, "; ")));
}

Result<void*> Library::symbol(const std::string& name) const {
  void* address = dlsym(handle_, name.c_str());
  if (address == nullptr)
    return fail(ErrorCode::Invalid, fmt::format("[library] the object exports no '{}'", name));
  return address;
}

}  // namespace tw::runtime
