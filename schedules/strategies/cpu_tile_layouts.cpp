// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "schedules/nest.h"
#include "schedules/prepared.h"
#include "schedules/strategies/cpu_tile.h"

namespace tw::schedules {

using dsl::Axis;
using dsl::Stage;

namespace {

/// The blocking of the dimensions of one tensor.
struct Blocking {
  bool packed;           ///< true if the tensor is packed for the tile; `choice` is then not used
  int64_t choice;        ///< layout of other tensors: 0 as declared, 1 blocked, 2 innermost
  int64_t vector_block;  ///< elements of the vector axis in a block
  /// True if all elements that a tile of vectors reads are contiguous.
  bool whole_panels = false;
  int64_t neighbours = 1;  ///< elements of the main reduction that a lane reads at once
};

class LayoutChoice {
 public:
  LayoutChoice(Construction& c, const StagePlan& plan, const CpuTile& config, int64_t width,
               bool is_root)
      : c_(c),
        plan_(plan),
        stage_(c.plan().stage(plan)),
        config_(config),
        vector_(*config.axis),
        width_(width),
        is_root_(is_root) {
    c.uses(config.vector, config.vectors, config.reduction_order, config.dot);
  }

  void choose() {
    for_each_read(stage_.body, [&](const dsl::Read& r) { choose_operand(r); });
    const StageNest* nest = c_.find(plan_.name);
    if (!nest || !is_root_) return;
    // Setting a layout makes a new nest, so what is needed of the old one is copied.
    const std::string result = nest->result();
    const std::optional<Stage> epilogue = nest->epilogue;
    if (c_.plan().compute.is_output(result)) choose_result(result);
    if (!epilogue) return;
    for_each_read(epilogue->body, [&](const dsl::Read& r) {
      if (r.tensor == plan_.name || !c_.plan().compute.find_input(r.tensor)) return;
      if (c_.plan().compute.shape_of(r.tensor) == stage_.shape()) choose_result(r.tensor);
    });
  }

 private:
  void choose_operand(const dsl::Read& read) {
    const dsl::Input* input = c_.plan().compute.find_input(read.tensor);
    const bool is_prepared = !input && is_kernel_argument(c_.plan().prologue.nest(), read.tensor);
    if (!is_prepared && !(input && (is_root_ || is_only_reader_of(read.tensor)))) return;
    const bool is_constant = is_prepared || input->constant;
    const std::vector<std::string> axes = axes_of(read);
    const bool uses_vector = uses_axis(read, vector_.axis);
    const bool must_pack = std::find(vector_.packed.begin(), vector_.packed.end(), read.tensor) !=
                           vector_.packed.end();
    if (uses_vector && (must_pack || is_constant)) {
      if (std::find(axes.begin(), axes.end(), vector_.axis) == axes.end()) return;
      // Weights are stored by whole tiles; other packed operands are stored by vectors. A panel is
      // the weights of a tile of vectors. Panels of prefetched weights have to be contiguous. If a
      // stage is computed in loops of another stage, its weights are read one panel after the
      // other, so each panel should be contiguous too. On a Zen 3, pieces of 1 KB, 128 KB apart,
      // were read from memory at half of its speed. Prepared weights have further dimensions, whose
      // loops are around all panels.
      const bool is_read_by_panels = !is_root_ && !is_prepared;
      const bool has_panels = is_constant && (is_read_by_panels || is_prefetching());
      set(read.tensor, axes,
          {true, 1, is_constant ? config_.vectors * width_ : width_, has_panels, config_.dot});
    } else if (!uses_vector && !is_constant) {
      c_.uses(config_.layout_in);
      set(read.tensor, axes, {false, config_.layout_in, width_});
    }
  }

  // Each of the following three functions reads a decision on which only some layouts depend, and
  // notes that it is used.
  bool is_prefetching() const {
    c_.uses(config_.prefetch);
    return config_.prefetch == 1;
  }
  bool has_blocks_around_tiles() const {
    c_.uses(config_.kblock);
    return config_.kblock > 0;
  }
  int64_t block() const {
    c_.uses(config_.block);
    return config_.block;
  }

  /// True if the dimension of the main reduction is declared before that of the vector axis.
  bool is_reduced_first(const std::vector<std::string>& axes) const {
    if (plan_.main_reduction.empty()) return false;
    return std::ranges::find(axes, plan_.main_reduction) < std::ranges::find(axes, vector_.axis);
  }

  bool is_only_reader_of(const std::string& tensor) const {
    const std::vector<const Stage*> readers = c_.plan().compute.consumers(tensor);
    return std::all_of(readers.begin(), readers.end(),
                       [&](const Stage* reader) { return reader->name == stage_.name; });
  }

  /// Chooses the layout of the result, or of an argument of its shape.
  void choose_result(const std::string& tensor) {
    std::vector<std::string> axes;
    for (const Axis& axis : stage_.axes) axes.push_back(axis.name);
    const bool is_last = axes.back() == vector_.axis;
    c_.uses(config_.layout_out);
    const int64_t choice = config_.layout_out;
    set(tensor, axes, {false, choice == 0 && !is_last ? 1 : choice, width_});
  }

  /// Returns, for each dimension, the axis that alone is the dimension's index, or an empty name.
  static std::vector<std::string> axes_of(const dsl::Read& read) {
    std::vector<std::string> axes;
    for (const Expr& index : read.indices) {
      const dsl::Var* v = index.as<dsl::Var>();
      axes.push_back(v ? v->name : "");
    }
    return axes;
  }

  void set(const std::string& tensor, const std::vector<std::string>& axes,
           const Blocking& blocking) {
    if (c_.plan().layouts.contains(tensor) || !done_.insert(tensor).second) return;
    const std::string text = spell(tensor, axes, blocking);
    if (text != c_.plan().compute.letters_of(tensor)) c_.schedule.add(SetLayout{tensor, text});
  }

  /// Returns the text of the layout. `axes` has the axis of each dimension (axes_of()).
  std::string spell(const std::string& tensor, const std::vector<std::string>& axes,
                    const Blocking& blocking) const {
    const std::string letters = c_.plan().compute.letters_of(tensor);
    const std::vector<int64_t> shape = c_.plan().compute.shape_of(tensor);
    // Weights are stored in the order in which the loops of a tile read them. If the loops over a
    // reduction's window are inside of the loop in a block, the window's dimensions are inside of
    // the blocks. All of the main reduction is inside of the tiles if its dimension is declared
    // first and there is no loop over groups of blocks around the tiles.
    const bool windows_inside = blocking.packed && config_.reduction_order == 2;
    const bool blocked = blocking.packed || blocking.choice > 0;
    const bool whole = !blocking.packed && blocking.choice == 2;
    const bool is_reduction_whole =
        whole || (blocking.packed && is_reduced_first(axes) && !has_blocks_around_tiles());
    std::string first, outer, reduced_inner, windows, vector_inner, neighbours;
    for (size_t d = 0; d < letters.size(); ++d) {
      const bool is_main = !plan_.main_reduction.empty() && axes[d] == plan_.main_reduction;
      if (blocked && axes[d] == vector_.axis)
        split(letters[d], shape[d], whole ? 1 : blocking.vector_block,
              blocking.whole_panels ? first : outer, vector_inner);
      else if (blocked && is_main)
        split_reduction(letters[d], shape[d], is_reduction_whole ? 1 : block(), blocking.neighbours,
                        outer, reduced_inner, neighbours);
      else
        (windows_inside && is_reduced(axes[d]) ? windows : outer) += upper(letters[d]);
    }
    return first + outer + reduced_inner + windows + vector_inner + neighbours;
  }

  /// Splits the dimension of the main reduction as split() does, but with `neighbours` of its
  /// elements innermost.
  static void split_reduction(char letter, int64_t extent, int64_t block, int64_t neighbours,
                              std::string& outer, std::string& inner, std::string& innermost) {
    if (neighbours <= 1) return split(letter, extent, block, outer, inner);
    split(letter, extent / neighbours, block / neighbours, outer, inner);
    innermost = std::to_string(neighbours) + static_cast<char>(std::tolower(letter));
  }

  /// Splits a dimension into blocks of `factor` elements, which are inside. If `factor` is 1 or at
  /// least the extent, the whole dimension is inside.
  static void split(char letter, int64_t extent, int64_t factor, std::string& outer,
                    std::string& inner) {
    inner = std::string(1, letter);
    if (factor <= 1 || factor >= extent) return;
    outer += letter;
    inner = std::to_string(factor) + static_cast<char>(std::tolower(letter));
  }

  bool is_reduced(const std::string& axis) const {
    return std::any_of(stage_.reduction.begin(), stage_.reduction.end(),
                       [&](const Axis& a) { return a.name == axis; });
  }
  static char upper(char letter) { return static_cast<char>(std::toupper(letter)); }

  Construction& c_;
  const StagePlan& plan_;
  const Stage& stage_;
  const CpuTile& config_;
  const VectorAxis& vector_;
  const int64_t width_;
  const bool is_root_;
  std::set<std::string> done_;
};

}  // namespace

void choose_layouts(Construction& c, const StagePlan& plan, const CpuTile& config, int64_t width,
                    bool is_root) {
  LayoutChoice(c, plan, config, width, is_root).choose();
}

}  // namespace tw::schedules
