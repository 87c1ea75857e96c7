// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hashes. The hash of a text is its SHA-256 in lower-case hex; it is the same on every machine, so
// it may be stored in databases and compared with hashes from other machines. mix() and scrambled()
// are for hash tables within one process. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tw {

/// Returns the SHA-256 of the bytes as 64 hex digits.
std::string sha256_hex(std::string_view bytes);

/// Returns the first 16 hex digits of sha256_hex(). They are enough to name an artifact, and few
/// enough to type.
std::string short_hash(std::string_view bytes);

/// Returns the number whose 16 hex digits short_hash() returns.
uint64_t short_hash_number(std::string_view bytes);

/// Adds a value to the hash of a sequence. `seed` is the hash of the values so far, and `value` is
/// the hash of the added value. The result depends on the order of the values.
inline size_t mix(size_t seed, size_t value) {
  size_t h = (seed + 0x9e3779b97f4a7c15ull) ^ (value * 0xd6e8feb86659fd93ull);
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93ull;
  return h ^ (h >> 32);
}

/// Hashes a number so that each bit of the result depends on all bits of `value`. Different numbers
/// give different results. It is the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA'14).
constexpr uint64_t scrambled(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace tw
