// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "base/text.h"

namespace tw {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (!state_->context || !EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr))
    throw std::bad_alloc();
}

Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  if (!EVP_DigestUpdate(state_->context, bytes.data(), bytes.size())) throw std::bad_alloc();
}

std::string Sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (!EVP_DigestFinal_ex(state_->context, digest.data(), &size)) throw std::bad_alloc();
  return hex_of_bytes({reinterpret_cast<const char*>(digest.data()), size});
}

}  // namespace tw
