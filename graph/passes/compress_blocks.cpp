// SPDX-License-Identifier: Apache-2.0
// Compresses the constant w of a product sum(k) x * w if most blocks of w are zero. The blocks that
// are not zero are stored one after another for each column of blocks, and `rows` holds their
// positions:
//
//   y[i, j] = sum(k=768) x[i, k] * w[k, j]
//   ->
//   y[i, j] = sum(b=192) x[i, clamp(i64(rows[j / 16, b]), 0, 767)] * w.blocks[b, j]
//
// Columns with fewer blocks end in blocks of zeros, which read row 0. The kernel depends on the
// number of blocks of the fullest column, rounded up, and not on the pattern, so that matrices of
// one shape that were pruned to the same degree share the kernel. It is not specified which terms
// with a zero weight are left out: an infinity or NaN of x that meets a zero weight may or may not
// reach the result. If two operators read the same w, each has its own copy of the blocks.

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/integer.h"
#include "graph/passes/access.h"
#include "graph/passes/affine.h"
#include "graph/passes/list.h"
#include "graph/passes/uses.h"
#include "graph/rewrite.h"

namespace tw::graph {
namespace {

using dsl::Axis;
using dsl::Compute;
using dsl::Expr;
using dsl::Read;
using dsl::Stage;

/// Extents of a block: rows along the axis that is summed, columns along the axis that is kept.
struct BlockShape {
  int64_t rows = 1, columns = 1;
};
/// Shapes of blocks that the pass tries. It uses the shape that leaves the smallest share of the
/// products, and the first of equally good shapes. In a block of 1 x 16, the 16 columns of a vector
/// share a row.
constexpr std::array block_shapes = {BlockShape{1, 16}, BlockShape{4, 4}};
/// The largest share of the products that may be left. On Zen 3, products of 128 rows by blocks of
/// 1 x 16 run at 0.84 of the speed of dense products, and products by blocks of 4 x 4 at 0.65.
constexpr double most_left = 0.5;
/// The depth is the number of blocks in the fullest column of blocks. It is rounded up to a
/// multiple of 1 / `depths` of the blocks that a dense column has: of 12 for 768 rows and blocks of
/// one row. So matrices of one shape that were pruned to the same degree have the same depth.
constexpr int64_t depths = 64;
/// Number of elements sampled to skip weights that have few zeros.
constexpr int64_t probes = 4096;

/// A constant w in sum(k) x * w. Each index of w is a single axis or a literal.
struct Weight {
  size_t stage = 0, input = 0;  ///< indices of the stage and of w in the compute
  size_t row_axis = 0;          ///< index of k in the reduction of the stage
  size_t column_axis = 0;       ///< index, in the axes of the stage, of the only one that indexes w
  size_t row_dim = 0, column_dim = 0;  ///< the dimensions of w that these two axes index
};

/// Describes the input as the weights of the stage. The longest reduction axis that indexes the
/// input is the axis of its rows. nullopt if the stage does not read the input as weights.
std::optional<Weight> as_weight(const Stage& stage, const std::string& input) {
  const Read* read = only_read(stage.body, input);
  if (stage.combine != dsl::Combine::Sum || stage.scan || !read) return std::nullopt;
  const auto product = split_affine(stage.body, input);
  if (!product || !product->scale.defined() || !is_zero(product->shift)) return std::nullopt;
  Weight weight;
  int kept = 0;
  int64_t longest = 0;
  for (size_t d = 0; d < read->indices.size(); ++d) {
    if (const auto axis = axis_number(stage.axes, read->indices[d])) {
      ++kept;
      weight.column_axis = *axis;
      weight.column_dim = d;
    } else if (const auto summed = axis_number(stage.reduction, read->indices[d])) {
      if (stage.reduction[*summed].extent <= longest) continue;
      longest = stage.reduction[*summed].extent;
      weight.row_axis = *summed;
      weight.row_dim = d;
    } else if (!dsl::as_int(read->indices[d])) {
      return std::nullopt;
    }
  }
  return kept == 1 && longest > 1 ? std::optional(weight) : std::nullopt;
}

std::optional<Weight> find_weight(const Spelled& op,
                                  const std::map<std::string, Constant>& constants) {
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!constants.contains(op.inputs[i]) || !is_float(op.compute.inputs[i].type)) continue;
    const std::vector<const Stage*> readers = op.compute.consumers(op.compute.inputs[i].name);
    if (readers.size() != 1) continue;
    auto weight = as_weight(*readers[0], op.compute.inputs[i].name);
    // The sum must cover all rows. Otherwise the clamp to the last row of the sum would replace the
    // rows behind it by this last row.
    if (!weight || op.compute.inputs[i].shape[weight->row_dim] !=
                       readers[0]->reduction[weight->row_axis].extent)
      continue;
    weight->input = i;
    weight->stage = static_cast<size_t>(readers[0] - op.compute.stages.data());
    return weight;
  }
  return std::nullopt;
}

bool has_many_zeros(const dsl::Array& array) {
  const int64_t step = std::max<int64_t>(1, array.size() / probes);
  int64_t zeros = 0, seen = 0;
  // The step is odd, so that the samples do not all lie in one column if the number of columns is
  // even.
  for (int64_t i = 0; i < array.size(); i += step | 1, ++seen) zeros += array.get_float(i) == 0;
  return static_cast<double>(zeros) >= (1 - most_left) / 2 * static_cast<double>(seen);
}

/// The blocks of an array that have an element other than zero.
class Blocks {
 public:
  Blocks(const dsl::Array& array, const Weight& weight, const BlockShape& shape)
      : array_(array), weight_(weight), block_(shape) {
    const int64_t rows = array.shape[weight.row_dim], columns = array.shape[weight.column_dim];
    is_divided_ = rows % block_.rows == 0 && columns % block_.columns == 0;
    if (!is_divided_) return;
    rows_of_.resize(static_cast<size_t>(columns / block_.columns));
    const int64_t most = rows / block_.rows;
    std::vector<char> kept(rows_of_.size() * static_cast<size_t>(most), 0);
    const std::vector<int64_t> strides = strides_of(array.shape);
    for (int64_t i = 0; i < array.size(); ++i) {
      if (array.get_float(i) == 0) continue;
      const int64_t row = i / strides[weight.row_dim] % rows / block_.rows;
      const int64_t column = i / strides[weight.column_dim] % columns / block_.columns;
      kept[static_cast<size_t>(column * most + row)] = 1;
    }
    const auto in_column = static_cast<size_t>(most);
    for (size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) rows_of_[i / in_column].push_back(static_cast<int32_t>(i % in_column));
    for (const std::vector<int32_t>& rows_of_column : rows_of_)
      depth_ = std::max(depth_, static_cast<int64_t>(rows_of_column.size()));
    depth_ = std::clamp<int64_t>(round_up(depth_, ceil_div(most, depths)), 1, most);
  }

  const BlockShape& block() const { return block_; }
  /// Number of blocks in the fullest column of blocks, rounded up (see `depths`).
  int64_t depth() const { return depth_; }
  /// The share of the products that is left.
  double left() const {
    if (!is_divided_) return 1;
    return static_cast<double>(depth_ * block_.rows) /
           static_cast<double>(array_.shape[weight_.row_dim]);
  }

  /// The position of each block, as the index of its row of blocks: i32[columns of blocks, depth].
  /// It is 0 for blocks of zeros at the end of a column.
  Result<dsl::Array> rows() const {
    TW_TRY(dsl::Array rows,
           dsl::Array::make(Int32, {static_cast<int64_t>(rows_of_.size()), depth_}));
    for (size_t column = 0; column < rows_of_.size(); ++column)
      for (size_t b = 0; b < rows_of_[column].size(); ++b)
        rows.set_int(static_cast<int64_t>(column) * depth_ + static_cast<int64_t>(b),
                     rows_of_[column][b]);
    return rows;
  }

  /// Returns the order of the array's dimensions in values(). If blocks have several rows, the
  /// dimension of columns is first: the kernels for such blocks have vectors along the rows of the
  /// result and read the weights of one column after another.
  std::vector<size_t> order() const {
    std::vector<size_t> dims(array_.shape.size());
    std::iota(dims.begin(), dims.end(), size_t{0});
    const auto column = dims.begin() + static_cast<ptrdiff_t>(weight_.column_dim);
    if (block_.rows > 1) std::rotate(dims.begin(), column, column + 1);
    return dims;
  }

  /// Returns the array with its dimensions in the order of order(), and with a dimension of extent
  /// depth() in place of the dimension of rows. If a block has several rows, a dimension for the
  /// rows within a block follows.
  Result<dsl::Array> values() const {
    const std::vector<size_t> dims = order();
    std::vector<int64_t> shape;
    for (const size_t dim : dims)
      shape.push_back(dim == weight_.row_dim ? depth_ * block_.rows : array_.shape[dim]);
    TW_TRY(dsl::Array values, dsl::Array::make(array_.type, shape));
    const int64_t width = size_bytes(array_.type);
    std::vector<int64_t> at(dims.size());  // index along each dimension of array_
    for (int64_t i = 0; i < values.size(); ++i) {
      int64_t rest = i;
      for (size_t p = dims.size(); p-- > 0; rest /= shape[p]) at[dims[p]] = rest % shape[p];
      int64_t& row = at[weight_.row_dim];
      const auto column = static_cast<size_t>(at[weight_.column_dim] / block_.columns);
      const auto b = static_cast<size_t>(row / block_.rows);
      if (b >= rows_of_[column].size()) continue;
      row = rows_of_[column][b] * block_.rows + row % block_.rows;
      std::memcpy(values.data.data() + i * width, array_.data.data() + array_.offset(at) * width,
                  static_cast<size_t>(width));
    }
    if (block_.rows > 1) {
      const auto of_rows =
          values.shape.begin() + (std::ranges::find(dims, weight_.row_dim) - dims.begin());
      *of_rows = depth_;
      values.shape.insert(of_rows + 1, block_.rows);
    }
    return values;
  }

 private:
  const dsl::Array& array_;
  const Weight& weight_;
  BlockShape block_;
  bool is_divided_ = false;
  /// For each column of blocks, the rows of blocks that it has.
  std::vector<std::vector<int32_t>> rows_of_;
  int64_t depth_ = 0;
};

/// Returns the blocks of the shape that leaves the fewest products. nullopt if every shape leaves
/// more than `most_left` of them.
std::optional<Blocks> compressed(const dsl::Array& array, const Weight& weight) {
  if (!has_many_zeros(array)) return std::nullopt;
  std::optional<Blocks> best;
  for (const BlockShape& shape : block_shapes) {
    Blocks blocks(array, weight, shape);
    if (blocks.left() <= most_left && (!best || blocks.left() < best->left()))
      best.emplace(std::move(blocks));
  }
  return best;
}

/// Returns the compute that reads the blocks `values` in place of the weights. The last input of
/// this compute is `rows`.
Compute on_blocks(Compute compute, const Weight& weight, const Blocks& blocks,
                  const dsl::Array& values, const dsl::Array& rows) {
  const BlockShape& block = blocks.block();
  dsl::Input& input = compute.inputs[weight.input];
  input.shape = values.shape;
  input.letters = dsl::default_letters(static_cast<int>(values.shape.size()));
  const std::string rows_name = input.name + "_rows";
  Stage& stage = compute.stages[weight.stage];
  const Axis summed = stage.reduction[weight.row_axis];
  const Axis of_blocks(summed.name + "_block", blocks.depth());
  const Axis in_block(summed.name + "_row", block.rows);
  const auto position = stage.reduction.begin() + static_cast<ptrdiff_t>(weight.row_axis);
  *position = of_blocks;
  if (block.rows > 1) stage.reduction.insert(position + 1, in_block);

  const Expr last(summed.extent / block.rows - 1);
  const Expr column =
      dsl::binary(dsl::BinaryOp::Div, Expr(stage.axes[weight.column_axis]), Expr(block.columns));
  Expr row =
      dsl::clamp(dsl::cast(Int64, dsl::read(rows_name, {column, of_blocks}, Int32)), Expr(0), last);
  if (block.rows > 1) row = row * Expr(block.rows) + Expr(in_block);
  const auto from_blocks = [&](const Expr& e) -> std::optional<Expr> {
    const Read* read = e.as<Read>();
    if (!read || read->tensor != input.name) return std::nullopt;
    std::vector<Expr> indices;
    for (const size_t dim : blocks.order()) {
      indices.push_back(dim == weight.row_dim ? Expr(of_blocks) : read->indices[dim]);
      if (dim == weight.row_dim && block.rows > 1) indices.push_back(Expr(in_block));
    }
    return dsl::read(input.name, std::move(indices), read->type);
  };
  stage.body = dsl::substitute(dsl::transform(stage.body, from_blocks), summed.name, row);
  compute.inputs.push_back({rows_name, Int32, rows.shape, true, "AB"});
  return compute;
}

}  // namespace

Result<Graph> compress_blocks(const Graph& graph) {
  Graph result = graph;
  FreshNames names(graph);
  for (Operator& op : result.operators) {
    if (!is_fast(op)) continue;
    const Spelled spelled = in_canonical_names(op);
    const auto weight = find_weight(spelled, graph.constants);
    if (!weight) continue;
    const std::string& constant = spelled.inputs[weight->input];
    const auto blocks = compressed(*graph.constants.at(constant).array, *weight);
    if (!blocks) continue;
    TW_TRY(dsl::Array values, blocks->values());
    TW_TRY(dsl::Array rows, blocks->rows());
    const Compute compute = on_blocks(spelled.compute, *weight, *blocks, values, rows);
    std::vector<std::string> inputs = spelled.inputs;
    inputs[weight->input] = names.make(constant + ".blocks");
    inputs.push_back(names.make(constant + ".rows"));
    result.constants[inputs[weight->input]] = make_constant(std::move(values));
    result.constants[inputs.back()] = make_constant(std::move(rows));
    TW_TRY(op, make_operator(compute, inputs, op.outputs, result.constants));
  }
  return drop_dead(result);
}

}  // namespace tw::graph
