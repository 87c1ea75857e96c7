// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hashes. Those of text are SHA-256 in lower-case hex: the same bytes give the same text on every
// machine, so they may be stored, compared and merged. mix() and scrambled() are for hash tables
// within one process. Thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tw {

/// The SHA-256 of the bytes as 64 hex digits.
std::string sha256_hex(std::string_view bytes);

/// The first 16 hex digits of sha256_hex: long enough to name an artifact, short enough to type.
std::string short_hash(std::string_view bytes);

/// The number whose 16 hex digits short_hash() returns.
uint64_t short_hash_number(std::string_view bytes);

/// Combines the hash `seed` of the preceding values with the hash `value` of the next one. The
/// order matters.
inline size_t mix(size_t seed, size_t value) {
  size_t h = (seed + 0x9e3779b97f4a7c15ull) ^ (value * 0xd6e8feb86659fd93ull);
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93ull;
  return h ^ (h >> 32);
}

/// Spreads a number over all bits: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA'14),
/// which is a bijection.
constexpr uint64_t scrambled(uint64_t value) {
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

}  // namespace tw
