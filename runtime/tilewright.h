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
 * Every function that can fail returns a tw_status and leaves its outputs untouched on failure.
 * Several threads may use a handle at once; closing or releasing it must be its last use. No
 * function throws an exception. */

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
  TW_NOT_COMPILED = 8, /* tuned, not compiled; the message has the command that compiles. Or there
                          is no file of the given path */
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

/* The caller's array for one argument. Without strides it is row-major; strides count elements. */
typedef struct tw_buffer {
  void* data;
  int32_t dtype; /* a tw_dtype */
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides; /* NULL: contiguous */
} tw_buffer;

/* Describes an argument of a kernel or of a model. The pointers live as long as the kernel or
 * model. */
typedef struct tw_argument {
  const char* name;
  const char* layout; /* storage layout inside a kernel, to which calls convert; "": row-major */
  const int64_t* shape;
  int32_t rank;
  int32_t dtype; /* a tw_dtype */
  int32_t is_output;
} tw_argument;

/* The time of one run of a step of a network, in nanoseconds since the first step began. The name
 * is the operator's, or "tensor: NCHW -> NCHW16c" for a copy into another layout. The name lives as
 * long as the model. */
typedef struct tw_step_time {
  const char* name;
  int64_t begin_ns;
  int64_t end_ns;
} tw_step_time;

/* The version of the library, "major.minor.patch", and the newest version of the kernel ABI that
 * the library runs. */
TW_API const char* tw_version(void);
TW_API int32_t tw_runtime_abi(void);

/* The message of the last call that failed on this thread: what was given, what was expected, what
 * to do. Valid until another call fails on this thread; "" if no call has failed. */
TW_API const char* tw_last_error(void);

/* Opens a session for the processor. `database` is the path of a tuning database, and `cache` the
 * directory of compiled kernels; both may be NULL if the session only loads files. `threads` is the
 * number of threads of the pool that the session's kernels share; 0: as many as the process may
 * use. */
TW_API tw_status tw_session_open(const char* database, const char* cache, int32_t threads,
                                 tw_session** session);
/* Opens a session for a GPU. `device` is "cuda" or "opencl" for the first device of its kind;
 * another device has its number after a colon, such as "cuda:1". CUDA's primary context is used. */
TW_API tw_status tw_session_open_device(const char* database, const char* cache, const char* device,
                                        tw_session** session);
/* Writes the device's own queue, a CUstream or a cl_command_queue, to `queue`. With OpenCL, the
 * memory and queues that are passed to calls must belong to the context of this queue. The queue
 * lives as long as the session or any kernel of the session. */
TW_API tw_status tw_session_queue(const tw_session* session, void** queue);
/* Closes the session. Its kernels and models stay usable. NULL is ignored. */
TW_API void tw_session_close(tw_session* session);

/* tw_kernel_get gives the best kernel of a workload, which is named by its text key; tw_kernel_load
 * gives the kernel of an artifact file. Both run on the session's device, or on the processor if
 * the session has none. The caller releases the kernel. */
TW_API tw_status tw_kernel_get(tw_session* session, const char* workload, tw_kernel** kernel);
TW_API tw_status tw_kernel_load(tw_session* session, const char* artifact_path, tw_kernel** kernel);
TW_API void tw_kernel_release(tw_kernel* kernel); /* NULL is ignored */

TW_API tw_status tw_kernel_argument_count(const tw_kernel* kernel, int32_t* count);
TW_API tw_status tw_kernel_argument(const tw_kernel* kernel, int32_t index, tw_argument* argument);

/* Runs the kernel on one buffer for each argument, inputs first, on at most `threads` threads (0:
 * all of the session's). An output must not share memory with another buffer. For a GPU's kernel
 * the buffers are copied to the GPU and the outputs back; `threads` is ignored. */
TW_API tw_status tw_kernel_call(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                                int32_t threads);

/* Queues a call of a GPU's kernel on memory of its device, and returns before the kernel has run.
 * Nothing is copied. The `data` of each buffer is a CUdeviceptr or a cl_mem, contiguous and aligned
 * to 16 bytes. `stream` is a CUstream (NULL: CUDA's default stream) or a cl_command_queue that runs
 * in order. The kernel and the buffers must outlive the work. */
TW_API tw_status tw_kernel_call_on(const tw_kernel* kernel, const tw_buffer* buffers, int32_t count,
                                   void* stream);

/* Runs the kernel on tensors of other libraries: a DLTensor* of DLPack for each argument, inputs
 * first, which is `&managed->dl_tensor` of a DLManagedTensor or a DLManagedTensorVersioned. The
 * tensors are borrowed: the caller keeps them until the work has run, and deletes them. Outputs
 * must be writable, which a DLTensor does not state.
 *
 * A kernel of the processor takes tensors in the processor's memory and in CUDA's pinned or managed
 * memory, with any strides. It runs on all threads of the session and returns when it is done;
 * `stream` is ignored.
 *
 * A GPU's kernel is queued, and takes the tensors that tw_kernel_call_on takes. `stream` is -1 for
 * the session's own queue, which is synchronised with no other queue. With CUDA, 1 is the legacy
 * default stream, 2 the default stream of the calling thread, and any other number a CUstream. With
 * OpenCL it is a cl_command_queue. 0 is a wrong argument. */
TW_API tw_status tw_kernel_call_dlpack(const tw_kernel* kernel, const void* const* tensors,
                                       int32_t count, int64_t stream);

/* Opens the network of a model file. It runs on the session's device, or on the processor if the
 * session has none. On the processor its weights are mapped from the file, which must not be
 * changed in place while the model lives, but may be replaced. On a device the weights are copied
 * to the device. The caller releases the model. TW_USAGE: the network is for a GPU and the session
 * has none, or it is for the processor and the session has a GPU. */
TW_API tw_status tw_model_open(tw_session* session, const char* path, tw_model** model);
TW_API void tw_model_release(tw_model* model); /* NULL is ignored */

/* Counts the variants of the model: one for each set of input shapes that it was compiled for. The
 * arguments of variants differ only in their shapes. */
TW_API tw_status tw_model_variant_count(const tw_model* model, int32_t* count);

/* The arguments of the model: the inputs, then the outputs. tw_model_argument describes the
 * arguments of variant 0. */
TW_API tw_status tw_model_argument_count(const tw_model* model, int32_t* count);
TW_API tw_status tw_model_argument(const tw_model* model, int32_t index, tw_argument* argument);
TW_API tw_status tw_model_variant_argument(const tw_model* model, int32_t variant, int32_t index,
                                           tw_argument* argument);

/* Runs the network on one buffer for each argument, on at most `threads` threads (0: all of the
 * session's). The variant for the shapes of the inputs runs. If there is none, the status is
 * TW_USAGE and the message lists the shapes that the model has. An output must not share memory
 * with another buffer. On a device the buffers are copied to the device and the outputs back;
 * `threads` is ignored. */
TW_API tw_status tw_model_call(const tw_model* model, const tw_buffer* buffers, int32_t count,
                               int32_t threads);
/* Queues a call of a network on memory of its device, as tw_kernel_call_on does for a kernel. Calls
 * of one variant on one queue share working memory, which the first of these calls allocates. */
TW_API tw_status tw_model_call_on(const tw_model* model, const tw_buffer* buffers, int32_t count,
                                  void* stream);

/* Runs the network on a DLTensor* of DLPack for each argument, as tw_model_call does on buffers.
 * The tensors are those that tw_kernel_call_dlpack takes for a kernel of the processor. */
TW_API tw_status tw_model_call_dlpack(const tw_model* model, const void* const* tensors,
                                      int32_t count, int32_t threads);

/* Runs the network as tw_model_call does, and reports the time of each run of a step, in order. The
 * first `capacity` runs are written to `steps`, which may be NULL if capacity is 0; the number of
 * all runs is written to `step_count`. Each trip of a loop runs the loop's steps once more. The
 * times of steps that run side by side overlap. */
TW_API tw_status tw_model_profile(const tw_model* model, const tw_buffer* buffers, int32_t count,
                                  int32_t threads, tw_step_time* steps, int32_t capacity,
                                  int32_t* step_count);

#ifdef __cplusplus
}
#endif
#endif
