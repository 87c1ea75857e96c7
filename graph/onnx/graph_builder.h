// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Builder of an import. It computes operators at once if their inputs are known and their
// results are small. Of the other operators it makes a graph, without those that no output needs.
// Private to graph/onnx; for one thread.
//
//   GraphBuilder builder;
//   builder.add_input(builder.claim("x:0"), {Float32, {3}});     // the tensor "x_0"
//   ... conversions call add() ...
//   TW_TRY(Graph graph, builder.finish({{"y", "y"}}));

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/onnx/node.h"

namespace tw::graph::onnx {

/// The most elements of a result that is computed at import because all inputs are known. Such
/// results are those of shape arithmetic, masks and tables. Larger results are left to the passes
/// over the graph.
inline constexpr int64_t largest_folded = int64_t{1} << 20;
/// Most bytes of one tensor that is computed at import rather than read from the model. The limit
/// is needed because a model of a hundred bytes may ask for 2^60 elements.
inline constexpr int64_t most_made_bytes = int64_t{64} << 20;
/// Most bytes of one tensor whose elements are all equal, and of all such tensors together. In
/// models that were published without their weights, tensors of equal elements (ConstantOfShape)
/// take the place of the weights.
inline constexpr int64_t most_filled_bytes = int64_t{512} << 20,
                         most_filled_bytes_of_all = int64_t{2} << 30;

class GraphBuilder final : public Builder {
 public:
  /// `most_bytes` limits the bytes of all tensors of equal elements together, in addition to
  /// most_filled_bytes_of_all.
  explicit GraphBuilder(int64_t most_bytes = most_filled_bytes_of_all)
      : left_filled_bytes_(std::min(most_bytes, most_filled_bytes_of_all)) {}

  /// Keeps large constants of 8 bits quantized and adds operators that dequantize them, since
  /// products with quantized activations can then read the constants as they are. Without this call
  /// such constants are dequantized at import.
  void keep_quantized_constants() { keeps_quantized_ = true; }

  /// A tensor of the graph, and the name under which it becomes an output.
  struct Output {
    std::string tensor, name;
  };

  Status add(const dsl::Compute& compute, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs) override;
  Status add(const dsl::Workload& workload, const std::vector<std::string>& inputs,
             const std::vector<std::string>& outputs) override;
  Status alias(const std::string& output, const std::string& value) override;
  Status add_constant(const std::string& output, dsl::Array array) override;
  Status add_filled(const std::string& output, const std::vector<int64_t>& shape,
                    const dsl::Array& value) override;
  std::string fresh_name(const std::string& stem) override { return claim(stem); }
  /// Requires: knows(name).
  Value value(const std::string& name) const override;
  Status begin_loop(const std::string& name, int64_t trips) override;
  std::string add_slice(const std::string& whole, bool is_backward) override;
  std::string add_state(const std::string& first) override;
  Status set_next(const std::string& state, const std::string& next,
                  const std::string& last) override;
  Status add_stack(const std::string& tensor, const std::string& whole, bool is_backward) override;
  void end_loop() override;

  /// Reserves and returns a name that no tensor has yet: `name` with invalid characters replaced,
  /// and with a number at its end if the name is taken.
  std::string claim(std::string_view name);
  void add_input(const std::string& name, const TensorType& type);
  /// Adds a constant of the model. Its bytes are not counted as bytes that are computed at import.
  void add_initializer(const std::string& name, dsl::Array array);
  /// Adds `bytes` to the size of the model's constants. The constants that the import computes may
  /// have 256 MiB plus eight times this size.
  void admit_bytes(int64_t bytes) { model_bytes_ += bytes; }
  /// True if the name is that of a tensor or of an alias of a tensor.
  bool knows(const std::string& name) const { return types_.contains(resolved(name)); }

  /// Makes the graph with these outputs and with all inputs that were added. An output that is a
  /// second name of an input or of another output becomes a copy. The builder must not be used
  /// afterwards.
  Result<Graph> finish(const std::vector<Output>& outputs);

 private:
  int64_t left_bytes() const;  ///< bytes of constants that may still be computed at import
  const std::string& resolved(const std::string& name) const;
  Status check_inputs(const dsl::Compute& compute, const std::vector<std::string>& inputs) const;
  Status check_outputs(const dsl::Compute& compute, const std::vector<std::string>& outputs) const;
  Status bind(const dsl::Compute& compute, const dsl::Workload* workload,
              const std::vector<std::string>& inputs, const std::vector<std::string>& outputs);
  bool folds(const dsl::Compute& compute, const std::vector<std::string>& inputs);
  Status fold(const dsl::Compute& compute, const std::vector<std::string>& inputs,
              const std::vector<std::string>& outputs);
  void insert_constant(const std::string& name, dsl::Array array);
  Result<std::string> name_output(const Output& output);
  Status copy(const std::string& tensor, const std::string& name);
  void rename(const std::string& tensor, const std::string& name);
  void push(Operator op);
  std::string in_body(const std::string& tensor);
  Result<std::string> written_in_body(const std::string& tensor);

  Graph graph_;
  std::map<std::string, TensorType> types_;     ///< types of all tensors
  std::map<std::string, std::string> aliases_;  ///< alias -> tensor, never an alias
  std::set<std::string> names_;
  std::map<std::string, int64_t> repeats_;  ///< for each name, how often it was claimed again
  int64_t model_bytes_ = 0, made_bytes_ = 0;
  bool keeps_quantized_ = false;
  int64_t left_filled_bytes_;               ///< bytes that tensors of equal elements may still take
  std::map<std::string, Constant> filled_;  ///< tensors of equal elements, by type and element
  /// True between begin_loop() and end_loop(); the loop is the last of graph_.loops.
  bool is_in_loop_ = false;
  std::set<std::string> body_;     ///< tensors of the loop's body so far
  std::set<std::string> written_;  ///< tensors that operators of the loop's body write
  int64_t folding_work_ = 0;       ///< evaluations of expression nodes so far
};

}  // namespace tw::graph::onnx
