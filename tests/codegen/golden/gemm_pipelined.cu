#ifndef TW_HOST_TWIN
template <int bytes>
static __device__ inline void tw_copy_async(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(bytes)
                 : "memory");
#else
  struct alignas(bytes) Words {
    int words[bytes / 4];
  };
  *(Words*)to = *(const Words*)from;
#endif
}
template <int bytes>
static __device__ inline void tw_copy_async(void* to, const void* from, bool exists) {
#if __CUDA_ARCH__ >= 800
  const unsigned at = (unsigned)__cvta_generic_to_shared(to), read = exists ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(bytes),
                 "r"(read)
                 : "memory");
#else
  struct alignas(bytes) Words {
    int words[bytes / 4];
  };
  *(Words*)to = exists ? *(const Words*)from : Words{};
#endif
}
static __device__ inline void tw_commit() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int pending>
static __device__ inline void tw_wait() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}
#endif

// c: 4 blocks x 256 threads
extern "C" __global__ void __launch_bounds__(256, 1)
k_p0(const float* __restrict__ a, const float* __restrict__ b, float* c, unsigned char* scratch) {
  __shared__ __align__(16) float a_c[864];
  __shared__ __align__(16) float b_c[1536];
  const int block = blockIdx.x;
  const int thread = threadIdx.x;
  const int m_0 = block / 2;
  const int n_0 = block % 2;
  __align__(16) float c_acc[8];
  #pragma unroll
  for (int m_1_1 = 0; m_1_1 < 2; ++m_1_1) {
    *(float4*)&c_acc[m_1_1 * 4] = {};
  }
  #pragma unroll 1
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    {
      const int a_c_m_1_0_m_1_1_k_1 = thread;
      tw_copy_async<4>(&a_c[(k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8) * 36 + a_c_m_1_0_m_1_1_k_1 / 8], &a[(m_0 * 32 + a_c_m_1_0_m_1_1_k_1 / 8) * 30 + k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8]);
    }
    if (thread < 128) {
      const int b_c_k_1_n_1_0 = thread;
      tw_copy_async<16>(&b_c[((k_0 * 8 + b_c_k_1_n_1_0 / 16) * 16 + b_c_k_1_n_1_0 % 16) * 4], &b[(k_0 * 8 + b_c_k_1_n_1_0 / 16) * 128 + n_0 * 64 + b_c_k_1_n_1_0 % 16 * 4]);
    }
    tw_commit();
  }
  #pragma unroll 1
  for (int k_0 = 0, slot_of_k_0 = 0; k_0 < 4; ++k_0, slot_of_k_0 = slot_of_k_0 == 2 ? 0 : slot_of_k_0 + 1) {
    tw_wait<1>();
    __syncthreads();
    if (k_0 + 2 < 4) {
      {
        const int a_c_m_1_0_m_1_1_k_1 = thread;
        tw_copy_async<4>(&a_c[((k_0 + 2) % 3 * 8 + a_c_m_1_0_m_1_1_k_1 % 8) * 36 + a_c_m_1_0_m_1_1_k_1 / 8], &a[(m_0 * 32 + a_c_m_1_0_m_1_1_k_1 / 8) * 30 + k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8 + 16], k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8 + 16 < 30);
      }
      if (thread < 128) {
        const int b_c_k_1_n_1_0 = thread;
        tw_copy_async<16>(&b_c[(((k_0 + 2) % 3 * 8 + b_c_k_1_n_1_0 / 16) * 16 + b_c_k_1_n_1_0 % 16) * 4], &b[(k_0 * 8 + b_c_k_1_n_1_0 / 16 + 16) * 128 + n_0 * 64 + b_c_k_1_n_1_0 % 16 * 4], k_0 * 8 + b_c_k_1_n_1_0 / 16 + 16 < 30);
      }
    }
    tw_commit();
    {
      const int m_1_0 = thread / 16;
      const int n_1_0 = thread % 16;
      #pragma unroll 1
      for (int k_1 = 0; k_1 < 8; ++k_1) {
        #pragma unroll
        for (int m_1_1 = 0; m_1_1 < 2; ++m_1_1) {
          #pragma unroll
          for (int n_1_1 = 0; n_1_1 < 4; ++n_1_1) {
            c_acc[m_1_1 * 4 + n_1_1] += a_c[(slot_of_k_0 * 8 + k_1) * 36 + m_1_0 * 2 + m_1_1] * b_c[((slot_of_k_0 * 8 + k_1) * 16 + n_1_0) * 4 + n_1_1];
          }
        }
      }
    }
  }
  {
    const int m_1_0 = thread / 16;
    const int n_1_0 = thread % 16;
    #pragma unroll
    for (int m_1_1 = 0; m_1_1 < 2; ++m_1_1) {
      *(float4*)&c[(m_0 * 32 + m_1_0 * 2 + m_1_1) * 128 + n_0 * 64 + n_1_0 * 4] = *(const float4*)&c_acc[m_1_1 * 4];
    }
  }
}
