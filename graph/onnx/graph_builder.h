// SPDX-License-Identifier: Apache-2.0
#pragma once
// The Builder of an import: it collects operators, computes those whose inputs are all known, and
// ends with a graph that has nothing in it that no output needs. Private to graph/onnx; for one
// thread.
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

/// Results of up to so many elements are computed at import where all inputs are known: shape
/// arithmetic, masks, tables. Larger ones are left to the passes.
inline constexpr int64_t largest_folded = int64_t{1} << 20;
/// Most bytes of one tensor that is made at import, and not read from the model: a model of a
/// hundred bytes may ask for 2^60 elements.
inline constexpr int64_t most_made_bytes = int64_t{64} << 20;
/// Most bytes of one tensor whose elements are all equal, and of all such tensors together: models
/// without their weights have them (ConstantOfShape).
inline constexpr int64_t most_filled_bytes = int64_t{512} << 20,
                         most_filled_bytes_of_all = int64_t{2} << 30;

class GraphBuilder final : public Builder {
 public:
  /// Tensors of equal elements take at most `most_bytes`, and most_filled_bytes_of_all.
  explicit GraphBuilder(int64_t most_bytes = most_filled_bytes_of_all)
      : left_filled_bytes_(std::min(most_bytes, most_filled_bytes_of_all)) {}

  /// Leaves large constants of 8 bits to be dequantized by operators, since products with quantized
  /// activations may read them as they are. In other models weights are dequantized at once.
  void keep_quantized_constants() { keeps_quantized_ = true; }

  /// A tensor of the graph, and the name that it has as an output of the graph.
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

  /// A name that no tensor has yet, as similar to `name` as possible.
  std::string claim(std::string_view name);
  void add_input(const std::string& name, const TensorType& type);
  /// A constant that stands in the model once; its bytes do not count as made at import.
  void add_initializer(const std::string& name, dsl::Array array);
  /// Adds to the number of bytes of the model's own constants. It raises the limit of the bytes
  /// that are made at import.
  void admit_bytes(int64_t bytes) { model_bytes_ += bytes; }
  /// True if the name is that of a tensor or of an alias of a tensor.
  bool knows(const std::string& name) const { return types_.contains(resolved(name)); }

  /// The graph with these outputs; its inputs are all that were added. An output that is another
  /// name of an input, or of another output, is a copy. The builder is empty afterwards.
  Result<Graph> finish(const std::vector<Output>& outputs);

 private:
  int64_t left_bytes() const;  ///< of constants that may still be made
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
  std::map<std::string, TensorType> types_;     ///< of all tensors
  std::map<std::string, std::string> aliases_;  ///< to tensors, never to aliases
  std::set<std::string> names_;
  std::map<std::string, int64_t> repeats_;  ///< of a name: how often it was claimed again
  int64_t model_bytes_ = 0, made_bytes_ = 0;
  bool keeps_quantized_ = false;
  int64_t left_filled_bytes_;               ///< of tensors of equal elements that may still be made
  std::map<std::string, Constant> filled_;  ///< those tensors, by type and element
  bool is_in_loop_ = false;                 ///< the last of graph_.loops
  std::set<std::string> body_;              ///< tensors of its body so far
  std::set<std::string> written_;           ///< those of its operators
  int64_t folding_work_ = 0;                ///< evaluations of expression nodes so far
};

}  // namespace tw::graph::onnx
