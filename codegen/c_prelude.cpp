// SPDX-License-Identifier: Apache-2.0
#include "codegen/c_prelude.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace tw::codegen {
namespace {

// Each function comes after the functions that it calls.
constexpr PreludeFunction functions[] = {
    {"tw_floor_div", R"(static inline int64_t tw_floor_div(int64_t a, int64_t b) {
  return a / b - (a % b < 0);
}
)"},
    {"tw_floor_mod", R"(static inline int64_t tw_floor_mod(int64_t a, int64_t b) {
  return a % b + (a % b < 0 ? b : 0);
}
)"},
    {"tw_div", R"(static inline int64_t tw_div(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
)"},
    {"tw_mod", R"(static inline int64_t tw_mod(int64_t a, int64_t b) {
  if (b == 0 || b == -1) return 0;
  return a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);
}
)"},
    {"tw_min", R"(static inline int64_t tw_min(int64_t a, int64_t b) { return a < b ? a : b; }
)"},
    {"tw_max", R"(static inline int64_t tw_max(int64_t a, int64_t b) { return a > b ? a : b; }
)"},
    {"tw_abs", R"(static inline int64_t tw_abs(int64_t a) {
  return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
}
)"},
    {"tw_to_odd",
     R"(/* A float that rounds to 16 bits as the double would: bits that are lost set the last one. */
static inline float tw_to_odd(double value) {
  uint64_t bits, lost = ((uint64_t)1 << 39) - 1;
  memcpy(&bits, &value, sizeof bits);
  bits = (bits & ~lost) | (bits & lost ? lost + 1 : 0);
  memcpy(&value, &bits, sizeof bits);
  return (float)value;
}
)"},
    {"tw_whole_to_odd",
     R"(/* Rounds to odd: bits that are lost set the last one. Rounding the result to 16 bits then gives
   the same as rounding the integer. */
static inline float tw_whole_to_odd(int64_t value) {
  uint64_t bits = value < 0 ? 0 - (uint64_t)value : (uint64_t)value, lost = 0;
  float unit = value < 0 ? -1.0f : 1.0f;
  for (; bits >> 24; bits >>= 1, unit *= 2.0f) lost |= bits & 1;
  return (float)(bits | lost) * unit;
}
)"},
    {"tw_from_bf16", R"(static inline float tw_from_bf16(uint16_t half) {
  uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
)"},
    {"tw_to_bf16", R"(static inline uint16_t tw_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value) return (uint16_t)((bits >> 16) | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
)"},
    {"tw_from_f16", R"(static inline float tw_from_f16(uint16_t half) {
  uint32_t exponent = (half >> 10) & 31, fraction = half & 0x3ff;
  float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                    : exponent     ? ldexpf((float)(fraction | 0x400), (int)exponent - 25)
                                   : ldexpf((float)fraction, -24);
  return half & 0x8000 ? -magnitude : magnitude;
}
)"},
    {"tw_to_f16", R"(static inline uint16_t tw_to_f16(float value) {
  uint32_t bits, sign, magnitude, shift, kept, rest;
  memcpy(&bits, &value, sizeof bits);
  sign = (bits >> 16) & 0x8000;
  magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);  /* NaN */
  if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
  if (magnitude < 0x33000000) return (uint16_t)sign;             /* rounds to zero */
  if (magnitude >= 0x38800000) {
    magnitude -= 0x38000000; /* the exponent's bias, 127 to 15 */
    shift = 13;
  } else {
    shift = 126 - (magnitude >> 23); /* a result without leading one */
    magnitude = (magnitude & 0x7fffff) | 0x800000;
  }
  kept = magnitude >> shift;
  rest = magnitude & ((1u << shift) - 1);
  kept += rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (kept & 1));
  return (uint16_t)(sign | kept);
}
)"},
    {"tw_to_i64", R"(static inline int64_t tw_to_i64(double v) {
  if (v != v) return 0;
  if (v <= -9223372036854775808.0) return INT64_MIN;
  return v >= 9223372036854775808.0 ? INT64_MAX : (int64_t)v;
}
)"},
    {"tw_to_i32", R"(static inline int32_t tw_to_i32(double v) {
  if (v != v) return 0;
  return v <= -2147483648.0 ? INT32_MIN : v >= 2147483647.0 ? INT32_MAX : (int32_t)v;
}
)"},
    {"tw_to_u32", R"(static inline uint32_t tw_to_u32(double v) {
  if (v != v) return 0;
  return v <= 0.0 ? 0 : v >= 4294967295.0 ? UINT32_MAX : (uint32_t)v;
}
)"},
    {"tw_to_i16", R"(static inline int16_t tw_to_i16(double v) {
  if (v != v) return 0;
  return v <= -32768.0 ? INT16_MIN : v >= 32767.0 ? INT16_MAX : (int16_t)v;
}
)"},
    {"tw_to_u16", R"(static inline uint16_t tw_to_u16(double v) {
  if (v != v) return 0;
  return v <= 0.0 ? 0 : v >= 65535.0 ? UINT16_MAX : (uint16_t)v;
}
)"},
    {"tw_to_i8", R"(static inline int8_t tw_to_i8(double v) {
  if (v != v) return 0;
  return v <= -128.0 ? -128 : v >= 127.0 ? 127 : (int8_t)v;
}
)"},
    {"tw_to_u8", R"(static inline uint8_t tw_to_u8(double v) {
  if (v != v) return 0;
  return v <= 0.0 ? 0 : v >= 255.0 ? 255 : (uint8_t)v;
}
)"},
    {"tw_to_bool", R"(static inline uint8_t tw_to_bool(double v) { return v == v && v != 0.0; }
)"},
};

constexpr std::string_view keywords[] = {
    "alignas",    "alignof",   "and",       "asm",       "auto",      "bool",      "break",
    "buffers",    "case",      "catch",     "char",      "class",     "const",     "constexpr",
    "continue",   "cos",       "cosf",      "default",   "delete",    "do",        "double",
    "else",       "enum",      "erf",       "erff",      "exp",       "expf",      "explicit",
    "export",     "extern",    "fabs",      "fabsf",     "false",     "float",     "floor",
    "floorf",     "fmax",      "fmaxf",     "fmin",      "fminf",     "for",       "friend",
    "goto",       "if",        "inline",    "int",       "int16_t",   "int32_t",   "int64_t",
    "int8_t",     "ldexpf",    "log",       "logf",      "long",      "memcpy",    "mutable",
    "namespace",  "new",       "not",       "operator",  "or",        "pow",       "powf",
    "private",    "protected", "public",    "register",  "restrict",  "return",    "rint",
    "rintf",      "scratch",   "short",     "signed",    "sin",       "sinf",      "sizeof",
    "sqrt",       "sqrtf",     "static",    "struct",    "switch",    "tanh",      "tanhf",
    "task",       "template",  "this",      "throw",     "true",      "try",       "typedef",
    "typename",   "uint16_t",  "uint32_t",  "uint64_t",  "uint8_t",   "union",     "unsigned",
    "using",      "virtual",   "void",      "volatile",  "while",     "xor",       "INFINITY",
    "INT16_MAX",  "INT16_MIN", "INT32_MAX", "INT32_MIN", "INT64_MAX", "INT64_MIN", "NAN",
    "UINT16_MAX", "UINT32_MAX"};

}  // namespace

std::string_view c_head() {
  return R"(#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#define TW_EXPORT extern "C"
#define TW_ALIGNED alignas(64)
#else
#define TW_EXPORT
#define TW_ALIGNED _Alignas(64)
#endif

)";
}

std::string c_functions_for(std::string_view body) {
  std::string text;
  for (size_t i = std::size(functions); i > 0; --i) {
    const PreludeFunction& function = functions[i - 1];
    const std::string call = std::string(function.name) + "(";
    if (body.find(call) != std::string_view::npos || text.find(call) != std::string::npos)
      text.insert(0, function.text);
  }
  return text.empty() ? text : text + "\n";
}

bool is_reserved_in_c(std::string_view word) {
  return std::find(std::begin(keywords), std::end(keywords), word) != std::end(keywords) ||
         word.substr(0, 3) == "tw_" || word.substr(0, 3) == "TW_";
}

}  // namespace tw::codegen
