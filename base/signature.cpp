// SPDX-License-Identifier: Apache-2.0
#include "base/signature.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <memory>
#include <optional>

namespace tw {
namespace {

constexpr size_t key_bytes = 32, signature_bytes = 64;
constexpr size_t most_pem_bytes = 4096;

struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Memory = std::unique_ptr<BIO, FreeKey>;
using Context = std::unique_ptr<EVP_MD_CTX, FreeKey>;

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

std::string to_base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), as_bytes(bytes),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

/// Decodes a text that to_base64() made of `size` bytes. Returns nullopt for any other text.
std::optional<std::string> from_base64(std::string_view text, size_t size) {
  std::string bytes(3 * (text.size() / 4) + 3, '\0');
  if (text.size() != 4 * ((size + 2) / 3)) return std::nullopt;
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), as_bytes(text),
                                     static_cast<int>(text.size()));
  if (length < static_cast<int>(size)) return std::nullopt;
  bytes.resize(size);
  // Several base64 texts decode to the same bytes. Only the text that to_base64() makes is
  // accepted.
  return to_base64(bytes) == text ? std::optional(bytes) : std::nullopt;
}

std::string public_key_of(EVP_PKEY* key) {
  std::string bytes(key_bytes, '\0');
  size_t size = bytes.size();
  EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(bytes.data()), &size);
  return to_base64(bytes);
}

Key read_private_key(std::string_view pem) {
  const Memory memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  // Without a callback OpenSSL would ask the terminal for the password of an encrypted key.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  return Key(PEM_read_bio_PrivateKey(memory.get(), nullptr, no_password, nullptr));
}

}  // namespace

Result<SigningKey> make_signing_key() {
  const Key key(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  const Memory memory(BIO_new(BIO_s_mem()));
  if (!key || !memory ||
      !PEM_write_bio_PrivateKey(memory.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr))
    return fail(ErrorCode::Environment, "[key] OpenSSL of this machine makes no Ed25519 keys");
  char* text = nullptr;
  const long length = BIO_get_mem_data(memory.get(), &text);
  return SigningKey{std::string(text, static_cast<size_t>(length)), public_key_of(key.get())};
}

Result<SigningKey> parse_signing_key(std::string_view pem) {
  const Key key = pem.size() <= most_pem_bytes ? read_private_key(pem) : nullptr;
  if (!key || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_ED25519)
    return fail(ErrorCode::Invalid,
                "[key] this is no private key of Ed25519 in PEM; `tilewright db key` makes one");
  return SigningKey{std::string(pem), public_key_of(key.get())};
}

bool is_public_key(std::string_view text) { return from_base64(text, key_bytes).has_value(); }

std::string sign(const SigningKey& signing_key, std::string_view text) {
  const Key key = read_private_key(signing_key.pem);
  const Context context(EVP_MD_CTX_new());
  std::string signature(signature_bytes, '\0');
  size_t size = signature.size();
  TW_CHECK(key && context &&
               EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
               EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()),
                              &size, as_bytes(text), text.size()) == 1,
           "the key was checked when it was made");
  return to_base64(signature);
}

bool is_signed(std::string_view text, std::string_view signature, std::string_view public_key) {
  const std::optional<std::string> key = from_base64(public_key, key_bytes);
  const std::optional<std::string> bytes = from_base64(signature, signature_bytes);
  if (!key || !bytes) return false;
  const Key of(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, as_bytes(*key), key->size()));
  const Context context(EVP_MD_CTX_new());
  return of && context &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, of.get()) == 1 &&
         EVP_DigestVerify(context.get(), as_bytes(*bytes), bytes->size(), as_bytes(text),
                          text.size()) == 1;
}

}  // namespace tw
