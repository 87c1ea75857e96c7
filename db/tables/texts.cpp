// SPDX-License-Identifier: Apache-2.0
#include "db/tables/texts.h"

#include <zstd.h>

#include <memory>

#include "base/result.h"

namespace tw::db {
namespace {

// The first byte of a blob: the number of the dictionary with which the blob was made.
constexpr char dictionary_number = 1;
// Compression level. With level 3 the packed texts of a trial of a convolution take 218 bytes. With
// level 9 they take 184 bytes, but storing a record takes a quarter more instructions.
constexpr int level = 3;
// Largest size of the unpacked texts. Texts that pass check() are always smaller.
constexpr size_t most_bytes = 4 << 20;

struct Free {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

ZSTD_CCtx* make_compressor() {
  static const ZSTD_CDict* const dictionary =
      ZSTD_createCDict(text_dictionary().data(), text_dictionary().size(), level);
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_dictIDFlag, 0);
  ZSTD_CCtx_refCDict(context, dictionary);
  return context;
}

ZSTD_DCtx* make_decompressor() {
  static const ZSTD_DDict* const dictionary =
      ZSTD_createDDict(text_dictionary().data(), text_dictionary().size());
  ZSTD_DCtx* const context = ZSTD_createDCtx();
  ZSTD_DCtx_refDDict(context, dictionary);
  return context;
}

}  // namespace

std::string packed(std::string_view text) {
  thread_local const std::unique_ptr<ZSTD_CCtx, Free> context(make_compressor());
  std::string blob(1 + ZSTD_compressBound(text.size()), dictionary_number);
  const size_t bytes =
      ZSTD_compress2(context.get(), blob.data() + 1, blob.size() - 1, text.data(), text.size());
  TW_CHECK(!ZSTD_isError(bytes), "the buffer is as large as the library asks for");
  blob.resize(1 + bytes);
  return blob;
}

std::optional<std::string> unpacked(std::string_view blob) {
  if (blob.empty() || blob[0] != dictionary_number) return std::nullopt;
  blob.remove_prefix(1);
  const unsigned long long size = ZSTD_getFrameContentSize(blob.data(), blob.size());
  // Also if the size is unknown, which is reported as a very large number.
  if (size > most_bytes) return std::nullopt;
  thread_local const std::unique_ptr<ZSTD_DCtx, Free> context(make_decompressor());
  std::string text(size, '\0');
  const size_t bytes =
      ZSTD_decompressDCtx(context.get(), text.data(), text.size(), blob.data(), blob.size());
  if (ZSTD_isError(bytes) || bytes != text.size()) return std::nullopt;
  return text;
}

}  // namespace tw::db
