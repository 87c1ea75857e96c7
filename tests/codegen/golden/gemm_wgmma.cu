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
static __device__ inline unsigned long long tw_shared_address(const void* in) {
  return (unsigned long long)__cvta_generic_to_shared(in);
}
static __device__ inline void tw_fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
static __device__ inline void tw_wgmma_pass(float& sum) { asm volatile("" : "+f"(sum)::"memory"); }
static __device__ inline void tw_wgmma_pass(int& sum) { asm volatile("" : "+r"(sum)::"memory"); }
template <typename Sum, int count>
static __device__ inline void tw_wgmma_fence(Sum (&sums)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i) tw_wgmma_pass(sums[i]);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ inline void tw_wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <typename Sum, int count>
static __device__ inline void tw_wgmma_wait(Sum (&sums)[count]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < count; ++i) tw_wgmma_pass(sums[i]);
}
static __device__ inline void tw_wgmma_m64n32k16_bf16(float* d, unsigned long long a, unsigned long long b) {
  asm volatile(
      "{.reg .pred p; setp.eq.u32 p, 0, 0; "
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15}, "
      "%16, %17, p, 1, 1, 0, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[8]), "+f"(d[9]), "+f"(d[2]), "+f"(d[3]), "+f"(d[10]), "+f"(d[11]),
        "+f"(d[4]), "+f"(d[5]), "+f"(d[12]), "+f"(d[13]), "+f"(d[6]), "+f"(d[7]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b));
}
#endif
template <int swizzle, int bytes, typename Index>
static __device__ inline Index tw_swizzled(Index i) {
  return i ^ ((i / (128 / bytes) & (swizzle / 16 - 1)) * (16 / bytes));
}
template <int swizzle>
static __device__ inline unsigned long long tw_descriptor(const void* first) {
  const unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : 3;
  return (tw_shared_address(first) & 0x3ffff) >> 4 | (unsigned long long)1 << 16 |
         (unsigned long long)(8 * swizzle / 16) << 32 | mode << 62;
}

// c: 1 block x 128 threads
extern "C" __global__ void __launch_bounds__(128, 1)
k_p0(const unsigned short* __restrict__ a, const unsigned short* __restrict__ b, float* c, unsigned char* scratch) {
  __shared__ __align__(1024) unsigned short a_c[12288];
  __shared__ __align__(1024) unsigned short b_c[6144];
  const int block = blockIdx.x;
  const int thread = threadIdx.x;
  const int m_0 = block;
  const int n_0 = block % 1;
  __align__(16) float c_acc[16];
  #pragma unroll
  for (int m_1_1_1_1_0 = 0; m_1_1_1_1_0 < 2; ++m_1_1_1_1_0) {
    #pragma unroll
    for (int n_1_1_0 = 0; n_1_1_0 < 4; ++n_1_1_0) {
      *(float2*)&c_acc[(m_1_1_1_1_0 * 4 + n_1_1_0) * 2] = {};
    }
  }
  #pragma unroll 1
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    if (thread < 4) {
      const int a_c_m_1_1_1_0 = thread;
      #pragma unroll 1
      for (int a_c_m_1_1_1_1_0 = 0; a_c_m_1_1_1_1_0 < 2; ++a_c_m_1_1_1_1_0) {
        #pragma unroll 1
        for (int a_c_m_1_1_1_1_1 = 0; a_c_m_1_1_1_1_1 < 8; ++a_c_m_1_1_1_1_1) {
          #pragma unroll 1
          for (int a_c_k_1_0 = 0; a_c_k_1_0 < 4; ++a_c_k_1_0) {
            #pragma unroll 1
            for (int a_c_k_1_1_0 = 0; a_c_k_1_1_0 < 2; ++a_c_k_1_1_0) {
              tw_copy_async<16>(&a_c[tw_swizzled<128, 2>(((((k_0 * 4 + a_c_m_1_1_1_0) * 2 + a_c_m_1_1_1_1_0) * 8 + a_c_m_1_1_1_1_1) * 4 + a_c_k_1_0) * 16 + a_c_k_1_1_0 * 8)], &a[(m_0 * 64 + a_c_m_1_1_1_0 * 16 + a_c_m_1_1_1_1_0 * 8 + a_c_m_1_1_1_1_1) * 192 + k_0 * 64 + a_c_k_1_0 * 16 + a_c_k_1_1_0 * 8]);
            }
          }
        }
      }
    }
    if (thread < 16) {
      const int b_c_n_1_1_0 = thread / 4;
      const int b_c_n_1_1_1_0 = thread % 4;
      #pragma unroll 1
      for (int b_c_n_1_1_1_1 = 0; b_c_n_1_1_1_1 < 2; ++b_c_n_1_1_1_1) {
        #pragma unroll 1
        for (int b_c_k_1_0 = 0; b_c_k_1_0 < 4; ++b_c_k_1_0) {
          #pragma unroll 1
          for (int b_c_k_1_1_0 = 0; b_c_k_1_1_0 < 2; ++b_c_k_1_1_0) {
            tw_copy_async<16>(&b_c[tw_swizzled<128, 2>(((((k_0 * 4 + b_c_n_1_1_0) * 4 + b_c_n_1_1_1_0) * 2 + b_c_n_1_1_1_1) * 4 + b_c_k_1_0) * 16 + b_c_k_1_1_0 * 8)], &b[(n_0 * 32 + b_c_n_1_1_0 * 8 + b_c_n_1_1_1_0 * 2 + b_c_n_1_1_1_1) * 192 + k_0 * 64 + b_c_k_1_0 * 16 + b_c_k_1_1_0 * 8]);
          }
        }
      }
    }
    tw_commit();
  }
  #pragma unroll 1
  for (int k_0 = 0; k_0 < 3; ++k_0) {
    tw_wait<1>();
    tw_fence_async();
    __syncthreads();
    tw_wgmma_fence(c_acc);
    #pragma unroll 1
    for (int k_1_0 = 0; k_1_0 < 4; ++k_1_0) {
      tw_wgmma_m64n32k16_bf16(&c_acc[0], tw_descriptor<128>(&a_c[(k_0 * 4 * 2 * 8 * 4 + k_1_0) * 16]), tw_descriptor<128>(&b_c[(k_0 * 4 * 4 * 2 * 4 + k_1_0) * 16]));
    }
    tw_wgmma_commit();
    if (k_0 + 2 < 3) {
      if (thread < 4) {
        const int a_c_m_1_1_1_0 = thread;
        #pragma unroll 1
        for (int a_c_m_1_1_1_1_0 = 0; a_c_m_1_1_1_1_0 < 2; ++a_c_m_1_1_1_1_0) {
          #pragma unroll 1
          for (int a_c_m_1_1_1_1_1 = 0; a_c_m_1_1_1_1_1 < 8; ++a_c_m_1_1_1_1_1) {
            #pragma unroll 1
            for (int a_c_k_1_0 = 0; a_c_k_1_0 < 4; ++a_c_k_1_0) {
              #pragma unroll 1
              for (int a_c_k_1_1_0 = 0; a_c_k_1_1_0 < 2; ++a_c_k_1_1_0) {
                tw_copy_async<16>(&a_c[tw_swizzled<128, 2>((((((k_0 + 2) * 4 + a_c_m_1_1_1_0) * 2 + a_c_m_1_1_1_1_0) * 8 + a_c_m_1_1_1_1_1) * 4 + a_c_k_1_0) * 16 + a_c_k_1_1_0 * 8)], &a[(m_0 * 64 + a_c_m_1_1_1_0 * 16 + a_c_m_1_1_1_1_0 * 8 + a_c_m_1_1_1_1_1) * 192 + k_0 * 64 + a_c_k_1_0 * 16 + a_c_k_1_1_0 * 8 + 128]);
              }
            }
          }
        }
      }
      if (thread < 16) {
        const int b_c_n_1_1_0 = thread / 4;
        const int b_c_n_1_1_1_0 = thread % 4;
        #pragma unroll 1
        for (int b_c_n_1_1_1_1 = 0; b_c_n_1_1_1_1 < 2; ++b_c_n_1_1_1_1) {
          #pragma unroll 1
          for (int b_c_k_1_0 = 0; b_c_k_1_0 < 4; ++b_c_k_1_0) {
            #pragma unroll 1
            for (int b_c_k_1_1_0 = 0; b_c_k_1_1_0 < 2; ++b_c_k_1_1_0) {
              tw_copy_async<16>(&b_c[tw_swizzled<128, 2>((((((k_0 + 2) * 4 + b_c_n_1_1_0) * 4 + b_c_n_1_1_1_0) * 2 + b_c_n_1_1_1_1) * 4 + b_c_k_1_0) * 16 + b_c_k_1_1_0 * 8)], &b[(n_0 * 32 + b_c_n_1_1_0 * 8 + b_c_n_1_1_1_0 * 2 + b_c_n_1_1_1_1) * 192 + k_0 * 64 + b_c_k_1_0 * 16 + b_c_k_1_1_0 * 8 + 128]);
            }
          }
        }
      }
    }
    tw_commit();
    tw_wgmma_wait(c_acc);
  }
  {
    const int m_1_1_1_0 = thread / 32;
    const int m_1_1_1_1_1 = thread / 4 % 8;
    const int n_1_1_1_0 = thread % 4;
    #pragma unroll
    for (int m_1_1_1_1_0 = 0; m_1_1_1_1_0 < 2; ++m_1_1_1_1_0) {
      #pragma unroll
      for (int n_1_1_0 = 0; n_1_1_0 < 4; ++n_1_1_0) {
        *(float2*)&c[(m_0 * 64 + m_1_1_1_0 * 16 + m_1_1_1_1_0 * 8 + m_1_1_1_1_1) * 32 + n_0 * 32 + n_1_1_0 * 8 + n_1_1_1_0 * 2] = *(const float2*)&c_acc[(m_1_1_1_1_0 * 4 + n_1_1_0) * 2];
      }
    }
  }
}
