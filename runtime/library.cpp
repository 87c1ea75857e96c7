// SPDX-License-Identifier: Apache-2.0
#include "runtime/library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "runtime/descriptor.h"

#ifndef MFD_EXEC  // Linux 6.3
#define MFD_EXEC 0x0010U
#endif

namespace tw::runtime {
namespace {

// Creates a file in memory. Linux with vm.memfd_noexec requires the flag MFD_EXEC. Older versions
// of Linux do not know the flag and fail with EINVAL. Then the call is repeated without the flag.
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

// Returns a path of the open file that no other call returns. If dlopen() gets a path that it has
// loaded before, it returns the old object. But a new file may get the number of a descriptor that
// was closed. So the path also has the number of this call, in binary: "./" is 1, "/" is 0. Neither
// changes the meaning of the path.
std::string unique_path(const Descriptor& file) {
  static std::atomic<uint64_t> calls{0};
  std::string path = "/proc/self/fd/";
  for (uint64_t digits = ++calls; digits > 0; digits /= 2) path += digits % 2 == 1 ? "./" : "/";
  return path + std::to_string(file.get());
}

// True if dlopen() failed because there are no descriptors or no memory left. dlopen() does not set
// errno, but its message ends with the text of the error of the system.
bool ran_out(std::string_view message) {
  constexpr std::array codes = {EMFILE, ENFILE, ENOMEM};
  return std::ranges::any_of(codes, [&](int code) { return message.ends_with(strerror(code)); });
}

Result<void*> open_object(const Descriptor& file, std::string_view object) {
  const std::string path = unique_path(file);
  TW_RETURN_IF_ERROR(write_all(file.get(), path, object));
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  const std::string message = dlerror();
  return fail(ran_out(message) ? ErrorCode::Environment : ErrorCode::Invalid, message);
}

}  // namespace

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
    const Descriptor file = place.empty() ? memory_file() : nameless_file(place);
    const std::string name = place.empty() ? "memory" : place;
    if (!file) {
      attempts.push_back(fmt::format("{}: {}", name, std::strerror(errno)));
      continue;
    }
    const auto handle = open_object(file, object);
    if (handle) return Library(*handle);
    attempts.push_back(fmt::format("{}: {}", name, handle.error().message));
    code = handle.error().code;
  }
  return fail(
      code, fmt::format("[library] cannot load the object ({}): expected a valid object, free file "
                        "descriptors and memory, and a directory that may hold executable files",
                        join(attempts, "; ")));
}

Result<void*> Library::symbol(const std::string& name) const {
  void* address = dlsym(handle_, name.c_str());
  if (address == nullptr)
    return fail(ErrorCode::Invalid, fmt::format("[library] the object exports no '{}'", name));
  return address;
}

}  // namespace tw::runtime
