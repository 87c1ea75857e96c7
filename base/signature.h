// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signs texts with Ed25519 (RFC 8032) and checks signatures, by means of OpenSSL. Public keys and
// signatures are base64 text; private keys are PEM text. Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"

namespace tw {

struct SigningKey {
  std::string pem;         ///< the private key (PKCS #8); whoever has it can sign
  std::string public_key;  ///< base64, 44 characters; checks signatures of the private key
};

/// Makes a key from the system's random numbers. Fails with Environment if this OpenSSL has no
/// Ed25519.
Result<SigningKey> make_signing_key();

/// Reads a private key from PEM text, as SigningKey::pem has it. Fails with Invalid if the text is
/// not an unencrypted private Ed25519 key.
Result<SigningKey> parse_signing_key(std::string_view pem);

/// True if the text has the form of a public key.
bool is_public_key(std::string_view text);

/// Signs a text. Requires: make_signing_key() or parse_signing_key() returned the key.
std::string sign(const SigningKey& key, std::string_view text);

/// True if `signature` was made from exactly this text with the private key that belongs to
/// `public_key`. False if any argument is malformed.
bool is_signed(std::string_view text, std::string_view signature, std::string_view public_key);

}  // namespace tw
