// SPDX-License-Identifier: Apache-2.0
#include "schedules/program.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/integer.h"
#include "base/pool_allocator.h"
#include "base/text.h"
#include "schedules/tensor_tiles.h"

namespace tw::schedules {
namespace {

std::string pad(int indent) { return std::string(static_cast<size_t>(indent) * 2, ' '); }

std::string shape_text(const std::vector<int64_t>& extents) {
  std::vector<std::string> parts;
  for (const int64_t extent : extents) parts.push_back(std::to_string(extent));
  return join(parts, ", ");
}

std::string print_loop_head(const Loop& loop) {
  return fmt::format("{} {} in {}..{}{}{}", to_string(loop.kind), loop.variable,
                     dsl::to_string(loop.begin), dsl::to_string(loop.end), loop.tile ? " " : "",
                     loop.tile ? loop.tile->name : "");
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
  return fmt::format("{}{}[{}] {} {}", assign.asynchronous ? "async " : "", assign.buffer,
                     join(indices, ", "), op, dsl::to_string(assign.value));
}

void print(const Block& body, int indent, std::string& out);

void print(const Stmt& stmt, int indent, std::string& out) {
  if (const Loop* loop = stmt.as<Loop>()) {
    out += pad(indent) + print_loop_head(*loop) + "\n";
    print(*loop->body, indent + 1, out);
  } else if (const If* branch = stmt.as<If>()) {
    out += pad(indent) + "if " + dsl::to_string(branch->condition) + "\n";
    print(*branch->body, indent + 1, out);
  } else if (const Assign* assign = stmt.as<Assign>()) {
    out += pad(indent) + print_assign(*assign) + "\n";
  } else if (const Allocate* allocate = stmt.as<Allocate>()) {
    const Buffer& buffer = allocate->buffer;
    out += fmt::format("{}{}: {} {}[{}]{}\n", pad(indent), buffer.name, to_string(buffer.scope),
                       tw::to_string(buffer.type), shape_text(buffer.extents),
                       buffer.swizzle > 0 ? fmt::format(" swizzled {}", buffer.swizzle) : "");
    print(*allocate->body, indent, out);
  } else if (const Wait* wait = stmt.as<Wait>()) {
    out += fmt::format("{}wait {}\n", pad(indent), wait->pending);
  } else {
    out += pad(indent) + (stmt.as<Commit>() ? "commit\n" : "barrier\n");
  }
}

void print(const Block& body, int indent, std::string& out) {
  for (const Stmt& stmt : body) print(stmt, indent, out);
}

std::string print_argument(const Argument& argument) {
  const std::string layout =
      argument.layout.is_row_major() ? "" : " @" + argument.layout.to_string(argument.letters);
  return fmt::format("{}{}: {}[{}]{}", argument.is_output ? "out " : "", argument.buffer.name,
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
  return mix(h, hash_of(*loop.body));
}
size_t hash_of(const If& branch) { return mix(branch.condition.hash(), hash_of(*branch.body)); }
size_t hash_of(const Assign& assign) {
  size_t h = mix(hash_of(assign.buffer), static_cast<size_t>(assign.combine));
  h = mix(h, assign.asynchronous ? 1 : 0);
  for (const Expr& index : assign.indices) h = mix(h, index.hash());
  return mix(h, assign.value.hash());
}
size_t hash_of(const Allocate& allocate) {
  return mix(hash_of(allocate.buffer), hash_of(*allocate.body));
}
size_t hash_of(const Barrier&) { return 0; }
size_t hash_of(const Commit&) { return 0; }
size_t hash_of(const Wait& wait) { return static_cast<size_t>(wait.pending); }

size_t hash_of(const Block& body) {
  size_t h = body.size();
  for (const Stmt& stmt : body) {
    h = mix(h, stmt.value.index());
    h = mix(h, std::visit([](const auto& s) { return hash_of(s); }, stmt.value));
  }
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

std::string to_string(const Program& program) {
  std::vector<std::string> arguments;
  for (const Argument& argument : program.arguments) arguments.push_back(print_argument(argument));
  std::string out = fmt::format("kernel({})\n", join(arguments, ", "));
  for (const Buffer& buffer : program.scratch)
    out += fmt::format("{}: scratch {}[{}]\n", buffer.name, tw::to_string(buffer.type),
                       shape_text(buffer.extents));
  for (size_t i = 0; i < program.phases.size(); ++i) {
    const Phase& phase = program.phases[i];
    std::vector<std::string> axes;
    for (const TaskAxis& axis : phase.axes)
      axes.push_back(fmt::format("{} in 0..{}", axis.variable, axis.extent));
    out += fmt::format("phase {} {}{}, tasks {}{}\n", i, phase.name,
                       phase.specialised ? ", specialised" : "", phase.tasks(),
                       axes.empty() ? "" : ": " + join(axes, ", "));
    print(*phase.body, 1, out);
  }
  return out;
}

size_t hash(const Program& program) {
  size_t h = program.phases.size();
  for (const Argument& argument : program.arguments)
    h = mix(mix(h, hash_of(argument.buffer)), hash_of(argument.layout.to_string(argument.letters)));
  for (const Buffer& buffer : program.scratch) h = mix(h, hash_of(buffer));
  for (const Phase& phase : program.phases) {
    for (const TaskAxis& axis : phase.axes)
      h = mix(mix(h, hash_of(axis.variable)), static_cast<size_t>(axis.extent));
    h = mix(mix(h, phase.specialised ? 1 : 0), hash_of(*phase.body));
  }
  return h;
}

void for_each(const Block& body, const std::function<void(const Stmt&)>& visit) {
  for (const Stmt& stmt : body) {
    visit(stmt);
    if (const Loop* loop = stmt.as<Loop>()) for_each(*loop->body, visit);
    if (const If* branch = stmt.as<If>()) for_each(*branch->body, visit);
    if (const Allocate* allocate = stmt.as<Allocate>()) for_each(*allocate->body, visit);
  }
}

Block map_expressions(const Block& body, const std::function<Expr(const Expr&)>& f) {
  Block result;
  result.reserve(body.size());
  for (const Stmt& stmt : body) {
    if (const Loop* loop = stmt.as<Loop>()) {
      result.push_back({Loop{loop->variable, f(loop->begin), f(loop->end), loop->kind,
                             block(map_expressions(*loop->body, f)), loop->tile}});
    } else if (const If* branch = stmt.as<If>()) {
      result.push_back({If{f(branch->condition), block(map_expressions(*branch->body, f))}});
    } else if (const Assign* assign = stmt.as<Assign>()) {
      Assign mapped = *assign;
      for (Expr& index : mapped.indices) index = f(index);
      mapped.value = f(mapped.value);
      result.push_back({std::move(mapped)});
    } else if (const Allocate* allocate = stmt.as<Allocate>()) {
      result.push_back({Allocate{allocate->buffer, block(map_expressions(*allocate->body, f))}});
    } else {
      result.push_back(stmt);
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

}  // namespace tw::schedules
