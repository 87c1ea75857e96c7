// SPDX-License-Identifier: Apache-2.0
// A fake of libcudnn.so.9 that computes convolutions of f32 arrays. It has two algorithms, and the
// first is faster with channels last.

#include "tests/bench/fake_vendor.h"

namespace {

using tw::bench::FakeVendor;

constexpr int bad_parameter = 3, not_supported = 9;

FakeVendor fake;

struct Context {
  void* stream = nullptr;
};
/// Extents of a tensor or a filter: n, c, h, w.
struct Tensor {
  bool channels_last = false;
  int n = 0, c = 0, h = 0, w = 0;
  int64_t offset(int in, int ic, int ih, int iw) const {
    return channels_last ? ((int64_t{in} * h + ih) * w + iw) * c + ic
                         : ((int64_t{in} * c + ic) * h + ih) * w + iw;
  }
};
struct Convolution {
  int pad_h = 0, pad_w = 0, stride_h = 1, stride_w = 1, dilation_h = 1, dilation_w = 1;
  int groups = 1, math = 0;
};
struct Performance {
  int algorithm, status;
  float time_ms;
  size_t memory;
  int determinism, math, reserved[3];
};

template <typename Made>
int make(void** made) {
  *made = new Made;
  ++fake.live;
  return 0;
}
template <typename Made>
int destroy(void* made) {
  delete static_cast<Made*>(made);
  --fake.live;
  return 0;
}

int describe(void* tensor, int format, int type, int n, int c, int h, int w) {
  if (type != 0) return not_supported;
  *static_cast<Tensor*>(tensor) = {format == 1, n, c, h, w};
  return 0;
}

void convolve(const Tensor& xt, const float* x, const Tensor& wt, const float* w,
              const Convolution& v, const Tensor& yt, float* y) {
  const int outputs = yt.c / v.groups;
  for (int n = 0; n < yt.n; ++n)
    for (int k = 0; k < yt.c; ++k)
      for (int oh = 0; oh < yt.h; ++oh)
        for (int ow = 0; ow < yt.w; ++ow) {
          float sum = 0;
          for (int c = 0; c < wt.c; ++c)
            for (int r = 0; r < wt.h; ++r)
              for (int s = 0; s < wt.w; ++s) {
                const int ih = oh * v.stride_h - v.pad_h + r * v.dilation_h;
                const int iw = ow * v.stride_w - v.pad_w + s * v.dilation_w;
                if (ih < 0 || ih >= xt.h || iw < 0 || iw >= xt.w) continue;
                sum += x[xt.offset(n, k / outputs * wt.c + c, ih, iw)] * w[wt.offset(k, c, r, s)];
              }
          y[yt.offset(n, k, oh, ow)] = sum;
        }
}

}  // namespace

extern "C" {

FakeVendor* fake_vendor() { return &fake; }

size_t cudnnGetVersion() { return 90501; }
int cudnnCreate(void** handle) { return make<Context>(handle); }
int cudnnDestroy(void* handle) { return destroy<Context>(handle); }
int cudnnSetStream(Context* handle, void* stream) {
  handle->stream = stream;
  return 0;
}
int cudnnCreateTensorDescriptor(void** tensor) { return make<Tensor>(tensor); }
int cudnnDestroyTensorDescriptor(void* tensor) { return destroy<Tensor>(tensor); }
int cudnnSetTensor4dDescriptor(void* tensor, int format, int type, int n, int c, int h, int w) {
  return describe(tensor, format, type, n, c, h, w);
}
int cudnnCreateFilterDescriptor(void** filter) { return make<Tensor>(filter); }
int cudnnDestroyFilterDescriptor(void* filter) { return destroy<Tensor>(filter); }
int cudnnSetFilter4dDescriptor(void* filter, int type, int format, int k, int c, int r, int s) {
  return describe(filter, format, type, k, c, r, s);
}
int cudnnCreateConvolutionDescriptor(void** made) { return make<Convolution>(made); }
int cudnnDestroyConvolutionDescriptor(void* made) { return destroy<Convolution>(made); }
int cudnnSetConvolution2dDescriptor(void* made, int pad_h, int pad_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, int mode, int type) {
  if (mode != 1 || type != 0) return bad_parameter;
  *static_cast<Convolution*>(made) = {pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w};
  return 0;
}
int cudnnSetConvolutionGroupCount(void* made, int groups) {
  static_cast<Convolution*>(made)->groups = groups;
  return 0;
}
int cudnnSetConvolutionMathType(void* made, int math) {
  static_cast<Convolution*>(made)->math = math;
  return 0;
}
int cudnnFindConvolutionForwardAlgorithmEx(Context*, Tensor*, const void*, Tensor* filter,
                                           const void*, Convolution* convolution, Tensor*, void*,
                                           int most, int* count, Performance* found, void*,
                                           size_t) {
  if (most < 2 || convolution->math != 3) return bad_parameter;  // math 3 is f32 without TF32
  found[0] = {7, not_supported, -1, 0, 0, 0, {}};
  found[1] = {filter->channels_last ? 1 : 6, 0, 0.1F, 0, 0, 0, {}};
  *count = 2;
  return 0;
}
int cudnnConvolutionForward(Context* handle, const void* alpha, Tensor* x, const void* x_data,
                            Tensor* w, const void* w_data, Convolution* convolution, int algorithm,
                            void*, size_t, const void* beta, Tensor* y, void* y_data) {
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
    return bad_parameter;
  if (algorithm == 7) return not_supported;
  const double microseconds = fake.microseconds / (algorithm == 1 ? 2 : 1);
  tw::bench::submit(handle->stream, microseconds, [=] {
    convolve(*x, static_cast<const float*>(x_data), *w, static_cast<const float*>(w_data),
             *convolution, *y, static_cast<float*>(y_data));
    if (algorithm == 1) *static_cast<float*>(y_data) += static_cast<float>(fake.error);
  });
  return 0;
}

}  // extern "C"
