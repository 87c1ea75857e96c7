#ifndef TW_HOST_TWIN
static __device__ inline void tw_mma_tf32(
    float& c0, float& c1, float& c2, float& c3,
    unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif
static __device__ inline unsigned tw_big(float value) {
  return __float_as_uint(value) & 0xffffe000u;
}
static __device__ inline unsigned tw_small(float value) {
  const float rest = value - __uint_as_float(__float_as_uint(value) & 0xffffe000u);
  return (__float_as_uint(rest) + 0x1000u) & 0xffffe000u;
}
static __device__ inline void tw_mma_m16n8k8_3xtf32(
    float& c0, float& c1, float& c2, float& c3,
    float a0, float a1, float a2, float a3, float b0, float b1) {
  const unsigned big_a0 = tw_big(a0), big_a1 = tw_big(a1);
  const unsigned big_a2 = tw_big(a2), big_a3 = tw_big(a3);
  const unsigned big_b0 = tw_big(b0), big_b1 = tw_big(b1);
  float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
  tw_mma_tf32(d0, d1, d2, d3, tw_small(a0), tw_small(a1), tw_small(a2), tw_small(a3),
              big_b0, big_b1);
  tw_mma_tf32(d0, d1, d2, d3, big_a0, big_a1, big_a2, big_a3, tw_small(b0), tw_small(b1));
  tw_mma_tf32(d0, d1, d2, d3, big_a0, big_a1, big_a2, big_a3, big_b0, big_b1);
  c0 += d0;
  c1 += d1;
  c2 += d2;
  c3 += d3;
}

// c: 3 blocks x 64 threads
extern "C" __global__ void __launch_bounds__(64, 1)
k_p0(const float* __restrict__ a, const float* __restrict__ b, float* c, unsigned char* scratch) {
  __shared__ __align__(16) float a_c[1024];
  __shared__ __align__(16) float b_c[256];
  const int block = blockIdx.x;
  const int thread = threadIdx.x;
  const int m_0 = block / 3;
  const int n_0 = block % 3;
  __align__(16) float c_acc[16];
  #pragma unroll
  for (int m_1_1_0 = 0; m_1_1_0 < 2; ++m_1_1_0) {
    #pragma unroll
    for (int n_1_0 = 0; n_1_0 < 2; ++n_1_0) {
      #pragma unroll
      for (int m_1_1_1_0 = 0; m_1_1_1_0 < 2; ++m_1_1_1_0) {
        *(float2*)&c_acc[((m_1_1_0 * 2 + n_1_0) * 2 + m_1_1_1_0) * 2] = {};
      }
    }
  }
  #pragma unroll 1
  for (int k_0 = 0; k_0 < 6; ++k_0) {
    __syncthreads();
    if (thread < 16) {
      const int a_c_m_1_0 = thread / 8;
      const int a_c_m_1_1_1_1 = thread % 8;
      #pragma unroll 1
      for (int a_c_m_1_1_0 = 0; a_c_m_1_1_0 < 2; ++a_c_m_1_1_0) {
        #pragma unroll 1
        for (int a_c_m_1_1_1_0 = 0; a_c_m_1_1_1_0 < 2; ++a_c_m_1_1_1_0) {
          #pragma unroll 1
          for (int a_c_k_1_0 = 0; a_c_k_1_0 < 2; ++a_c_k_1_0) {
            #pragma unroll 4
            for (int a_c_k_1_1 = 0; a_c_k_1_1 < 8; ++a_c_k_1_1) {
              a_c[((((a_c_k_1_0 * 2 + a_c_m_1_0) * 2 + a_c_m_1_1_0) * 2 + a_c_m_1_1_1_0) * 8 + a_c_m_1_1_1_1) * 8 + a_c_k_1_1] = a[(m_0 * 64 + a_c_m_1_0 * 32 + a_c_m_1_1_0 * 16 + a_c_m_1_1_1_0 * 8 + a_c_m_1_1_1_1) * 96 + k_0 * 16 + a_c_k_1_0 * 8 + a_c_k_1_1];
            }
          }
        }
      }
    }
    if (thread < 8) {
      const int b_c_n_1_1_0 = thread / 2;
      const int b_c_n_1_1_1 = thread % 2;
      #pragma unroll 1
      for (int b_c_n_1_0 = 0; b_c_n_1_0 < 2; ++b_c_n_1_0) {
        #pragma unroll 1
        for (int b_c_k_1_0 = 0; b_c_k_1_0 < 2; ++b_c_k_1_0) {
          #pragma unroll 4
          for (int b_c_k_1_1 = 0; b_c_k_1_1 < 8; ++b_c_k_1_1) {
            b_c[(((b_c_k_1_0 * 2 + b_c_n_1_0) * 4 + b_c_n_1_1_0) * 2 + b_c_n_1_1_1) * 8 + b_c_k_1_1] = b[(k_0 * 16 + b_c_k_1_0 * 8 + b_c_k_1_1) * 48 + n_0 * 16 + b_c_n_1_0 * 8 + b_c_n_1_1_0 * 2 + b_c_n_1_1_1];
          }
        }
      }
    }
    __syncthreads();
    {
      const int m_1_0 = thread / 32;
      const int m_1_1_1_1 = thread / 4 % 8;
      const int n_1_1_0 = thread % 4;
      #pragma unroll
      for (int k_1_0 = 0; k_1_0 < 2; ++k_1_0) {
        #pragma unroll
        for (int m_1_1_0 = 0; m_1_1_0 < 2; ++m_1_1_0) {
          #pragma unroll
          for (int n_1_0 = 0; n_1_0 < 2; ++n_1_0) {
            {
              const float2 tw_a0 = *(const float2*)&a_c[(((k_1_0 * 2 + m_1_0) * 2 + m_1_1_0) * 2 * 8 + m_1_1_1_1) * 8 + n_1_1_0 * 2];
              const float2 tw_a1 = *(const float2*)&a_c[((((k_1_0 * 2 + m_1_0) * 2 + m_1_1_0) * 2 + 1) * 8 + m_1_1_1_1) * 8 + n_1_1_0 * 2];
              const float2 tw_b = *(const float2*)&b_c[(((k_1_0 * 2 + n_1_0) * 4 + m_1_1_1_1 / 2) * 2 + m_1_1_1_1 % 2) * 8 + n_1_1_0 * 2];
              tw_mma_m16n8k8_3xtf32(c_acc[(m_1_1_0 * 2 + n_1_0) * 2 * 2], c_acc[(m_1_1_0 * 2 + n_1_0) * 2 * 2 + 1], c_acc[((m_1_1_0 * 2 + n_1_0) * 2 + 1) * 2], c_acc[((m_1_1_0 * 2 + n_1_0) * 2 + 1) * 2 + 1], tw_a0.x, tw_a1.x, tw_a0.y, tw_a1.y, tw_b.x, tw_b.y);
            }
          }
        }
      }
    }
  }
  {
    const int m_1_0 = thread / 32;
    const int m_1_1_1_1 = thread / 4 % 8;
    const int n_1_1_0 = thread % 4;
    #pragma unroll
    for (int m_1_1_0 = 0; m_1_1_0 < 2; ++m_1_1_0) {
      #pragma unroll
      for (int n_1_0 = 0; n_1_0 < 2; ++n_1_0) {
        #pragma unroll
        for (int m_1_1_1_0 = 0; m_1_1_1_0 < 2; ++m_1_1_1_0) {
          *(float2*)&c[(m_0 * 64 + m_1_0 * 32 + m_1_1_0 * 16 + m_1_1_1_0 * 8 + m_1_1_1_1) * 48 + n_0 * 16 + n_1_0 * 8 + n_1_1_0 * 2] = *(const float2*)&c_acc[((m_1_1_0 * 2 + n_1_0) * 2 + m_1_1_1_0) * 2];
        }
      }
    }
  }
}
