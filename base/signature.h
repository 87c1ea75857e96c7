// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signatures of texts by Ed25519 (RFC 8032), made by OpenSSL. Keys and signatures are base64 text.
// Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"

namespace tw {

struct SigningKey {
  std::string pem;         ///< the private key (PKCS #8); whoever has it can sign
  std::string public_key;  ///< base64, 44 characters; checks signatures of the private key
};

/// Makes a key from the system's random numbers. Environment: OpenSSL has no Ed25519.
Result<SigningKey> make_signing_key();

/// Reads the `pem` of a SigningKey. Invalid if the text is no private Ed25519 key.
Result<SigningKey> parse_signing_key(std::string_view pem);

/// True if the text has the form of a public key.
bool is_public_key(std::string_view text);

/// Signs a text. Requires: make_signing_key() or parse_signing_key() returned the key.
std::string sign(const SigningKey& key, std::string_view text);

/// True if the signature is that of exactly this text by the private key of `public_key`. False if
/// any argument is malformed.
bool is_signed(std::string_view text, std::string_view signature, std::string_view public_key);

}  // namespace tw
