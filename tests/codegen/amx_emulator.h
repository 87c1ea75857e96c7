// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs instructions of Intel AMX on processors that lack them: each is an illegal instruction
// there, and the handler of its signal computes what it does (Intel 64 and IA-32 Architectures
// Software Developer's Manual, volume 2). So whole kernels for Sapphire Rapids run where the rest
// of their instructions exist. What the manual forbids, as a tile that is not configured, stays an
// illegal instruction. The tile registers are those of the thread.

namespace tw::codegen {

class AmxEmulator {
 public:
  /// Installs the handler for the process. One object at a time.
  AmxEmulator();
  ~AmxEmulator();
  AmxEmulator(const AmxEmulator&) = delete;
  AmxEmulator& operator=(const AmxEmulator&) = delete;

  /// The products of tiles that were computed since the object was made.
  static int products();
};

}  // namespace tw::codegen
