// SPDX-License-Identifier: Apache-2.0
// A fake of the runtime library for tests of bench/models/networks.py. Every artifact is a network
// that doubles 4 numbers, except that artifacts whose name begins with "damaged" cannot be opened.
#include <cstring>

#include "runtime/tilewright.h"

struct tw_session {};
struct tw_model {};

namespace {

constexpr int64_t shape[] = {4};
constexpr tw_argument arguments[] = {{"x", "", shape, 1, TW_FLOAT32, 0},
                                     {"y", "", shape, 1, TW_FLOAT32, 1}};

bool is_argument(const tw_buffer& buffer) {
  return buffer.dtype == TW_FLOAT32 && buffer.rank == 1 && buffer.shape[0] == 4 &&
         buffer.strides == nullptr;
}

}  // namespace

const char* tw_version() { return "9.8.7"; }
const char* tw_last_error() { return "[model] the artifact is damaged"; }

tw_status tw_session_open(const char*, const char*, int32_t, tw_session** session) {
  *session = new tw_session;
  return TW_OK;
}

void tw_session_close(tw_session* session) { delete session; }

tw_status tw_model_open(tw_session* session, const char* path, tw_model** model) {
  if (session == nullptr) return TW_USAGE;
  if (std::strncmp(path, "damaged", 7) == 0) return TW_INVALID;
  *model = new tw_model;
  return TW_OK;
}

void tw_model_release(tw_model* model) { delete model; }

tw_status tw_model_argument_count(const tw_model*, int32_t* count) {
  *count = 2;
  return TW_OK;
}

tw_status tw_model_argument(const tw_model*, int32_t index, tw_argument* argument) {
  *argument = arguments[index];
  return TW_OK;
}

tw_status tw_model_call(const tw_model*, const tw_buffer* buffers, int32_t count, int32_t) {
  if (count != 2 || !is_argument(buffers[0]) || !is_argument(buffers[1])) return TW_USAGE;
  const auto* x = static_cast<const float*>(buffers[0].data);
  auto* y = static_cast<float*>(buffers[1].data);
  for (int i = 0; i < 4; ++i) y[i] = 2 * x[i];
  return TW_OK;
}
