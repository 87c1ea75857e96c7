/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a kernel y = a x from C: example <artifact> [<device>], or example <artifact> <database>
 * <cache> <workload>. The kernel comes from the artifact file, or, with all four, from the
 * database; a device is "cuda" or "opencl". */
#include <stdio.h>
#include <string.h>

#include "runtime/tilewright.h"

static int fail_with_last_error(const char* what) {
  fprintf(stderr, "%s: %s\n", what, tw_last_error());
  return 1;
}

static int describe(const tw_kernel* kernel) {
  int32_t count = 0;
  if (tw_kernel_argument_count(kernel, &count) != TW_OK) return fail_with_last_error("count");
  for (int32_t i = 0; i < count; ++i) {
    tw_argument argument;
    if (tw_kernel_argument(kernel, i, &argument) != TW_OK) return fail_with_last_error("argument");
    printf("%s %s[", argument.is_output ? "output" : "input", argument.name);
    for (int32_t d = 0; d < argument.rank; ++d)
      printf("%s%lld", d > 0 ? "," : "", (long long)argument.shape[d]);
    printf("]\n");
  }
  return 0;
}

static int call(const tw_kernel* kernel) {
  static float a[64 * 5], x[5], y[64];
  const int64_t a_shape[] = {64, 5}, x_shape[] = {5}, y_shape[] = {64};
  for (int i = 0; i < 64 * 5; ++i) a[i] = (float)(i % 7);
  for (int i = 0; i < 5; ++i) x[i] = (float)i;
  const tw_buffer buffers[] = {{a, TW_FLOAT32, 2, a_shape, NULL},
                               {x, TW_FLOAT32, 1, x_shape, NULL},
                               {y, TW_FLOAT32, 1, y_shape, NULL}};
  if (tw_kernel_call(kernel, buffers, 3, 0) != TW_OK) return fail_with_last_error("call");
  for (int i = 0; i < 64; ++i) {
    float expected = 0;
    for (int j = 0; j < 5; ++j) expected += a[i * 5 + j] * x[j];
    if (y[i] != expected) {
      fprintf(stderr, "y[%d] is %g, expected %g\n", i, y[i], expected);
      return 1;
    }
  }
  printf("y = a x\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3 && argc != 5) {
    fprintf(stderr, "usage: example <artifact> [<device> | <database> <cache> <workload>]\n");
    return 2;
  }
  tw_session* session = NULL;
  tw_kernel* kernel = NULL;
  const int from_database = argc == 5;
  tw_status status = from_database ? tw_session_open(argv[2], argv[3], 2, &session)
                     : argc == 3   ? tw_session_open_device(NULL, NULL, argv[2], &session)
                                   : tw_session_open(NULL, NULL, 2, &session);
  if (status != TW_OK) return fail_with_last_error("open");
  status = from_database ? tw_kernel_get(session, argv[4], &kernel)
                         : tw_kernel_load(session, argv[1], &kernel);
  tw_session_close(session); /* the kernel stays usable */
  if (status != TW_OK) return fail_with_last_error("kernel");
  const int failed = describe(kernel) || call(kernel);
  tw_kernel_release(kernel);
  return failed;
}
