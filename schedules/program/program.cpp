// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/program.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/pool_allocator.h"
#include "base/text.h"
#include "schedules/program/tensor_tiles.h"

namespace tw::schedules {
namespace {

std::string pad(int indent) { return std::string(static_cast<size_t>(indent) * 2, ' '); }

std::string shape_text(const std::vector<int64_t>& extents) {
  std::vector<std::string> parts;
  for (const int64_t extent : extents) parts.push_back(std::to_string(extent));
  return join(parts, ", ");
}

std::string print_loop_head(const Loop& loop) {
  std::string text = fmt::format("{} {} in {}..{}", to_string(loop.kind), loop.variable,
                                 dsl::to_string(loop.begin), dsl::to_string(loop.end));
  if (loop.tile) text += fmt::format(" {}", loop.tile->name);
  if (loop.pipeline)
    text += fmt::format(" pipeline {} ahead, {} slots", loop.pipeline->ahead, loop.pipeline->slots);
  return text;
}

std::string print_condition(const Expr& condition, bool uniform) {
  return fmt::format("{}if {}", uniform ? "uniform " : "", dsl::to_string(condition));
}

std::string print_guard(const Guard& guard) {
  return fmt::format(" {} else {}", print_condition(guard.condition, guard.uniform),
                     dsl::to_string(guard.otherwise));
}

std::string print_assign(const Assign& assign) {
  std::vector<std::string> indices;
  for (const Expr& index : assign.indices) indices.push_back(dsl::to_string(index));
  std::string op = "=";
  switch (assign.combine) {
    case Combine::None:
      break;
    case Combine::Sum:
      op = "+=";
      break;
    case Combine::Prod:
      op = "*=";
      break;
    case Combine::Min:
      op = "min=";
      break;
    case Combine::Max:
      op = "max=";
      break;
  }
  return fmt::format("{}{}[{}] {} {}{}", assign.asynchronous ? "async " : "", assign.buffer,
                     join(indices, ", "), op, dsl::to_string(assign.value),
                     assign.guard ? print_guard(*assign.guard) : "");
}

std::string print_buffer(const Buffer& buffer) {
  return fmt::format("{}: {} {}[{}]{}", buffer.name, to_string(buffer.scope),
                     tw::to_string(buffer.type), shape_text(buffer.extents),
                     buffer.swizzle > 0 ? fmt::format(" swizzled {}", buffer.swizzle) : "");
}

void print(const Block& body, int indent, std::string& out);

void print(const Stmt& stmt, int indent, std::string& out) {
  const auto line = [&](const std::string& text) { out += pad(indent) + text + "\n"; };
  schedules::visit(
      stmt,
      [&](const Loop& loop) {
        line(print_loop_head(loop));
        print(*loop.body, indent + 1, out);
      },
      [&](const If& branch) {
        line(print_condition(branch.condition, branch.uniform));
        print(*branch.body, indent + 1, out);
      },
      [&](const Assign& assign) { line(print_assign(assign)); },
      [&](const Allocate& allocate) {
        line(print_buffer(allocate.buffer));
        print(*allocate.body, indent, out);
      },
      [&](const Barrier&) { line("barrier"); }, [&](const Commit&) { line("commit"); },
      [&](const Wait& wait) { line(fmt::format("wait {}", wait.pending)); },
      [&](const PrefetchLines& p) {
        line(fmt::format("prefetch {}, {} from element {}", p.buffer, counted(p.lines, "line"),
                         dsl::to_string(p.offset)));
      });
}

void print(const Block& body, int indent, std::string& out) {
  for (const Stmt& stmt : body) print(stmt, indent, out);
}

std::string print_argument(const Argument& argument) {
  const std::string layout =
      argument.layout.is_row_major() ? "" : " @" + argument.layout.to_string(argument.letters);
  const std::string_view role = argument.is_output ? "out " : argument.prepared ? "prepared " : "";
  return fmt::format("{}{}: {}[{}]{}", role, argument.buffer.name,
                     tw::to_string(argument.buffer.type), shape_text(argument.buffer.extents),
                     layout);
}

// ---- hashes ---------------------------------------------------------------------------------

size_t hash_of(const std::string& text) { return std::hash<std::string>()(text); }

size_t hash_of(const Buffer& buffer) {
  size_t h = mix(hash_of(buffer.name), static_cast<size_t>(buffer.type));
  h = mix(mix(h, static_cast<size_t>(buffer.scope)), static_cast<size_t>(buffer.swizzle));
  for (const int64_t extent : buffer.extents) h = mix(h, static_cast<size_t>(extent));
  return h;
}

size_t hash_of(const Block& body);

size_t hash_of(const Loop& loop) {
  const size_t bounds = mix(loop.begin.hash(), loop.end.hash());
  size_t h = mix(mix(hash_of(loop.variable), bounds), static_cast<size_t>(loop.kind));
  if (loop.tile) h = mix(h, hash_of(std::string(loop.tile->name)));
  if (loop.pipeline)
    h = mix(mix(h, static_cast<size_t>(loop.pipeline->ahead)),
            static_cast<size_t>(loop.pipeline->slots));
  return mix(h, hash_of(*loop.body));
}
size_t hash_of(const If& branch) {
  return mix(mix(branch.condition.hash(), branch.uniform ? 1 : 0), hash_of(*branch.body));
}
size_t hash_of(const Assign& assign) {
  size_t h = mix(hash_of(assign.buffer), static_cast<size_t>(assign.combine));
  h = mix(h, assign.asynchronous ? 1 : 0);
  for (const Expr& index : assign.indices) h = mix(h, index.hash());
  if (assign.guard)
    h = mix(mix(mix(h, assign.guard->condition.hash()), assign.guard->otherwise.hash()),
            assign.guard->uniform ? 1 : 0);
  return mix(h, assign.value.hash());
}

size_t hash_of(const Stmt& stmt) {
  const size_t content = schedules::visit(
      stmt, [](const Loop& loop) { return hash_of(loop); },
      [](const If& branch) { return hash_of(branch); },
      [](const Assign& assign) { return hash_of(assign); },
      [](const Allocate& allocate) {
        return mix(hash_of(allocate.buffer), hash_of(*allocate.body));
      },
      [](const Wait& wait) { return static_cast<size_t>(wait.pending); },
      [](const PrefetchLines& p) {
        return mix(mix(hash_of(p.buffer), p.offset.hash()), static_cast<size_t>(p.lines));
      },
      always<Barrier, Commit>(size_t{0}));
  return mix(stmt.value.index(), content);
}

size_t hash_of(const Block& body) {
  size_t h = body.size();
  for (const Stmt& stmt : body) h = mix(h, hash_of(stmt));
  return h;
}

}  // namespace

std::string_view to_string(Scope scope) {
  constexpr std::string_view names[] = {"argument", "scratch", "shared", "local", "register"};
  return names[static_cast<int>(scope)];
}

std::string_view to_string(LoopKind kind) {
  constexpr std::string_view words[] = {"for",    "unroll", "vector", "thread",
                                        "tensor", "reduce", "bulk"};
  return words[static_cast<int>(kind)];
}

int64_t Buffer::elements() const {
  const auto product = checked_product(extents);
  TW_CHECK(product, "extents are validated before buffers exist");
  return *product;
}

int64_t Phase::tasks() const {
  int64_t tasks = 1;
  for (const TaskAxis& axis : axes) tasks *= axis.extent;
  return tasks;
}

BlockPtr block(Block statements) {
  return std::allocate_shared<const Block>(PoolAllocator<Block>(), std::move(statements));
}

Block single(Stmt statement) {
  Block statements;
  statements.push_back(std::move(statement));
  return statements;
}

const Buffer* Program::find_buffer(const std::string& name) const {
  for (const Argument& argument : arguments)
    if (argument.buffer.name == name) return &argument.buffer;
  for (const Buffer& buffer : scratch)
    if (buffer.name == name) return &buffer;
  return nullptr;
}

std::string to_string(const Block& body, int indent) {
  std::string out;
  print(body, indent, out);
  return out;
}

namespace {

std::string print(const Program& program, std::string_view what) {
  std::vector<std::string> arguments;
  for (const Argument& argument : program.arguments) arguments.push_back(print_argument(argument));
  std::string out = fmt::format("{}({})\n", what, join(arguments, ", "));
  for (const Buffer& buffer : program.scratch)
    out += fmt::format("{}: scratch {}[{}]\n", buffer.name, tw::to_string(buffer.type),
                       shape_text(buffer.extents));
  for (size_t i = 0; i < program.phases.size(); ++i) {
    const Phase& phase = program.phases[i];
    std::vector<std::string> axes;
    for (const TaskAxis& axis : phase.axes)
      axes.push_back(fmt::format("{} in 0..{}", axis.variable, axis.extent));
    out += fmt::format(
        "phase {} {}{}{}{}, tasks {}{}\n", i, phase.name, phase.specialised ? ", specialised" : "",
        phase.persistent ? ", persistent" : "",
        phase.resident_blocks > 1 ? fmt::format(", {} blocks at once", phase.resident_blocks) : "",
        phase.tasks(), axes.empty() ? "" : ": " + join(axes, ", "));
    print(*phase.body, 1, out);
  }
  return out;
}

}  // namespace

std::string to_string(const Program& program) {
  const Program* const preparation = program.preparation.get();
  return (preparation ? print(*preparation, "preparation") : "") + print(program, "kernel");
}

size_t hash(const Program& program) {
  size_t h = program.phases.size();
  if (program.preparation) h = mix(h, hash(*program.preparation));
  for (const Argument& argument : program.arguments)
    h = mix(mix(h, hash_of(argument.buffer)), hash_of(argument.layout.to_string(argument.letters)));
  for (const Buffer& buffer : program.scratch) h = mix(h, hash_of(buffer));
  for (const Phase& phase : program.phases) {
    for (const TaskAxis& axis : phase.axes)
      h = mix(mix(h, hash_of(axis.variable)), static_cast<size_t>(axis.extent));
    h = mix(mix(mix(h, phase.specialised ? 1 : 0), phase.persistent ? 1 : 0), hash_of(*phase.body));
    if (phase.resident_blocks > 1) h = mix(h, static_cast<size_t>(phase.resident_blocks));
  }
  return h;
}

const Block* body_of(const Stmt& stmt) {
  using Body = const Block*;
  return schedules::visit(
      stmt, [](const Loop& loop) -> Body { return loop.body.get(); },
      [](const If& branch) -> Body { return branch.body.get(); },
      [](const Allocate& allocate) -> Body { return allocate.body.get(); },
      always<Assign, Barrier, Commit, Wait, PrefetchLines>(Body{nullptr}));
}

Stmt with_body(const Stmt& stmt, BlockPtr body) {
  const auto around = [&](auto whole) {
    whole.body = std::move(body);
    return Stmt{std::move(whole)};
  };
  return schedules::visit(
      stmt, [&](const Loop& loop) { return around(loop); },
      [&](const If& branch) { return around(branch); },
      [&](const Allocate& allocate) { return around(allocate); },
      always<Assign, Barrier, Commit, Wait, PrefetchLines>(stmt));
}

void for_each(const Block& body, const std::function<void(const Stmt&)>& see) {
  for (const Stmt& stmt : body) {
    see(stmt);
    if (const Block* inner = body_of(stmt)) for_each(*inner, see);
  }
}

void for_each_expression(const Stmt& stmt, const std::function<void(const Expr&)>& see) {
  schedules::visit(
      stmt,
      [&](const Loop& loop) {
        see(loop.begin);
        see(loop.end);
      },
      [&](const If& branch) { see(branch.condition); },
      [&](const Assign& assign) {
        for (const Expr& index : assign.indices) see(index);
        see(assign.value);
        if (!assign.guard) return;
        see(assign.guard->condition);
        see(assign.guard->otherwise);
      },
      [&](const PrefetchLines& p) { see(p.offset); }, ignore<Allocate, Barrier, Commit, Wait>);
}

void for_each_access(const Stmt& stmt, const std::function<void(const BufferAccess&)>& see) {
  schedules::visit(
      stmt,
      [&](const Assign& assign) {
        see({assign.buffer, assign.indices, true});
      },
      ignore<Loop, If, Allocate, Barrier, Commit, Wait, PrefetchLines>);
  for_each_expression(stmt, [&](const Expr& expr) {
    dsl::for_each(expr, [&](const Expr& e) {
      if (const dsl::Read* r = e.as<dsl::Read>()) see({r->tensor, r->indices, false});
    });
  });
}

Block map_expressions(const Block& body, const std::function<Expr(const Expr&)>& f) {
  Block result;
  result.reserve(body.size());
  for (const Stmt& stmt : body)
    result.push_back(schedules::visit(
        stmt,
        [&](Loop loop) {
          loop.begin = f(loop.begin);
          loop.end = f(loop.end);
          loop.body = block(map_expressions(*loop.body, f));
          return Stmt{std::move(loop)};
        },
        [&](If branch) {
          branch.condition = f(branch.condition);
          branch.body = block(map_expressions(*branch.body, f));
          return Stmt{std::move(branch)};
        },
        [&](Assign assign) {
          for (Expr& index : assign.indices) index = f(index);
          assign.value = f(assign.value);
          if (assign.guard) assign.guard->condition = f(assign.guard->condition);
          return Stmt{std::move(assign)};
        },
        [&](Allocate allocate) {
          allocate.body = block(map_expressions(*allocate.body, f));
          return Stmt{std::move(allocate)};
        },
        [&](PrefetchLines p) {
          p.offset = f(p.offset);
          return Stmt{std::move(p)};
        },
        always<Barrier, Commit, Wait>(stmt)));
  return result;
}

Assign with_condition(Assign assign, const Expr& condition) {
  const auto decided = dsl::as_int(condition);
  if (decided && !*decided) {
    assign.asynchronous = assign.asynchronous && dsl::is_zero_bytes(assign.guard->otherwise);
    assign.value = assign.guard->otherwise;
  }
  if (decided) {
    assign.guard.reset();
  } else {
    assign.guard->condition = condition;
  }
  return assign;
}

std::optional<Branches> branches_of(const Stmt& stmt) {
  const Loop* loop = stmt.as<Loop>();
  const bool is_vector = loop && loop->kind == LoopKind::Vector && loop->body->size() == 1;
  const Assign* assign = (is_vector ? loop->body->front() : stmt).as<Assign>();
  if (!assign || !assign->guard) return std::nullopt;
  const Guard& guard = *assign->guard;
  if (is_vector && dsl::uses_var(guard.condition, loop->variable)) return std::nullopt;
  const auto branch = [&](const Expr& condition, bool holds) {
    Block body = single({with_condition(*assign, dsl::constant_int(Bool, holds))});
    if (is_vector) body = single(with_body(stmt, block(std::move(body))));
    return If{condition, block(std::move(body)), guard.uniform};
  };
  return Branches{branch(guard.condition, true), branch(!guard.condition, false),
                  dsl::is_zero_bytes(guard.otherwise)};
}

Block with_branches(const Block& body) {
  Block result;
  result.reserve(body.size());
  for (const Stmt& stmt : body) {
    if (auto branches = branches_of(stmt)) {
      result.push_back({std::move(branches->taken)});
      result.push_back({std::move(branches->otherwise)});
    } else {
      const Block* inner = body_of(stmt);
      result.push_back(inner ? with_body(stmt, block(with_branches(*inner))) : stmt);
    }
  }
  return result;
}

std::vector<Buffer> local_buffers(const Block& body) {
  std::vector<Buffer> buffers;
  for_each(body, [&](const Stmt& stmt) {
    if (const Allocate* allocate = stmt.as<Allocate>()) buffers.push_back(allocate->buffer);
  });
  return buffers;
}

namespace {

/// Returns sum + term. If the term is a sum itself, its terms are added one by one, so that it
/// prints without parentheses.
Expr plus(const Expr& sum, const Expr& term) {
  const auto* b = term.as<dsl::Binary>();
  if (b && b->op == dsl::BinaryOp::Add) return plus(plus(sum, b->a), b->b);
  if (b && b->op == dsl::BinaryOp::Sub) return plus(sum, b->a) - b->b;
  return sum + term;
}

/// Returns outer * n + inner. The loop variables x / n and x % n of a fused loop x are joined to x.
Expr joined(const Expr& outer, int64_t n, const Expr& inner) {
  const auto* quotient = outer.as<dsl::Binary>();
  const auto* remainder = inner.as<dsl::Binary>();
  if (quotient && remainder && quotient->op == dsl::BinaryOp::Div &&
      remainder->op == dsl::BinaryOp::Mod && dsl::is_int(quotient->b, n) &&
      dsl::is_int(remainder->b, n) && dsl::equal(quotient->a, remainder->a))
    return quotient->a;
  return plus(outer * Expr(n), inner);
}

}  // namespace

Expr linear_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  TW_CHECK(indices.size() == buffer.extents.size(), "an access has an index a dimension");
  Expr linear = 0;
  for (size_t i = 0; i < indices.size(); ++i)
    linear = joined(linear, buffer.extents[i], indices[i]);
  return linear;
}

}  // namespace tw::schedules
