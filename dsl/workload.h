// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Workload describes a kernel to tune: an operator with its attributes, or a user's expression; a
// data type; and the accuracy of the result. The database stores its canonical key.
//
//   TW_TRY(Attributes shape, parse_shape("n1c64h56w56k64r3s3p1", "conv2d"));
//   TW_TRY(Workload conv, make_workload("conv2d", shape));
//   conv.key();                   // conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 ... f32 fast
//   parse_workload(conv.key());   // the same workload
//
// A workload may also have the layouts in which the caller keeps inputs and outputs, such as those
// that other operators of a network chose. The layouts change which kernel is fastest, but not the
// computed values, so they are not part of the key.
//
//   TW_TRY(conv, with_layouts(std::move(conv), {{"in", "NCHW16c"}, {"out", "NHWC"}}));
//   conv.text();   // conv2d n=1 ... f32 fast {in=NCHW16c out=NHWC}
//
// A workload may also have the state of the caches when the kernel is called (cache_state.h), which
// does not change the computed values either:
//
//   conv.state = CacheState::NetworkL3;
//   conv.text();   // conv2d n=1 ... f32 fast {in=NCHW16c out=NHWC network:L3}
//
// Immutable once made; thread-safe.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "dsl/cache_state.h"
#include "dsl/compute.h"
#include "dsl/layout.h"
#include "dsl/operators.h"

namespace tw::dsl {

/// The error that a kernel may have.
///   Strict: the error that the declared loops may have on the same input in the declared types
///     (rounding.h); it grows with the length of their sums.
///   Fast: other algorithms (Winograd, split bf16) are allowed too, with
///     max |e| <= 2e-5 max |reference| on N(0, 1) inputs.
enum class Accuracy { Fast, Strict };
/// The error that Fast allows in f32, relative to the largest element.
inline constexpr double error_of_fast = 2e-5;
std::string_view to_string(Accuracy accuracy);
Result<Accuracy> parse_accuracy(std::string_view text);

struct Workload {
  std::string op;         ///< a name of operators(), or "expr"
  Attributes attributes;  ///< in the form that resolve() returns; empty for "expr"
  DType dtype = Float32;  ///< type of the operator's inputs; for "expr", type of the first output
  Accuracy accuracy = Accuracy::Fast;
  Compute compute;
  /// Layouts in which the caller keeps inputs and outputs, in the canonical form of with_layouts().
  /// A schedule is free to choose the layout of a tensor that is not listed.
  Layouts layouts = {};
  /// State of the caches when the kernel is called, both by the caller and when it is timed.
  CacheState state = CacheState::Hot;

  /// The canonical text of the computation. parse_workload() rebuilds the workload from it, except
  /// for the layouts and the state.
  std::string key() const;
  /// The caller's requirements besides the computed values, as records store them: the layouts,
  /// then the state unless it is Hot, as in "in=NCHW16c out=NHWC network:L3". Empty if there are
  /// none. with_asked() reads the text.
  std::string asked() const;
  /// The key, followed by asked() in braces unless asked() is empty. parse_workload() rebuilds the
  /// whole workload from this text.
  std::string text() const;
  /// short_hash of the key.
  std::string hash() const;
  /// True if some output has no elements, so that there is nothing to tune or to launch.
  bool is_empty() const;
};

/// True if the kernel is called on the user's own arrays, so that its time includes converting them
/// to the kernel's layouts and back. This holds for a user's expression. It does not hold for an
/// operator: the operators before and after it in a graph use the same layouts, and constant inputs
/// are packed once.
bool keeps_arrays(const Workload& workload);

Result<Workload> make_workload(std::string_view op, const Attributes& attributes,
                               DType dtype = Float32, Accuracy accuracy = Accuracy::Fast);

/// Makes a workload of a user's expression. `extents` gives the extents of axes that have none yet.
Result<Workload> workload(const Compute& compute, Accuracy accuracy = Accuracy::Fast);
Result<Workload> workload(const std::vector<Tensor>& outputs,
                          const std::vector<std::pair<Axis, int64_t>>& extents = {},
                          Accuracy accuracy = Accuracy::Fast);
inline Result<Workload> workload(const Tensor& output,
                                 const std::vector<std::pair<Axis, int64_t>>& extents = {},
                                 Accuracy accuracy = Accuracy::Fast) {
  return workload(std::vector<Tensor>{output}, extents, accuracy);
}

/// Adds layouts to those that the workload has. Usage if a name is no input or output, if the
/// tensor already has a layout, or if a text is not a layout of the tensor.
Result<Workload> with_layouts(Workload workload, const Layouts& layouts);

/// The parts of Workload::asked(). parse_asked() fails with Usage for a word that is neither a
/// layout nor a state, and for a tensor or a state that is given twice. It does not check that
/// tensors exist and that layouts fit them.
struct Asked {
  Layouts layouts;
  CacheState state = CacheState::Hot;
};
Result<Asked> parse_asked(std::string_view text);
/// Adds the layouts of a text of Workload::asked() to those of the workload, and sets the state.
/// Usage as with_layouts() and parse_asked().
Result<Workload> with_asked(Workload workload, std::string_view text);
/// Parses a layout of an input or output. Usage if the tensor is no input or output or is a single
/// number, if the text is not a layout of the tensor, or if the layout has more elements than an
/// int64 can count.
Result<Layout> parse_layout(const Compute& compute, const std::string& tensor,
                            std::string_view text);

/// Reads a key, a text(), or declarations (dsl/parse.h), whose workload is Fast. Attributes may
/// come in any order, and may be left out if they have their defaults.
Result<Workload> parse_workload(std::string_view text);

/// Parses attributes as users write them on a command line: compact (`n1c64h56w56k64r3s3p1`; p is
/// pad, st stride, d dilation, g groups), or as `name=value` separated by spaces or commas. Usage,
/// naming the part that is wrong.
Result<Attributes> parse_shape(std::string_view text, std::string_view op = "conv2d");

}  // namespace tw::dsl
