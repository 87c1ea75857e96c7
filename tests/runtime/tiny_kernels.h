// SPDX-License-Identifier: Apache-2.0
#pragma once
// Kernels for the tests of the runtime, compiled from C by the system's compiler when they are
// asked for, and the directories that they are kept in.

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

/// The bytes of the shared object that `cc -shared -nostdlib` makes of the source.
std::string compile_c(std::string_view source);

/// Canonical text of a target that this machine certainly is: its architecture without features.
std::string plain_target();

/// y = a x for a of {64, 5}: rows into scratch by 64 tasks, then scratch into y by 4 others, so
/// that a missing barrier or a lost task gives a wrong y.
Artifact matvec_artifact();

/// The same for an OpenCL device; and for an NVIDIA GPU, as a cubin without code: a test must give
/// its kernels to the fake driver (fake_cuda.h).
Artifact matvec_for_opencl();
Artifact matvec_for_cuda(const std::string& architecture);
std::map<std::string, FakeKernel> matvec_for_fake_cuda();

/// A matrix, a vector and their product, all of small whole numbers.
struct Matvec {
  std::vector<float> a, x, y;
  static Matvec make();
  /// The arrays of a call, whose y is `to`.
  std::vector<Buffer> arrays(std::vector<float>& to);
};

/// y = 2 x for {3, 5}, both stored as [2][3][4]: the last axis in blocks of 4, padded.
Artifact blocked_artifact();

/// y = x u for {4}, with u = w w + 1 prepared in two phases from the input w, which calls do not
/// read; and the same for an OpenCL device.
Artifact prepared_artifact();
Artifact prepared_for_opencl();

/// One phase that fails with 7 in task 3 of 8.
Artifact failing_artifact();

/// y = x for f32 {4} with `scratch_bytes` of scratch that it does not touch.
Artifact copy_artifact(int64_t scratch_bytes = 0);

}  // namespace tw::runtime
