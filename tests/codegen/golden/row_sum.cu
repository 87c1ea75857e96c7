#ifndef TW_HOST_TWIN
static __device__ inline float tw_shuffle(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
static __device__ inline int tw_shuffle(int value, int mask) { return __shfl_xor_sync(0xffffffffu, value, mask); }
#endif

// r: 3 blocks x 40 threads
extern "C" __global__ void __launch_bounds__(40, 1)
k_p0(const float* __restrict__ a, float* r, unsigned char* scratch) {
  __shared__ __align__(16) float r_rf[40];
  const int block = blockIdx.x;
  const int thread = threadIdx.x;
  const int i = block;
  {
    const int r_rf_j_rf = thread;
    float r_rf_acc[1];
    r_rf_acc[0] = 0.0f;
    #pragma unroll 4
    for (int r_rf_j = 0; r_rf_j < (100 - r_rf_j_rf) / 40 + 1; ++r_rf_j) {
      r_rf_acc[0] += a[i * 101 + r_rf_j * 40 + r_rf_j_rf];
    }
    r_rf[r_rf_j_rf] = r_rf_acc[0];
  }
  if (thread == 0) {
    r[i] = 0.0f;
  }
  __syncthreads();
  if (thread < 32) {
    float tw_own = 0.0f;
    for (int j_rf = thread; j_rf < 40; j_rf += 32) {
      tw_own = tw_own + r_rf[j_rf];
    }
    #pragma unroll
    for (int tw_mask = 16; tw_mask > 0; tw_mask /= 2) {
      const float tw_other = tw_shuffle(tw_own, tw_mask);
      tw_own = tw_own + tw_other;
    }
    if (thread == 0) {
      r[i] += tw_own;
    }
  }
}
