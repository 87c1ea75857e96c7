// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workloads: what is tuned, as a value. An operator with its attributes, or an expression of the
// user's; a data type; and how exact the result must be. The canonical key is what the database
// stores.
//
//   TW_TRY(Attributes shape, parse_shape("n1c64h56w56k64r3s3p1", "conv2d"));
//   TW_TRY(Workload conv, make_workload("conv2d", shape));
//   conv.key();                   // conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 ... f32 fast
//   parse_workload(conv.key());   // the same workload
//
// A workload may say in which layouts its caller keeps inputs and outputs, as neighbours in a
// network do. What is computed, and so the key, is the same; which kernel is the best is not.
//
//   TW_TRY(conv, with_layouts(std::move(conv), {{"in", "NCHW16c"}, {"out", "NHWC"}}));
//   conv.text();   // conv2d n=1 ... f32 fast {in=NCHW16c out=NHWC}
//
// It may also say from where the kernel's data come (cache_state.h), which changes as little of
// what is computed:
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

/// The error that a kernel may have. Strict: as much as the declared loops may have on the same
/// input in the declared types, which depends on the length of their sums (rounding.h). Fast also
/// admits other algorithms (Winograd, split bf16): max |e| <= 2e-5 max |reference| on N(0, 1)
/// inputs.
enum class Accuracy { Fast, Strict };
/// That of `fast` in f32, relative to the largest element.
inline constexpr double error_of_fast = 2e-5;
std::string_view to_string(Accuracy accuracy);
Result<Accuracy> parse_accuracy(std::string_view text);

struct Workload {
  std::string op;         ///< a name of operators(), or "expr"
  Attributes attributes;  ///< in the form that resolve() returns; empty for "expr"
  DType dtype = Float32;  ///< type of the operator's inputs; for "expr" of the first output
  Accuracy accuracy = Accuracy::Fast;
  Compute compute;
  /// Layouts in which the caller keeps inputs and outputs, canonical as with_layouts() makes them.
  /// A schedule is free to choose the layout of a tensor that is not named here.
  Layouts layouts = {};
  /// State of the caches in which the kernel is called, and so timed.
  CacheState state = CacheState::Hot;

  /// The canonical text of the computation, from which parse_workload rebuilds the workload except
  /// for its layouts and state.
  std::string key() const;
  /// The requirements of a kernel besides its results, as records store them: the layouts, then the
  /// state unless it is Hot, such as "in=NCHW16c out=NHWC network:L3". Empty if there are none.
  /// with_asked() reads the text.
  std::string asked() const;
  /// The key, followed by asked() in braces unless that is empty. parse_workload rebuilds the whole
  /// workload from this text.
  std::string text() const;
  /// short_hash of the key.
  std::string hash() const;
  /// Some output has no elements: nothing to tune or to launch.
  bool is_empty() const;
};

/// True if a kernel of the workload is called on its user's arrays, so that its time includes
/// converting them to its layouts and back. This is so for a user's expression. It is not so for an
/// operator: its neighbours in a graph share its layouts, and constant inputs are packed once.
bool keeps_arrays(const Workload& workload);

Result<Workload> make_workload(std::string_view op, const Attributes& attributes,
                               DType dtype = Float32, Accuracy accuracy = Accuracy::Fast);

/// A workload of the user's own expression, with the extents of axes that are not bound yet.
Result<Workload> workload(const Compute& compute, Accuracy accuracy = Accuracy::Fast);
Result<Workload> workload(const std::vector<Tensor>& outputs,
                          const std::vector<std::pair<Axis, int64_t>>& extents = {},
                          Accuracy accuracy = Accuracy::Fast);
inline Result<Workload> workload(const Tensor& output,
                                 const std::vector<std::pair<Axis, int64_t>>& extents = {},
                                 Accuracy accuracy = Accuracy::Fast) {
  return workload(std::vector<Tensor>{output}, extents, accuracy);
}

/// The workload with these layouts in addition to those that it has. Usage where a name is that of
/// no input or output, or of one that has a layout already, and where a text is no layout of the
/// tensor.
Result<Workload> with_layouts(Workload workload, const Layouts& layouts);

/// The parts of Workload::asked(). Usage for a word that is neither, and where something is given
/// twice; tensors and layouts are not checked.
struct Asked {
  Layouts layouts;
  CacheState state = CacheState::Hot;
};
Result<Asked> parse_asked(std::string_view text);
/// The workload with these layouts in addition to its own, and in this state. Usage as
/// with_layouts() and parse_asked().
Result<Workload> with_asked(Workload workload, std::string_view text);
/// The layout that the text stands for. Usage for a tensor that is no input or output or is a
/// single number, and for what is no layout of it or has more elements than can be counted.
Result<Layout> parse_layout(const Compute& compute, const std::string& tensor,
                            std::string_view text);

/// Reads a key or a text(), also with attributes in another order or left out at their defaults,
/// and declarations (dsl/parse.h), whose workload is Fast.
Result<Workload> parse_workload(std::string_view text);

/// Attributes as a command line gives them: compact (`n1c64h56w56k64r3s3p1`; p pad, st stride,
/// d dilation, g groups) or `name=value` separated by spaces or commas. Usage, naming the part.
Result<Attributes> parse_shape(std::string_view text, std::string_view op = "conv2d");

}  // namespace tw::dsl
