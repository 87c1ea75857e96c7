/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TILEWRIGHT_H
#define TILEWRIGHT_H
/* The C interface of the runtime: kernels from a tuning database or from artifact files, and
 * networks from model files, called on arrays. Link with -ltilewright_runtime.
 *
 *     tw_session* session;
 *     tw_kernel* kernel;
 *     if (tw_session_open("team.db", cache, 0, &session) ||
 *         tw_kernel_get(session, workload, &kernel) ||
 *         tw_kernel_call(kernel, buffers, 3, 0))
 *       fprintf(stderr, "%s\n", tw_last_error());
 *
 * On a GPU, with memory and a stream of the caller's:
 *
 *     if (tw_session_open_device("team.db", cache, "cuda", &session) ||
 *         tw_kernel_get(session, workload, &kernel) ||
 *         tw_kernel_call_on(kernel, buffers, 3, stream))
 *       fprintf(stderr, "%s\n", tw_last_error());
 *
 * A whole network, on the processor:
 *
 *     if (tw_session_open(NULL, NULL, 0, &session) ||
 *         tw_model_open(session, "resnet50.twart", &model) ||
 *         tw_model_call(model, buffers, 2, 0))
 *       fprintf(stderr, "%s\n", tw_last_error());
 *
 * Every function that can fail returns a tw_status and leaves its outputs untouched on failure.
 * Handles may be used by several threads at once; closing one must be its last use. No exception
 * leaves a call. */

#include <stdint.h>

#if defined(__GNUC__)
#define TW_API __attribute__((visibility("default")))
#else
#define TW_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_session tw_session;
typedef struct tw_kernel tw_kernel;
typedef struct tw_model tw_model;

typedef enum tw_status {
  TW_OK = 0,
  TW_INTERNAL = 1,
  TW_USAGE = 2, /* a wrong argument; the message names it */
  TW_UNSUPPORTED = 3,
  TW_DATABASE = 4,
  TW_INVALID = 5,      /* an artifact that is damaged, foreign or for another machine */
  TW_NO_CANDIDATE = 6, /* nothing tuned; the message has the line that tunes */
  TW_ENVIRONMENT = 7,  /* out of memory, files, threads */
  TW_NOT_COMPILED = 8, /* tuned, not compiled; the message has the line that compiles */
  TW_TRY_LATER = 75,
  TW_INTERRUPTED = 130
} tw_status;

typedef enum tw_dtype {
  TW_FLOAT32 = 0,
  TW_FLOAT16 = 1,
  TW_BFLOAT16 = 2,
  TW_INT8 = 3,
  TW_UINT8 = 4,
  TW_INT32 = 5,
  TW_INT64 = 6,
  TW_BOOL = 7,
  TW_FLOAT64 = 8,
  TW_INT16 = 9,
  TW_UINT16 = 10,
  TW_UINT32 = 11
} tw_dtype;

/* An array of the caller's, in logical (row-major) layout unless it has strides, which count
 * elements. */
typedef struct tw_buffer {
  void* data;
  int32_t dtype; /* a tw_dtype */
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* NULL: contiguous */
} tw_buffer;

/* What a kernel or a model expects; the pointers live as long as it. */
typedef struct tw_argument {
  const char* name;
  const char* layout; /* of a kernel's own storage, "" for row-major; callers need not care */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype; /* a tw_dtype */
  int32_t is_output;
} tw_argument;

/* When a step of a network ran, in nanoseconds since the first one began. The name is that of an
 * operator, or "tensor: NCHW -> NCHW16c" for a copy into another layout; it lives as long as the
 * model. */
typedef struct tw_step_time {
  const char* name;
  int64_t begin_ns;
  int64_t end_ns;
} tw_step_time;

/* "major.minor.patch" of the library, and the version of the kernel ABI that it runs. */
TW_API const char* tw_version(void);
TW_API int32_t tw_runtime_abi(void);

/* What went wrong in the last failing call of this thread: what was given, what was expected, what
 * to do. Valid until the next failing call of the thread; "" before the first. */
TW_API const char* tw_last_error(void);

/* database: path of a tuning database, NULL for none. cache: directory of compiled kernels.
 * threads: of the pool that the session's kernels share, 0 for as many as the process may use. */
TW_API tw_status tw_session_open(const char* database, const char* cache, int32_t threads,
                                 tw_session** session);
/* A session whose kernels are those of a GPU: device is "cuda" or "opencl", or with the number of
 * another than the first, "cuda:1". CUDA's primary context is used. */
TW_API tw_status tw_session_open_device(const char* database, const char* cache, const char* device,
                                        tw_session** session);
/* The device's own queue, as a CUstream or a cl_command_queue: of OpenCL, memory and queues that
 * calls are given have to be of its context. It lives as long as the session or a kernel of it. */
TW_API tw_status tw_session_queue(const tw_session* session, void** queue);
/* Kernels stay usable. NULL is ignored. */
TW_API void tw_session_close(tw_session* session);

/* The best kernel of a workload, by its text key; or that of an artifact file. It runs where the
 * session does, on the processor or on its device. Release both. */
TW_API tw_status tw_kernel_get(tw_session* session, const char* workload, tw_kernel** kernel);
TW_API tw_status tw_kernel_load(tw_session* session, const char* artifact_path, tw_kernel** kernel);
TW_API void tw_kernel_release(tw_kernel* kernel); /* NULL is ignored */

TW_API tw_status tw_kernel_argument_count(const tw_kernel* kernel, int32_t* count);
TW_API tw_status tw_kernel_argument(const tw_kernel* kernel, int32_t index, tw_argument* argument);

/* Runs the kernel on one buffer for each argument, inputs first, on at most `threads` threads (0:
 * all of the session's). An output must not share memory with another buffer. A kernel of a GPU
 * copies the buffers there and the outputs back; `threads` means nothing to it. */
TW_API tw_status tw_kernel_call(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                                int32_t threads);

/* Queues a call of a GPU's kernel on memory of its device, and returns before it has run. `data` is
 * a CUdeviceptr or a cl_mem, contiguous and aligned to 16 bytes; nothing is copied. `stream` is a
 * CUstream (NULL: CUDA's default stream) or a cl_command_queue that runs in order. The kernel and
 * the buffers have to outlive the work. */
TW_API tw_status tw_kernel_call_on(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                                   void* stream);

/* The same on tensors of other libraries: a DLTensor* of DLPack for each argument, inputs first,
 * which is `&managed->dl_tensor` of a DLManagedTensor or a DLManagedTensorVersioned. They are
 * borrowed: the caller keeps them until the work has run, and deletes them. Outputs have to be
 * writable: a DLTensor does not say.
 * A kernel of the processor takes its memory and what CUDA pinned or manages, with any strides; it
 * runs on all threads of the session and returns when it is done; `stream` means nothing to it.
 * A GPU's kernel takes what tw_kernel_call_on takes, on `stream`: of CUDA 1 (the legacy default
 * stream), 2 (the calling thread's own) or a CUstream; of OpenCL a cl_command_queue; or -1, the
 * session's own queue, synchronised with no other. */
TW_API tw_status tw_kernel_call_dlpack(const tw_kernel* kernel, const void* const* tensors,
                                       int32_t count, int64_t stream);

/* The network of a model file, which runs where the session does. On the processor its weights are
 * mapped from the file, which must not be changed in place while the model lives; it may be
 * replaced. On a device they are copied there. Release it. TW_USAGE: the network is for a GPU and
 * the session has none, or for the processor and the session has one. */
TW_API tw_status tw_model_open(tw_session* session, const char* path, tw_model** model);
TW_API void tw_model_release(tw_model* model); /* NULL is ignored */

/* A model has a variant for each set of input shapes that it was compiled for; their arguments
 * differ in their shapes alone. */
TW_API tw_status tw_model_variant_count(const tw_model* model, int32_t* count);

/* Inputs, then outputs. tw_model_argument describes those of variant 0. */
TW_API tw_status tw_model_argument_count(const tw_model* model, int32_t* count);
TW_API tw_status tw_model_argument(const tw_model* model, int32_t index, tw_argument* argument);
TW_API tw_status tw_model_variant_argument(const tw_model* model, int32_t variant, int32_t index,
                                           tw_argument* argument);

/* Runs the network on one buffer for each argument, on at most `threads` threads (0: all of the
 * session's). The shapes of the inputs choose the variant; TW_USAGE lists those that there are.
 * An output must not share memory with another buffer. On a device the buffers are copied there
 * and the outputs back; `threads` means nothing to it. */
TW_API tw_status tw_model_call(const tw_model* model, const tw_buffer* buffers, int32_t count,
                               int32_t threads);
/* Queues a call of a network on memory of its device, as tw_kernel_call_on does for a kernel. Calls
 * of one variant on one queue share its working memory, which the first of them allocates. */
TW_API tw_status tw_model_call_on(const tw_model* model, const tw_buffer* buffers, int32_t count,
                                  void* stream);

/* The same on a DLTensor* of DLPack for each argument, as tw_kernel_call_dlpack takes them for a
 * kernel of the processor. */
TW_API tw_status tw_model_call_dlpack(const tw_model* model, const void* const* tensors,
                                      int32_t count, int32_t threads);

/* The same as tw_model_call, and says when each step of the network ran: the first `capacity` steps
 * in `steps`, which may be NULL if capacity is 0, and in `step_count` how many ran. The steps of a
 * loop run once for each trip. The times of steps that run side by side overlap. */
TW_API tw_status tw_model_profile(const tw_model* model, const tw_buffer* buffers, int32_t count,
                                  int32_t threads, tw_step_time* steps, int32_t capacity,
                                  int32_t* step_count);

#ifdef __cplusplus
}
#endif
#endif
