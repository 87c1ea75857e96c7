// SPDX-License-Identifier: Apache-2.0
#include "base/signature.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/sha256.h"

namespace tw {
namespace {

TEST(Signature, OnlyTheTextThatWasSignedIs) {
  const SigningKey key = make_signing_key().value(), other = make_signing_key().value();
  const std::string text = "what the team says", signature = sign(key, text);
  EXPECT_TRUE(is_signed(text, signature, key.public_key));
  EXPECT_FALSE(is_signed(text, signature, other.public_key));
  EXPECT_FALSE(is_signed(text + " ", signature, key.public_key));
  EXPECT_FALSE(is_signed("", signature, key.public_key));
  EXPECT_FALSE(is_signed(text, "", key.public_key));
  EXPECT_FALSE(is_signed(text, signature, ""));
  for (size_t i = 0; i < signature.size(); ++i) {
    std::string changed = signature;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(is_signed(text, changed, key.public_key)) << i;
  }
  EXPECT_TRUE(is_signed("", sign(key, ""), key.public_key));
}

TEST(Signature, AKeyIsReadFromItsFile) {
  const SigningKey key = make_signing_key().value();
  EXPECT_EQ(key.public_key.size(), 44u);
  EXPECT_TRUE(is_public_key(key.public_key));
  const SigningKey again = parse_signing_key(key.pem).value();
  EXPECT_EQ(again.public_key, key.public_key);
  EXPECT_TRUE(is_signed("text", sign(again, "text"), key.public_key));
  for (const std::string& text : {std::string(), std::string("key"), key.public_key,
                                  key.pem.substr(0, 40), std::string(100'000, 'x')})
    EXPECT_FALSE(parse_signing_key(text));
  for (const std::string& text :
       {key.public_key + "A", key.public_key.substr(1), std::string(44, '?'), std::string()})
    EXPECT_FALSE(is_public_key(text)) << text;
}

// RFC 8032, section 7.1, test 2.
TEST(Signature, IsThatOfTheStandard) {
  EXPECT_TRUE(is_signed("r",
                        "kqAJqfDUyrhyDoILX2QlQKKye1QWUD+Ps3YiI+vbadoI"
                        "WsHkPhWZbkWPNhPQ8R2MOHsurrQwKu6wDSkWErsMAA==",
                        "PUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw="));
}

TEST(Sha256, OfPiecesIsThatOfTheWhole) {
  Sha256 hash;
  for (const char* piece : {"tile", "", "wright"}) hash.add(piece);
  EXPECT_EQ(hash.hex(), sha256_hex("tilewright"));
  EXPECT_EQ(Sha256().hex(), sha256_hex(""));
}

}  // namespace
}  // namespace tw
