// SPDX-License-Identifier: Apache-2.0
#pragma once
// The conversion functions of the tables in operators.cpp, grouped by source file. Each function
// adds operators for its node to the graph. It must only be called for an ONNX operator for which a
// table lists it, with at least as many inputs as that row of the table says. Private to
// graph/onnx.

#include "graph/onnx/node.h"

namespace tw::graph::onnx {

// operators/elementwise.cpp
Status convert_function(const Node& node, Builder& builder);
Status convert_parametric_function(const Node& node, Builder& builder);
Status convert_gelu(const Node& node, Builder& builder);
Status convert_is_inf(const Node& node, Builder& builder);
Status convert_cast(const Node& node, Builder& builder);
Status convert_cast_like(const Node& node, Builder& builder);
Status convert_operation(const Node& node, Builder& builder);
Status convert_where(const Node& node, Builder& builder);
Status convert_swiglu(const Node& node, Builder& builder);
Status convert_pow(const Node& node, Builder& builder);
Status convert_clip_attributes(const Node& node, Builder& builder);
Status convert_clip(const Node& node, Builder& builder);

// operators/shape.cpp
Status convert_reshape(const Node& node, Builder& builder);
Status convert_flatten(const Node& node, Builder& builder);
Status convert_squeeze(const Node& node, Builder& builder);
Status convert_unsqueeze(const Node& node, Builder& builder);
Status convert_transpose(const Node& node, Builder& builder);
Status convert_concat(const Node& node, Builder& builder);
Status convert_split(const Node& node, Builder& builder);
Status convert_slice(const Node& node, Builder& builder);
Status convert_pad(const Node& node, Builder& builder);
Status convert_expand(const Node& node, Builder& builder);
Status convert_tile(const Node& node, Builder& builder);
Status convert_depth_to_space(const Node& node, Builder& builder);
Status convert_space_to_depth(const Node& node, Builder& builder);
Status convert_trilu(const Node& node, Builder& builder);
Status convert_eye_like(const Node& node, Builder& builder);
Status convert_center_crop_pad(const Node& node, Builder& builder);
Status convert_col2im(const Node& node, Builder& builder);

// operators/indexing.cpp
Status convert_gather(const Node& node, Builder& builder);
Status convert_compress(const Node& node, Builder& builder);
Status convert_gather_elements(const Node& node, Builder& builder);
Status convert_gather_nd(const Node& node, Builder& builder);
Status convert_one_hot(const Node& node, Builder& builder);
Status convert_reverse_sequence(const Node& node, Builder& builder);
Status convert_scatter_elements(const Node& node, Builder& builder);
Status convert_scatter_nd(const Node& node, Builder& builder);
Status convert_running_total(const Node& node, Builder& builder);
Status convert_top_k(const Node& node, Builder& builder);
Status convert_tensor_scatter(const Node& node, Builder& builder);

// operators/contributed.cpp
Status convert_qlinear_operation(const Node& node, Builder& builder);
Status convert_qlinear_function(const Node& node, Builder& builder);
Status convert_qlinear_softmax(const Node& node, Builder& builder);
Status convert_qlinear_concat(const Node& node, Builder& builder);
Status convert_qgemm(const Node& node, Builder& builder);
Status convert_matmul_integer_to_float(const Node& node, Builder& builder);
Status convert_dynamic_quantize_matmul(const Node& node, Builder& builder);
Status convert_matmul_nbits(const Node& node, Builder& builder);
Status convert_fused_matmul(const Node& node, Builder& builder);
Status convert_contributed_gelu(const Node& node, Builder& builder);
Status convert_quick_gelu(const Node& node, Builder& builder);
Status convert_skip_normalization(const Node& node, Builder& builder);

// operators/matrix.cpp
Status convert_matmul(const Node& node, Builder& builder);
Status convert_gemm(const Node& node, Builder& builder);
Status convert_matmul_integer(const Node& node, Builder& builder);
Status convert_qlinear_matmul(const Node& node, Builder& builder);
Status convert_einsum(const Node& node, Builder& builder);

// operators/convolution.cpp
Status convert_conv(const Node& node, Builder& builder);
Status convert_conv_integer(const Node& node, Builder& builder);
Status convert_qlinear_conv(const Node& node, Builder& builder);
Status convert_conv_transpose(const Node& node, Builder& builder);
Status convert_causal_conv(const Node& node, Builder& builder);

// operators/pooling.cpp
Status convert_max_pool(const Node& node, Builder& builder);
Status convert_average_pool(const Node& node, Builder& builder);
Status convert_lp_pool(const Node& node, Builder& builder);
Status convert_global_average_pool(const Node& node, Builder& builder);
Status convert_global_max_pool(const Node& node, Builder& builder);
Status convert_global_lp_pool(const Node& node, Builder& builder);

// operators/reduction.cpp
Status convert_reduction(const Node& node, Builder& builder);
Status convert_reduce_log_sum_exp(const Node& node, Builder& builder);
Status convert_arg_extreme(const Node& node, Builder& builder);

// operators/normalization.cpp
Status convert_batch_normalization(const Node& node, Builder& builder);
Status convert_instance_normalization(const Node& node, Builder& builder);
Status convert_group_normalization(const Node& node, Builder& builder);
Status convert_mean_variance_normalization(const Node& node, Builder& builder);
Status convert_lrn(const Node& node, Builder& builder);
Status convert_lp_normalization(const Node& node, Builder& builder);
Status convert_layer_normalization(const Node& node, Builder& builder);
Status convert_rms_normalization(const Node& node, Builder& builder);
Status convert_softmax(const Node& node, Builder& builder);
Status convert_flattened_softmax(const Node& node, Builder& builder);

// operators/resize.cpp
Status convert_resize(const Node& node, Builder& builder);
Status convert_upsample(const Node& node, Builder& builder);

// operators/sampling.cpp
Status convert_affine_grid(const Node& node, Builder& builder);
Status convert_grid_sample(const Node& node, Builder& builder);

// operators/signal.cpp
Status convert_dft(const Node& node, Builder& builder);
Status convert_stft(const Node& node, Builder& builder);
Status convert_window(const Node& node, Builder& builder);
Status convert_mel_weight_matrix(const Node& node, Builder& builder);

// operators/quantization.cpp
Status convert_quantize_linear(const Node& node, Builder& builder);
Status convert_dequantize_linear(const Node& node, Builder& builder);
Status convert_dynamic_quantize_linear(const Node& node, Builder& builder);

// operators/attention.cpp
Status convert_attention(const Node& node, Builder& builder);
Status convert_rotary_embedding(const Node& node, Builder& builder);

// operators/recurrent.cpp
Status convert_recurrent(const Node& node, Builder& builder);

// operators/loss.cpp
Status convert_negative_log_likelihood(const Node& node, Builder& builder);
Status convert_softmax_cross_entropy(const Node& node, Builder& builder);

}  // namespace tw::graph::onnx
