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
 * On a GPU, with the caller's memory and stream:
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
 * Every function that can fail returns a tw_status. If a function fails, it does not write through
 * its result pointers; the output arrays of a failed call have unspecified content. Several threads
 * may use a handle at once, but closing or releasing a handle must be its last use. No function
 * throws an exception. */

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
  TW_NO_CANDIDATE = 6, /* nothing tuned; the message has the command that tunes */
  TW_ENVIRONMENT = 7,  /* out of memory, files, threads */
  TW_NOT_COMPILED = 8, /* tuned, not compiled; the message has the command that compiles. Also: no
                          file has the given path */
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

/* The caller's array for one argument. Strides count elements. */
typedef struct tw_buffer {
  void* data;
  int32_t dtype; /* a tw_dtype */
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* NULL: row-major */
} tw_buffer;

/* Describes an argument of a kernel or of a model. The pointers are valid as long as the kernel or
 * model exists. */
typedef struct tw_argument {
  const char* name;
  const char* layout; /* layout in which a kernel stores it; calls convert to it. "": row-major */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype; /* a tw_dtype */
  int32_t is_output;
} tw_argument;

/* The time of one run of a step of a network, in nanoseconds since the first step began. The name
 * is that of the operator, or "tensor: NCHW -> NCHW16c" for a copy into another layout. The name is
 * valid as long as the model exists. */
typedef struct tw_step_time {
  const char* name;
  int64_t begin_ns;
  int64_t end_ns;
} tw_step_time;

/* tw_version returns the version of the library, "major.minor.patch". tw_runtime_abi returns the
 * newest version of the kernel ABI that the library can run. */
TW_API const char* tw_version(void);
TW_API int32_t tw_runtime_abi(void);

/* Returns the message of the last call that failed on this thread: what was given, what was
 * expected, what to do. The pointer is valid until another call fails on this thread. "" if no call
 * has failed. */
TW_API const char* tw_last_error(void);

/* Opens a session for the processor. `database` is the path of a tuning database, and `cache` the
 * directory of compiled kernels; both may be NULL if the session only loads files. `threads` is the
 * number of threads of the pool that the session's kernels share; 0: as many as the process may
 * use. */
TW_API tw_status tw_session_open(const char* database, const char* cache, int32_t threads,
                                 tw_session** session);
/* Opens a session for a GPU. `device` is "cuda" or "opencl" for the first device of its kind. For
 * other devices the index follows a colon, such as "cuda:1". CUDA's primary context is used. */
TW_API tw_status tw_session_open_device(const char* database, const char* cache, const char* device,
                                        tw_session** session);
/* Writes the device's own queue, a CUstream or a cl_command_queue, to `queue`. With OpenCL, the
 * memory and queues that are passed to calls must belong to the context of this queue. The queue
 * exists as long as the session or any kernel or model of the session. */
TW_API tw_status tw_session_queue(const tw_session* session, void** queue);
/* Closes the session. Its kernels and models stay usable. NULL is ignored. */
TW_API void tw_session_close(tw_session* session);

/* tw_kernel_get returns the best kernel of a workload, which is given by its text key.
 * tw_kernel_load returns the kernel of an artifact file. The kernels run on the session's device,
 * or on the processor if the session has none. The caller releases the kernel. */
TW_API tw_status tw_kernel_get(tw_session* session, const char* workload, tw_kernel** kernel);
TW_API tw_status tw_kernel_load(tw_session* session, const char* artifact_path, tw_kernel** kernel);
TW_API void tw_kernel_release(tw_kernel* kernel); /* NULL is ignored */

TW_API tw_status tw_kernel_argument_count(const tw_kernel* kernel, int32_t* count);
TW_API tw_status tw_kernel_argument(const tw_kernel* kernel, int32_t index, tw_argument* argument);

/* Runs the kernel on one buffer for each argument, inputs first, on at most `threads` threads (0:
 * all threads of the session). An output must not share memory with another buffer. For a GPU's
 * kernel the inputs are copied to the GPU and the outputs back; `threads` is ignored. */
TW_API tw_status tw_kernel_call(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                                int32_t threads);

/* Queues a call of a GPU's kernel on memory of its device, and returns before the kernel has run.
 * Nothing is copied. The `data` of each buffer is a CUdeviceptr or a cl_mem, contiguous and aligned
 * to 16 bytes. `stream` is a CUstream (NULL: CUDA's default stream) or a cl_command_queue that runs
 * in order. The kernel and the buffers must outlive the work. */
TW_API tw_status tw_kernel_call_on(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                                   void* stream);

/* Runs the kernel on tensors of other libraries. `tensors` has a DLTensor* of DLPack for each
 * argument, inputs first: `&managed->dl_tensor` of a DLManagedTensor or DLManagedTensorVersioned.
 * The tensors are borrowed: the caller keeps them until the work has run, and deletes them. Outputs
 * must be writable, which a DLTensor does not state.
 *
 * For a kernel of the processor, tensors must be in the processor's memory or in CUDA's pinned or
 * managed memory. They may have any strides. The kernel runs on all threads of the session, and the
 * function returns when the kernel is done; `stream` is ignored.
 *
 * A GPU's kernel is queued. Its tensors must meet the conditions of tw_kernel_call_on; CUDA's
 * pinned and managed memory is allowed too. `stream` is -1 for the session's own queue, which is
 * not synchronised with any other queue. With CUDA, 1 is the legacy default stream, 2 the default
 * stream of the calling thread, and any larger number the address of a CUstream. With OpenCL the
 * number is the address of a cl_command_queue. 0 is a wrong argument. */
TW_API tw_status tw_kernel_call_dlpack(const tw_kernel* kernel, const void* const* tensors,
                                       int32_t count, int64_t stream);

/* Opens the network of a model file. It runs on the session's device, or on the processor if the
 * session has none. On the processor its weights are mapped from the file. The file must not be
 * changed in place while the model exists, but it may be replaced. On a device the weights are
 * copied to the device. The caller releases the model. Fails with TW_USAGE if the network is for a
 * GPU and the session has none, or if it is for the processor and the session has a GPU. */
TW_API tw_status tw_model_open(tw_session* session, const char* path, tw_model** model);
TW_API void tw_model_release(tw_model* model); /* NULL is ignored */

/* Counts the variants of the model. There is a variant for each set of input shapes for which the
 * model was compiled. The arguments of variants differ only in their shapes. */
TW_API tw_status tw_model_variant_count(const tw_model* model, int32_t* count);

/* These functions count and describe the arguments of the model: the inputs, then the outputs.
 * tw_model_argument describes an argument of variant 0. */
TW_API tw_status tw_model_argument_count(const tw_model* model, int32_t* count);
TW_API tw_status tw_model_argument(const tw_model* model, int32_t index, tw_argument* argument);
TW_API tw_status tw_model_variant_argument(const tw_model* model, int32_t variant, int32_t index,
                                           tw_argument* argument);

/* Runs the network on one buffer for each argument, on at most `threads` threads (0: all threads
 * of the session). The variant for the shapes of the inputs runs. If there is no such variant, the
 * status is TW_USAGE and the message lists the shapes that the model has. An output must not share
 * memory with another buffer. On a device the inputs are copied to the device and the outputs back;
 * `threads` is ignored. */
TW_API tw_status tw_model_call(const tw_model* model, const tw_buffer* buffers, int32_t count,
                               int32_t threads);
/* Queues a call of a network on memory of its device, as tw_kernel_call_on does for a kernel. Calls
 * of one variant on one queue share working memory, which the first of these calls allocates. */
TW_API tw_status tw_model_call_on(const tw_model* model, const tw_buffer* buffers, int32_t count,
                                  void* stream);

/* Runs the network on a DLTensor* of DLPack for each argument, as tw_model_call does on buffers.
 * The tensors must meet the conditions of tw_kernel_call_dlpack for a kernel of the processor. */
TW_API tw_status tw_model_call_dlpack(const tw_model* model, const void* const* tensors,
                                      int32_t count, int32_t threads);

/* Runs the network as tw_model_call does, and reports the time of each run of a step, in order. The
 * first `capacity` runs are written to `steps`, which may be NULL if `capacity` is 0. The number of
 * all runs is written to `step_count`. In each trip of a loop, the loop's steps run once. The times
 * of steps that run side by side overlap. */
TW_API tw_status tw_model_profile(const tw_model* model, const tw_buffer* buffers, int32_t count,
                                  int32_t threads, tw_step_time* steps, int32_t capacity,
                                  int32_t* step_count);

#ifdef __cplusplus
}
#endif
#endif
