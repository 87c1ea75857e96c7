// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/sha.h>

#include <array>
#include <new>

namespace tw {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  // OpenSSL 3 looks its implementation up for each call; only memory can be short for that.
  if (!SHA256(data, bytes.size(), digest.data())) throw std::bad_alloc();
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const unsigned char byte : digest) {
    hex += digits[byte >> 4];
    hex += digits[byte & 15];
  }
  return hex;
}

std::string short_hash(std::string_view bytes) { return sha256_hex(bytes).substr(0, 16); }

}  // namespace tw
