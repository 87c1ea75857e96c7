// SPDX-License-Identifier: Apache-2.0
#pragma once
// SHA-256 of data that arrives in pieces, such as a file that is being downloaded. For text in
// memory use sha256_hex() (hash.h). Not thread-safe.

#include <memory>
#include <string>
#include <string_view>

namespace tw {

class Sha256 {
 public:
  Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void add(std::string_view bytes);
  /// Returns the hash of all bytes added, as 64 hex digits. After hex(), neither add() nor hex()
  /// may be called.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tw
