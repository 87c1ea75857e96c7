// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels for tests of the runtime. The system's C compiler compiles them when a test asks for
// them. Also the temporary directories that hold them.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/arguments.h"
#include "runtime/artifact.h"
#include "tests/runtime/fake_cuda.h"

namespace tw::runtime {

/// A private directory of mode 0700 that is removed with its content.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const;

 private:
  std::string path_;
};

std::string read_bytes(const std::string& path);
void write_bytes(const std::string& path, std::string_view bytes);

/// Returns the bytes of the shared object that `cc -shared -nostdlib` makes from the source.
std::string compile_c(std::string_view source);

/// Returns the canonical text of a target that this machine certainly has: its architecture without
/// features.
std::string plain_target();

/// Returns a kernel y = a x, where a has the shape {64, 5}. 64 tasks compute the rows into scratch
/// memory, and 4 tasks copy it to y, so a missing barrier or a lost task gives a wrong y.
Artifact matvec_artifact();

/// These return the kernel of matvec_artifact() for devices. matvec_for_opencl() is in OpenCL C.
/// matvec_for_cuda() is a cubin without code, so a test must give the functions of
/// matvec_for_fake_cuda() to the fake driver (fake_cuda.h).
Artifact matvec_for_opencl();
Artifact matvec_for_cuda(const std::string& architecture);
std::map<std::string, FakeKernel> matvec_for_fake_cuda();

/// A matrix, a vector and their product, all of small whole numbers.
struct Matvec {
  std::vector<float> a, x, y;
  static Matvec make();
  /// Returns the arrays of a call that writes y to `to`.
  std::vector<Buffer> arrays(std::vector<float>& to);
};

/// Returns a kernel y = 2 x for the shape {3, 5}. Both are stored as [2][3][4]: the last axis is in
/// blocks of 4, padded.
Artifact blocked_artifact();

/// Returns a kernel y = x u for the shape {4}. Two phases of its preparation compute u = w w + 1
/// from the input w, which calls do not read. prepared_for_opencl() is the same for an OpenCL
/// device.
Artifact prepared_artifact();
Artifact prepared_for_opencl();

/// Returns a kernel of one phase with 8 tasks, of which task 3 fails with the status 7.
Artifact failing_artifact();

/// Returns a kernel y = x for f32 {4}. It asks for `scratch_bytes` of scratch memory and does not
/// touch them.
Artifact copy_artifact(int64_t scratch_bytes = 0);

}  // namespace tw::runtime
