// out: 4 blocks x 32 threads
extern "C" __global__ void __launch_bounds__(32, 1)
k_p0(const float* __restrict__ in, const float* __restrict__ w, float* out, unsigned char* scratch) {
  __shared__ __align__(16) float in_out[384];
  __shared__ __align__(16) float w_out[96];
  const int block = blockIdx.x;
  const int thread = threadIdx.x;
  const int n = block / 4;
  const int k_0 = block / 2 % 2;
  const int y_x_0 = block % 2;
  __align__(16) float out_acc[8];
  #pragma unroll
  for (int k_1_1 = 0; k_1_1 < 2; ++k_1_1) {
    *(float4*)&out_acc[k_1_1 * 4] = {};
  }
  #pragma unroll 1
  for (int c_r_s_0 = 0; c_r_s_0 < 3; ++c_r_s_0) {
    #pragma unroll 1
    for (int in_out_c_r_s_1 = 0; in_out_c_r_s_1 < 12; ++in_out_c_r_s_1) {
      __syncthreads();
      {
        const int in_out_y_x_1_0_y_x_1_1 = thread;
        if (0 <= y_x_0 * 4 + in_out_y_x_1_0_y_x_1_1 / 8 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) % 3 - 1 && y_x_0 * 4 + in_out_y_x_1_0_y_x_1_1 / 8 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) % 3 - 1 < 8 && 0 <= in_out_y_x_1_0_y_x_1_1 % 8 + in_out_c_r_s_1 % 3 - 1 && in_out_y_x_1_0_y_x_1_1 % 8 + in_out_c_r_s_1 % 3 - 1 < 8) {
          in_out[(in_out_c_r_s_1 * 8 + in_out_y_x_1_0_y_x_1_1 / 4) * 4 + in_out_y_x_1_0_y_x_1_1 % 4] = in[((n * 4 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) / 3) * 8 + y_x_0 * 4 + in_out_y_x_1_0_y_x_1_1 / 8 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) % 3 - 1) * 8 + in_out_y_x_1_0_y_x_1_1 % 8 + in_out_c_r_s_1 % 3 - 1];
        } else {
          in_out[(in_out_c_r_s_1 * 8 + in_out_y_x_1_0_y_x_1_1 / 4) * 4 + in_out_y_x_1_0_y_x_1_1 % 4] = 0.0f;
        }
      }
    }
    __syncthreads();
    if (thread < 12) {
      const int w_out_c_r_s_1 = thread;
      #pragma unroll 1
      for (int w_out_k_1_0 = 0; w_out_k_1_0 < 4; ++w_out_k_1_0) {
        #pragma unroll 1
        for (int w_out_k_1_1 = 0; w_out_k_1_1 < 2; ++w_out_k_1_1) {
          w_out[(w_out_c_r_s_1 * 4 + w_out_k_1_0) * 2 + w_out_k_1_1] = w[(((k_0 * 8 + w_out_k_1_0 * 2 + w_out_k_1_1) * 4 + (c_r_s_0 * 4 + w_out_c_r_s_1 / 3) / 3) * 3 + (c_r_s_0 * 4 + w_out_c_r_s_1 / 3) % 3) * 3 + w_out_c_r_s_1 % 3];
        }
      }
    }
    __syncthreads();
    {
      const int k_1_0 = thread / 8;
      const int y_x_1_0 = thread % 8;
      #pragma unroll 1
      for (int c_r_s_1 = 0; c_r_s_1 < 12; ++c_r_s_1) {
        #pragma unroll
        for (int k_1_1 = 0; k_1_1 < 2; ++k_1_1) {
          #pragma unroll
          for (int y_x_1_1 = 0; y_x_1_1 < 4; ++y_x_1_1) {
            out_acc[k_1_1 * 4 + y_x_1_1] += in_out[(c_r_s_1 * 8 + y_x_1_0) * 4 + y_x_1_1] * w_out[(c_r_s_1 * 4 + k_1_0) * 2 + k_1_1];
          }
        }
      }
    }
  }
  {
    const int k_1_0 = thread / 8;
    const int y_x_1_0 = thread % 8;
    #pragma unroll
    for (int k_1_1 = 0; k_1_1 < 2; ++k_1_1) {
      *(float4*)&out[((n * 16 + k_0 * 8 + k_1_0 * 2 + k_1_1) * 8 + y_x_0 * 4 + y_x_1_0 * 4 / 8) * 8 + y_x_1_0 * 4 % 8] = *(const float4*)&out_acc[k_1_1 * 4];
    }
  }
}
