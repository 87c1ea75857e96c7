/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for libnvrtc.so.13: of CUDA 13.9, for sm_90, and gives any text the same "binary". */
#include <stdlib.h>
#include <string.h>

static const char binary[] = "\177ELF and nothing more";

const char* nvrtcGetErrorString(int code) { return code == 0 ? "success" : "failure"; }
int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 9;
  return 0;
}
int nvrtcGetNumSupportedArchs(int* count) {
  *count = 1;
  return 0;
}
int nvrtcGetSupportedArchs(int* numbers) {
  *numbers = 90;
  return 0;
}
int nvrtcCreateProgram(void** program, const char* text, const char* name, int headers,
                       const char* const* contents, const char* const* names) {
  (void)text, (void)name, (void)headers, (void)contents, (void)names;
  *program = malloc(1);
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  free(*program);
  return 0;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  (void)program, (void)count, (void)options;
  return 0;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  (void)program;
  *bytes = sizeof binary;
  return 0;
}
int nvrtcGetCUBIN(void* program, char* to) {
  (void)program;
  memcpy(to, binary, sizeof binary);
  return 0;
}
int nvrtcGetPTXSize(void* program, size_t* bytes) {
  (void)program;
  *bytes = 1;
  return 0;
}
int nvrtcGetPTX(void* program, char* to) {
  (void)program;
  *to = 0;
  return 0;
}
int nvrtcGetProgramLogSize(void* program, size_t* bytes) { return nvrtcGetPTXSize(program, bytes); }
int nvrtcGetProgramLog(void* program, char* to) { return nvrtcGetPTX(program, to); }
