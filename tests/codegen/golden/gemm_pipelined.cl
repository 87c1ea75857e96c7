// c: 4 blocks x 256 threads
__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void k_p0(__global const float* restrict a, __global const float* restrict b, __global float* c, __global uchar* scratch) {
  __local float a_c[864];
  __local float b_c[1536];
  const int block = get_group_id(0);
  const int thread = get_local_id(0);
  const int m_0 = block / 2;
  const int n_0 = block % 2;
  float c_acc[8];
  #pragma unroll
  for (int m_1_1 = 0; m_1_1 < 2; ++m_1_1) {
    vstore4((float4)(0), 0, &c_acc[m_1_1 * 4]);
  }
  #pragma unroll 1
  for (int k_0 = 0; k_0 < 2; ++k_0) {
    {
      const int a_c_m_1_0_m_1_1_k_1 = thread;
      a_c[(k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8) * 36 + a_c_m_1_0_m_1_1_k_1 / 8] = a[(m_0 * 32 + a_c_m_1_0_m_1_1_k_1 / 8) * 30 + k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8];
    }
    if (thread < 128) {
      const int b_c_k_1_n_1_0 = thread;
      vstore4(vload4(0, &b[(k_0 * 8 + b_c_k_1_n_1_0 / 16) * 128 + n_0 * 64 + b_c_k_1_n_1_0 % 16 * 4]), 0, &b_c[((k_0 * 8 + b_c_k_1_n_1_0 / 16) * 16 + b_c_k_1_n_1_0 % 16) * 4]);
    }
  }
  #pragma unroll 1
  for (int k_0 = 0, slot_of_k_0 = 0; k_0 < 4; ++k_0, slot_of_k_0 = slot_of_k_0 == 2 ? 0 : slot_of_k_0 + 1) {
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (k_0 + 2 < 4) {
      {
        const int a_c_m_1_0_m_1_1_k_1 = thread;
        if (k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8 + 16 < 30) {
          a_c[((k_0 + 2) % 3 * 8 + a_c_m_1_0_m_1_1_k_1 % 8) * 36 + a_c_m_1_0_m_1_1_k_1 / 8] = a[(m_0 * 32 + a_c_m_1_0_m_1_1_k_1 / 8) * 30 + k_0 * 8 + a_c_m_1_0_m_1_1_k_1 % 8 + 16];
        } else {
          a_c[((k_0 + 2) % 3 * 8 + a_c_m_1_0_m_1_1_k_1 % 8) * 36 + a_c_m_1_0_m_1_1_k_1 / 8] = 0.0f;
        }
      }
      if (thread < 128) {
        const int b_c_k_1_n_1_0 = thread;
        if (k_0 * 8 + b_c_k_1_n_1_0 / 16 + 16 < 30) {
          vstore4(vload4(0, &b[(k_0 * 8 + b_c_k_1_n_1_0 / 16 + 16) * 128 + n_0 * 64 + b_c_k_1_n_1_0 % 16 * 4]), 0, &b_c[(((k_0 + 2) % 3 * 8 + b_c_k_1_n_1_0 / 16) * 16 + b_c_k_1_n_1_0 % 16) * 4]);
        } else {
          vstore4((float4)(0), 0, &b_c[(((k_0 + 2) % 3 * 8 + b_c_k_1_n_1_0 / 16) * 16 + b_c_k_1_n_1_0 % 16) * 4]);
        }
      }
    }
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
      vstore4(vload4(0, &c_acc[m_1_1 * 4]), 0, &c[(m_0 * 32 + m_1_0 * 2 + m_1_1) * 128 + n_0 * 64 + n_1_0 * 4]);
    }
  }
}
