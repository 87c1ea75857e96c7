/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a network y = x w, with weights w = {1, 2, 3, 4}, from C: network_example <model file>. */
#include <stdio.h>

#include "runtime/tilewright.h"

static int fail_with_last_error(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tw_last_error());
  return 1;
}

static int describe(const tw_model* model) {
  int32_t count = 0;
  if (tw_model_argument_count(model, &count) != TW_OK) return fail_with_last_error("count");
  for (int32_t i = 0; i < count; ++i) {
    tw_argument argument;
    if (tw_model_argument(model, i, &argument) != TW_OK) return fail_with_last_error("argument");
    printf("%s %s[", argument.is_output ? "output" : "input", argument.name);
    for (int32_t d = 0; d < argument.rank; ++d)
      printf("%s%lld", d > 0 ? "," : "", (long long)argument.shape[d]);
    printf("]\n");
  }
  return 0;
}

static int call(const tw_model* model) {
  float x[4] = {5, 6, 7, 8}, y[4];
  const int64_t shape[] = {4};
  const tw_buffer buffers[] = {{x, TW_FLOAT32, 1, shape, NULL}, {y, TW_FLOAT32, 1, shape, NULL}};
  if (tw_model_call(model, buffers, 2, 0) != TW_OK) return fail_with_last_error("call");
  for (int i = 0; i < 4; ++i) {
    if (y[i] == x[i] * (float)(i + 1)) continue;
    fprintf(stderr, "y[%d] is %g, expected %g\n", i, y[i], x[i] * (float)(i + 1));
    return 1;
  }
  printf("y = x w\n");
  return 0;
}

int main(int argc, char** argv) {
  tw_session* session = NULL;
  tw_model* model = NULL;
  if (argc != 2) {
    fprintf(stderr, "usage: network_example <model file>\n");
    return 2;
  }
  if (tw_session_open(NULL, NULL, 2, &session) != TW_OK) return fail_with_last_error("open");
  const tw_status status = tw_model_open(session, argv[1], &model);
  tw_session_close(session); /* the model stays usable */
  if (status != TW_OK) return fail_with_last_error("model");
  const int failed = describe(model) || call(model);
  tw_model_release(model);
  return failed;
}
