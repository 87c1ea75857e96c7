// SPDX-License-Identifier: Apache-2.0
// Translates core tiles to Halide's intrinsics for tile registers. All offsets and strides of these
// intrinsics are in bytes:
//
//   tile_zero(rows, bytes of a row)
//   tile_load(rows, bytes of a row, pointer, offset, stride)
//   tile_matmul(rows, bytes of a row of sums, bytes of a row of a, sums, a, b), which adds a * b
//   tile_store(rows, bytes of a row, pointer, offset, stride, sums)
//
// Tile registers are allocations in MemoryType::AMXTile, which are accessed only as whole tiles.

#include "codegen/halide/phase_translator.h"

namespace tw::codegen::halide {
namespace {

using schedules::CoreNest;

constexpr int bytes_of_tile = 1024;
constexpr int bytes_of_group = 4;

/// Returns the type of a tile register. It is the same for tiles that use only a part of the
/// register.
Halide::Type tile_type(Halide::Type element) {
  return element.with_lanes(bytes_of_tile / element.bytes());
}

HExpr count(int64_t value) { return hi::make_const(Halide::Int(16), value); }
HExpr bytes(int64_t value) { return hi::make_const(index64, value); }

HExpr sums_in(const std::string& name, Halide::Type type) {
  return hi::Load::make(type, name, hi::Ramp::make(0, 1, type.lanes()), {}, {},
                        hi::const_true(type.lanes()), hi::ModulusRemainder());
}

HStmt set_sums(const std::string& name, const HExpr& value) {
  const int lanes = value.type().lanes();
  return hi::Store::make(name, value, hi::Ramp::make(0, 1, lanes), {}, hi::const_true(lanes),
                         hi::ModulusRemainder());
}

/// Returns the first tile of a core in the statement. Requires: there is one.
CoreNest first_tile(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  if (loop && loop->tile) return schedules::core_nest(*loop).value();
  return first_tile(schedules::body_of(stmt)->front());
}

}  // namespace

const std::string* PhaseTranslator::sums_of_tiles(const Stmt& stmt) const {
  return has_core_tiles_ && !tile_sums_ ? schedules::sums_of_tiles(stmt, target_) : nullptr;
}

bool PhaseTranslator::zeroes_sums(const Stmt& stmt, const Stmt& next) const {
  const std::string* sums = sums_of_tiles(next);
  if (!sums) return false;
  // Rows in memory may be longer than the rows of tiles (whole_vectors.h).
  Buffer buffer = scope_.access(*sums).buffer;
  buffer.extents.back() = first_tile(next).columns();
  return schedules::sets_to_zero(stmt, buffer);
}

HStmt PhaseTranslator::translate_tiles(const Stmt& stmt, const std::string& buffer,
                                       bool begins_with_zero) {
  const Access sums = scope_.access(buffer);
  const CoreNest nest = first_tile(stmt);
  const auto rows = static_cast<int>(nest.rows()), columns = static_cast<int>(nest.columns());
  const auto stride = static_cast<int>(scope_.affine_index(sums.buffer, nest.sum->indices)
                                           .coefficient(dsl::var(nest.row->variable)));
  tile_sums_ = TileSums{rows * stride, {}};
  const int64_t tiles = sums.buffer.elements() / (rows * stride);
  for (int64_t i = 0; i < tiles; ++i) tile_sums_->registers.push_back(scope_.fresh("tile"));
  const Halide::Type type = tile_type(storage_type(sums.buffer.type));
  const HExpr pointer = handle_variable(sums.name), row_bytes = count(columns * bytes_of_group);
  std::vector<HStmt> before, after;
  for (int64_t i = 0; i < tiles; ++i) {
    const std::string& name = tile_sums_->registers[static_cast<size_t>(i)];
    const HExpr offset = bytes(i * rows * stride * bytes_of_group);
    const HExpr step = bytes(stride * bytes_of_group);
    const HExpr loaded =
        hi::Call::make(tile_type(Halide::Int(8)), "tile_load",
                       {count(rows), row_bytes, pointer, offset, step}, hi::Call::Intrinsic);
    before.push_back(set_sums(
        name, begins_with_zero
                  ? hi::Call::make(type, "tile_zero", {count(rows), row_bytes}, hi::Call::Intrinsic)
                  : Halide::reinterpret(type, loaded)));
    after.push_back(hi::Evaluate::make(hi::Call::make(
        index32, "tile_store", {count(rows), row_bytes, pointer, offset, step, sums_in(name, type)},
        hi::Call::Intrinsic)));
  }
  HStmt result =
      hi::Block::make({hi::Block::make(before), statement(stmt), hi::Block::make(after)});
  for (const std::string& name : tile_sums_->registers)
    result =
        hi::Allocate::make(name, type, Halide::MemoryType::AMXTile, {1}, hi::const_true(), result);
  tile_sums_.reset();
  return result;
}

bool PhaseTranslator::has_tiles(const Loop& loop) const {
  if (!has_core_tiles_) return false;
  bool has = false;
  schedules::for_each(*loop.body, [&](const Stmt& stmt) {
    const Loop* inner = stmt.as<Loop>();
    has |= inner && inner->tile && schedules::has_core_tile(*inner->tile, target_);
  });
  return has;
}

HStmt PhaseTranslator::translate_copies(const Loop& loop) {
  std::vector<HStmt> copies;
  for (int64_t i = *dsl::as_int(loop.begin); i < *dsl::as_int(loop.end); ++i)
    copies.push_back(statements(schedules::map_expressions(
        *loop.body, [&](const Expr& e) { return dsl::substitute(e, loop.variable, Expr(i)); })));
  return copies.empty() ? hi::Evaluate::make(0) : hi::Block::make(copies);
}

HStmt PhaseTranslator::translate_tile(const Loop& loop) {
  const CoreNest nest = schedules::core_nest(loop).value();
  const PhaseScope::Mark mark = scope_.mark();
  for (const Loop* l : {nest.row, nest.column, nest.group, nest.term})
    scope_.enter(l->variable, l->begin, l->end, scope_.fresh(l->variable), LoopKind::Serial);
  const Buffer& sums = scope_.access(nest.sum->buffer).buffer;
  const auto strides = schedules::core_strides(nest,
                                               {scope_.access(nest.by_row->tensor).buffer,
                                                scope_.access(nest.by_column->tensor).buffer, sums},
                                               scope_.bounds());
  scope_.restore(mark);
  if (!strides) throw Halide::CompileError(strides.error().message);
  const Affine first = scope_.affine_index(sums, schedules::first_of_tile(nest, nest.sum->indices));
  TW_CHECK(first.is_constant() && first.constant % tile_sums_->elements == 0,
           "the loops that number tiles are unrolled");
  const auto tile = static_cast<size_t>(first.constant / tile_sums_->elements);
  const std::string& name = tile_sums_->registers.at(tile);
  const HExpr a = tile_of(*nest.by_row, nest, nest.rows(), nest.groups(), strides->by_row);
  const HExpr b = tile_of(*nest.by_column, nest, nest.groups(), nest.columns(), strides->by_column);
  const Halide::Type type = tile_type(storage_type(sums.type));
  return set_sums(name,
                  hi::Call::make(type, "tile_matmul",
                                 {count(nest.rows()), count(nest.columns() * bytes_of_group),
                                  count(nest.groups() * bytes_of_group), sums_in(name, type), a, b},
                                 hi::Call::Intrinsic));
}

HExpr PhaseTranslator::tile_of(const dsl::Read& factor, const CoreNest& nest, int64_t rows,
                               int64_t row_groups, int64_t stride) {
  const Access& access = scope_.access(factor.tensor);
  const Halide::Type type = tile_type(storage_type(access.buffer.type));
  const HExpr offset = linear(access.buffer, schedules::first_of_tile(nest, factor.indices));
  return hi::Call::make(
      type, "tile_load",
      {count(rows), count(row_groups * bytes_of_group), handle_variable(access.name),
       Halide::cast(index64, offset) * bytes(type.bytes()), bytes(stride * type.bytes())},
      hi::Call::Intrinsic);
}

}  // namespace tw::codegen::halide
