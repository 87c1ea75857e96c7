// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <new>

namespace tw {

namespace {

/// OpenSSL's implementation; to look it up takes as long as to hash some hundred bytes.
const EVP_MD* implementation() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  // Only memory can be short here.
  const EVP_MD* sha256 = implementation();
  if (!sha256 || !EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, sha256, nullptr))
    throw std::bad_alloc();
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
