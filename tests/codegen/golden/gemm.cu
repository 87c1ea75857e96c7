// c: 4 blocks x 256 threads
extern "C" __global__ void __launch_bounds__(256, 1)
k_p0(const float* __restrict__ a, const float* __restrict__ b, float* c, unsigned char* scratch) {
  __shared__ __align__(16) float a_c[256];
  __shared__ __align__(16) float b_c[512];
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
  for (int k_0 = 0; k_0 < 4; ++k_0) {
    __syncthreads();
    if (thread < 128) {
      const int a_c_k_1 = thread / 16;
      const int a_c_m_1_0 = thread % 16;
      #pragma unroll 1
      for (int a_c_m_1_1 = 0; a_c_m_1_1 < 2; ++a_c_m_1_1) {
        a_c[(a_c_k_1 * 16 + a_c_m_1_0) * 2 + a_c_m_1_1] = a[(m_0 * 32 + a_c_m_1_0 * 2 + a_c_m_1_1) * 32 + k_0 * 8 + a_c_k_1];
      }
    }
    if (thread < 128) {
      const int b_c_k_1 = thread / 16;
      const int b_c_n_1_0 = thread % 16;
      *(float4*)&b_c[(b_c_k_1 * 16 + b_c_n_1_0) * 4] = *(const float4*)&b[(k_0 * 8 + b_c_k_1) * 128 + n_0 * 64 + b_c_n_1_0 * 4];
    }
    __syncthreads();
    {
      const int m_1_0 = thread / 16;
      const int n_1_0 = thread % 16;
      #pragma unroll 1
      for (int k_1 = 0; k_1 < 8; ++k_1) {
        #pragma unroll
        for (int m_1_1 = 0; m_1_1 < 2; ++m_1_1) {
          #pragma unroll
          for (int n_1_1 = 0; n_1_1 < 4; ++n_1_1) {
            c_acc[m_1_1 * 4 + n_1_1] += a_c[(k_1 * 16 + m_1_0) * 2 + m_1_1] * b_c[(k_1 * 16 + n_1_0) * 4 + n_1_1];
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
