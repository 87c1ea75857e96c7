// SPDX-License-Identifier: Apache-2.0
#pragma once
// Nest: what steps work on. Each stage is a list of loops, outermost first, and its axes as
// expressions of them; a step changes one stage's entry, and lower() turns the whole into a
// Program. A value.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "dsl/compute.h"
#include "dsl/layout.h"
#include "schedules/step.h"

namespace tw::schedules {

struct NestLoop {
  std::string name;      ///< as steps say it: "x.1"
  std::string variable;  ///< as the Program says it: unique over all stages
  int64_t extent = 1;
  LoopKind kind = LoopKind::Serial;
  bool parallel = false;
  bool reduction = false;
  bool overlaps = false;  ///< of a split with a shifted tail: iterations may share elements
  const TensorTile* tile = nullptr;  ///< of the outermost of a tile
};

/// One stage. `axis` expressions are over the variables of its loops and, when the stage is placed
/// in a consumer's loop, over those of the consumer's loops around it.
struct StageNest {
  dsl::Stage stage;
  std::vector<NestLoop> loops;
  dsl::Substitution axis;
  std::vector<Expr> guards;  ///< of splits that do not divide, and of boxes

  struct Placement {
    std::string consumer, loop;
  };
  std::optional<Placement> at;
  std::vector<Expr> box_offset;  ///< of its buffer, an axis each, when placed
  std::vector<int64_t> box_extent;
  /// It holds an operand of its consumer, by the consumer's loops (cache_operand), and the neutral
  /// element where one of the absorbed guards of the consumer fails.
  bool holds_operand = false;
  std::vector<Expr> absorbed;
  bool specialised = false;  ///< its boxes are asked for by threads of their own
  int64_t depth = 1;  ///< iterations of the loop that it is computed at in its buffer (pipeline)
  /// The dimensions from this one on are one that is longer by so many elements.
  struct Padding {
    size_t dimension;
    int64_t elements;
  };
  std::optional<Padding> padding;
  int swizzle = 0;  ///< of its buffer

  struct Cache {
    std::string loop;
    Scope scope;
  };
  std::optional<Cache> cache;
  std::optional<dsl::Stage> epilogue;

  int find_loop(const std::string& name) const;  ///< index, or -1
  /// The tensor that the stage's nest writes: its own, or its epilogue's.
  const std::string& result() const { return epilogue ? epilogue->name : stage.name; }
};

struct Nest {
  dsl::Compute compute;           ///< as steps have rewritten it
  std::vector<StageNest> stages;  ///< those that have loops, in dependency order
  std::map<std::string, dsl::Layout> layouts;

  StageNest* find(const std::string& stage);
  const StageNest* find(const std::string& stage) const;
};

/// One loop an axis, in the order of the declaration: axes, then reduction axes.
Nest default_nest(const dsl::Compute& compute);

/// Applies one step, or says why it is illegal (ErrorCode::Invalid), with the loops of the stage;
/// the nest is of no use then.
Status apply(Nest& nest, const Step& step);

/// Calls `visit` with every read of a tensor in the expression, those inside of indices too.
void for_each_read(const Expr& body, const std::function<void(const dsl::Read&)>& visit);

/// Whether the stage, or the epilogue that is written where it is, reads the tensor.
bool reads(const StageNest& stage, const std::string& tensor);

/// What a reduction's term is made of: the factors of a product, or the term itself.
std::vector<Expr> operands_of(const dsl::Stage& stage);
/// An operand before it is widened: what is worth holding.
Expr unwidened(const Expr& operand);
/// Whether the stage sums, in the tile's accumulator, products of what the tile multiplies.
bool sums_products_of(const dsl::Stage& stage, const TensorTile& tile);

/// The loop of its consumer that a placed stage is computed at.
const NestLoop& loop_around(const Nest& nest, const StageNest& placed);

/// "for k.0 in 0..4 / for x in 0..56 ...": the loops of a stage on one line.
std::string describe(const StageNest& stage);

}  // namespace tw::schedules
