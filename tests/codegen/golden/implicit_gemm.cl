// out: 4 blocks x 32 threads
__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void k_p0(__global const float* restrict in, __global const float* restrict w, __global float* out, __global uchar* scratch) {
  __local float in_out[384];
  __local float w_out[96];
  const int block = get_group_id(0);
  const int thread = get_local_id(0);
  const int n = block / 4;
  const int k_0 = block / 2 % 2;
  const int y_x_0 = block % 2;
  float out_acc[8];
  #pragma unroll
  for (int k_1_1 = 0; k_1_1 < 2; ++k_1_1) {
    vstore4((float4)(0), 0, &out_acc[k_1_1 * 4]);
  }
  #pragma unroll 1
  for (int c_r_s_0 = 0; c_r_s_0 < 3; ++c_r_s_0) {
    #pragma unroll 1
    for (int in_out_c_r_s_1 = 0; in_out_c_r_s_1 < 12; ++in_out_c_r_s_1) {
      barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
      {
        const int in_out_y_x_1_0_y_x_1_1 = thread;
        if (0 <= y_x_0 * 4 + in_out_y_x_1_0_y_x_1_1 / 8 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) % 3 - 1 && y_x_0 * 4 + in_out_y_x_1_0_y_x_1_1 / 8 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) % 3 - 1 < 8 && 0 <= in_out_y_x_1_0_y_x_1_1 % 8 + in_out_c_r_s_1 % 3 - 1 && in_out_y_x_1_0_y_x_1_1 % 8 + in_out_c_r_s_1 % 3 - 1 < 8) {
          in_out[(in_out_c_r_s_1 * 8 + in_out_y_x_1_0_y_x_1_1 / 4) * 4 + in_out_y_x_1_0_y_x_1_1 % 4] = in[((n * 4 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) / 3) * 8 + y_x_0 * 4 + in_out_y_x_1_0_y_x_1_1 / 8 + (c_r_s_0 * 4 + in_out_c_r_s_1 / 3) % 3 - 1) * 8 + in_out_y_x_1_0_y_x_1_1 % 8 + in_out_c_r_s_1 % 3 - 1];
        } else {
          in_out[(in_out_c_r_s_1 * 8 + in_out_y_x_1_0_y_x_1_1 / 4) * 4 + in_out_y_x_1_0_y_x_1_1 % 4] = 0.0f;
        }
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
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
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
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
      vstore4(vload4(0, &out_acc[k_1_1 * 4]), 0, &out[((n * 16 + k_0 * 8 + k_1_0 * 2 + k_1_1) * 8 + y_x_0 * 4 + y_x_1_0 * 4 / 8) * 8 + y_x_1_0 * 4 % 8]);
    }
  }
}
