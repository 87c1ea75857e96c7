// SPDX-License-Identifier: Apache-2.0
#pragma once
// Signatures of texts by Ed25519 (RFC 8032), as OpenSSL makes them. Keys and signatures travel as
// base64. Thread-safe.

#include <string>
#include <string_view>

#include "base/result.h"

namespace tw {

struct SigningKey {
  std::string pem;         ///< the private key (PKCS #8); whoever has it can sign
  std::string public_key;  ///< 44 characters, by which signatures are checked
};

/// A new key from the system's random numbers. Environment where OpenSSL has none.
Result<SigningKey> make_signing_key();

/// The key in the text of a file as make_signing_key() gave it; Invalid for anything else.
Result<SigningKey> parse_signing_key(std::string_view pem);

/// True if the text is a public key.
bool is_public_key(std::string_view text);

/// The signature of a text. Requires: a key of the functions above.
std::string sign(const SigningKey& key, std::string_view text);

/// True if the owner of the public key signed exactly this text. Any text may be asked for.
bool is_signed(std::string_view text, std::string_view signature, std::string_view public_key);

}  // namespace tw
