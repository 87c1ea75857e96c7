// SPDX-License-Identifier: Apache-2.0
#pragma once
// A Workload describes a kernel to tune: an operator with its attributes, or an expression of the
// user; a data type; and the accuracy of the result. Its key is a canonical text, by which the
// database stores results.
//
//   TW_TRY(Attributes shape, parse_shape("n1c64h56w56k64r3s3p1", "conv2d"));
//   TW_TRY(Workload conv, make_workload("conv2d", shape));
//   conv.key();                   // conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 ... f32 fast
//   parse_workload(conv.key());   // the same workload
//
// A workload may also say in which layouts the caller keeps inputs and outputs, for example the
// layouts that other operators of a network use. The layouts change which kernel is fastest, but
// not the computed values, so they are not part of the key.
//
//   TW_TRY(conv, with_layouts(std::move(conv), {{"in", "NCHW16c"}, {"out", "NHWC"}}));
//   conv.text();   // conv2d n=1 ... f32 fast {in=NCHW16c out=NHWC}
//
// A workload may also say in which state the caches are when the kernel is called (cache_state.h).
// The state does not change the computed values either:
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
///   Strict: the error that the declared loops may have in the declared types (rounding.h). It is
///     computed for the inputs that verify the kernel, and grows with the length of sums.
///   Fast: the largest error of an element is at most 2e-5 times the largest element of the
///     reference, on N(0, 1) inputs. This allows algorithms such as Winograd's and split bf16.
enum class Accuracy { Fast, Strict };
/// The largest error that Accuracy::Fast allows in f32, relative to the largest element.
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
  /// State of the caches when the caller calls the kernel. The tuner times the kernel in this
  /// state.
  CacheState state = CacheState::Hot;

  /// Returns the canonical text: the operator with its attributes and type, or the expression, and
  /// the accuracy. From this text parse_workload() makes the workload again, but without `layouts`
  /// and `state`.
  std::string key() const;
  /// Returns the caller's requirements that are not in the key, as text for records: the layouts,
  /// then the state unless it is Hot. Example: "in=NCHW16c out=NHWC network:L3". The text is empty
  /// if there are none. with_asked() reads it.
  std::string asked() const;
  /// Returns the key, followed by asked() in braces unless asked() is empty. From this text
  /// parse_workload() makes the whole workload again.
  std::string text() const;
  /// Returns the short_hash() of the key.
  std::string hash() const;
  /// True if some output has no elements, so that there is nothing to tune or to launch.
  bool is_empty() const;
};

/// True if the measured time includes converting the caller's arrays to the kernel's layouts and
/// back. This holds for a user's expression, whose kernel is called on arrays of the user. It does
/// not hold for an operator: in a network the operators before and after it use the same layouts,
/// and constant inputs are packed once.
bool keeps_arrays(const Workload& workload);

Result<Workload> make_workload(std::string_view op, const Attributes& attributes,
                               DType dtype = Float32, Accuracy accuracy = Accuracy::Fast);

/// Makes a workload of a user's expression. `extents` lists extents for axes that were declared
/// without one. Errors are those of build() and validate().
Result<Workload> workload(const Compute& compute, Accuracy accuracy = Accuracy::Fast);
Result<Workload> workload(const std::vector<Tensor>& outputs,
                          const std::vector<std::pair<Axis, int64_t>>& extents = {},
                          Accuracy accuracy = Accuracy::Fast);
inline Result<Workload> workload(const Tensor& output,
                                 const std::vector<std::pair<Axis, int64_t>>& extents = {},
                                 Accuracy accuracy = Accuracy::Fast) {
  return workload(std::vector<Tensor>{output}, extents, accuracy);
}

/// Adds `layouts` to the layouts of the workload. Fails with Usage if the workload already has a
/// layout for a tensor of `layouts`, and with the errors of parse_layout().
Result<Workload> with_layouts(Workload workload, const Layouts& layouts);

/// The requirements that a text of Workload::asked() lists. parse_asked() fails with Usage for a
/// word that is neither a layout nor a state, and if a tensor or the state is listed twice. It does
/// not check that the tensors exist or that the layouts fit them.
struct Asked {
  Layouts layouts;
  CacheState state = CacheState::Hot;
};
Result<Asked> parse_asked(std::string_view text);
/// Applies a text of Workload::asked() to a workload: adds its layouts, and sets the state (Hot if
/// the text has no state). Errors are those of with_layouts() and parse_asked().
Result<Workload> with_asked(Workload workload, std::string_view text);
/// Parses the text of a layout for the input or output `tensor`. Fails with Usage if there is no
/// such input or output, if the tensor is a single number, if the text is not a layout of the
/// tensor, or if the tensor has more than 2^56 bytes in the layout (Layout::storage_bytes()).
Result<Layout> parse_layout(const Compute& compute, const std::string& tensor,
                            std::string_view text);

/// Reads the text of key() or text(), or declarations (dsl/parse.h); the accuracy for declarations
/// is Fast. In a key, attributes may be in any order, and those with default values may be left
/// out.
Result<Workload> parse_workload(std::string_view text);

/// Parses attributes as users write them on a command line. The compact form is
/// `n1c64h56w56k64r3s3p1`, in which p is pad, st stride, d dilation and g groups. The long form is
/// a list of `name=value`, separated by spaces or commas. Fails with Usage; the message quotes the
/// part that is wrong.
Result<Attributes> parse_shape(std::string_view text, std::string_view op = "conv2d");

}  // namespace tw::dsl
