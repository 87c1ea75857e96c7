// SPDX-License-Identifier: Apache-2.0
#include "runtime/mapped_file.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace tw::runtime {

Result<MappedFile> MappedFile::map(const PrivateFile& file, const std::string& path) {
  if (file.bytes == 0) return MappedFile();
  const auto bytes = static_cast<size_t>(file.bytes);
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (data == MAP_FAILED) {
    const int code = errno;
    return fail(ErrorCode::Environment, fmt::format("[file] cannot map the {} bytes of '{}': {}",
                                                    bytes, path, std::strerror(code)));
  }
  return MappedFile({static_cast<const char*>(data), bytes});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace tw::runtime
