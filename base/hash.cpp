// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <array>
#include <memory>
#include <new>

#include "base/text.h"

namespace tw {

namespace {

/// Returns OpenSSL's implementation of SHA-256. It is looked up once, because a look-up takes as
/// long as hashing a few hundred bytes.
const EVP_MD* implementation() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

/// Returns the hashing context of this thread. It is reused because making a context takes as long
/// as hashing a few hundred bytes.
EVP_MD_CTX* context() {
  static thread_local const std::unique_ptr<EVP_MD_CTX, FreeContext> own(EVP_MD_CTX_new());
  return own.get();
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  EVP_MD_CTX* const hashing = context();
  // These calls fail only if there is no memory.
  if (!hashing || !EVP_DigestInit_ex2(hashing, implementation(), nullptr) ||
      !EVP_DigestUpdate(hashing, bytes.data(), bytes.size()) ||
      !EVP_DigestFinal_ex(hashing, digest.data(), nullptr))
    throw std::bad_alloc();
  return hex_of_bytes({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string short_hash(std::string_view bytes) { return sha256_hex(bytes).substr(0, 16); }

uint64_t short_hash_number(std::string_view bytes) {
  return std::stoull(short_hash(bytes), nullptr, 16);
}

}  // namespace tw
