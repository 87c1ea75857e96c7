// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs instructions of Intel AMX on processors that lack them. There, each such instruction raises
// a signal for an illegal instruction, and the signal's handler computes the result (Intel 64 and
// IA-32 Architectures Software Developer's Manual, volume 2). So whole kernels for Sapphire Rapids
// run on processors that have all other instructions of these kernels. An instruction that the
// manual forbids, such as one on a tile that is not configured, stays illegal. Each thread has its
// own tile registers.

namespace tw::codegen {

class AmxEmulator {
 public:
  /// Installs the signal handler for the process. Requires: no other object exists.
  AmxEmulator();
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  /// Returns the number of products of tiles that were computed since the object was made.
  static int products();
};

}  // namespace tw::codegen
