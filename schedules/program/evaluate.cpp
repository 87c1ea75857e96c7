// SPDX-License-Identifier: Apache-2.0
#include "schedules/program/evaluate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/integer.h"
#include "dsl/value.h"

namespace tw::schedules {
namespace {

using dsl::BinaryOp;
using dsl::UnaryOp;
using dsl::Value;

constexpr int64_t never = -1;
constexpr int64_t most_threads = 1 << 20;  // number of actors reserved for each stretch

/// Index of an actor. An actor is a thread of a task within a stretch, i.e. the time between two
/// barriers. Actors are numbered in the order in which they run.
using Actor = int64_t;

/// Index of a commit group. A group is a set of asynchronous copies that are waited for together.
/// One sequence numbers the groups of all tasks.
using CommitGroup = int64_t;

/// The elements of a buffer, and for each element the actors that last wrote it and read it.
struct Memory {
  const Buffer* buffer = nullptr;
  bool is_input = false;
  bool is_shared = false;  ///< true if several tasks, or several threads of a task, see the buffer
  std::byte* data = nullptr;
  std::vector<std::byte> own;
  std::vector<char> written;
  std::vector<Actor> writer, reader;
  /// for each element of a buffer that is not shared, the thread that wrote it last
  std::vector<int64_t> owner;
  /// for each element, the group of the asynchronous copy that wrote it last; never if a plain
  /// store did
  std::vector<CommitGroup> commit_group;

  /// Forgets accesses by tasks before the task that begins with the actor `task_begin`. Accesses by
  /// this task are kept, because a shared buffer that a loop allocates is the same memory in each
  /// iteration.
  void reset(Actor task_begin) {
    const auto elements = static_cast<size_t>(buffer->elements());
    written.assign(elements, is_input);
    if (!is_shared) return owner.assign(elements, 0);
    commit_group.resize(elements, never);
    for (size_t i = 0; i < writer.size(); ++i)
      if (writer[i] < task_begin) commit_group[i] = never;
    for (std::vector<Actor>* actors : {&writer, &reader}) {
      actors->resize(elements, never);
      for (Actor& actor : *actors)
        if (actor < task_begin) actor = never;
    }
  }
};

/// An expression with variables and buffers resolved to slots.
struct Node {
  const dsl::ExprNode* expr = nullptr;
  size_t slot = 0;
  std::vector<Node> children;
};

struct Command {
  enum class Kind { Loop, Thread, If, Assign, Allocate, Barrier, Commit, Wait, Prefetch } kind;
  const Stmt* statement = nullptr;
  size_t slot = 0;             ///< slot of the variable or buffer
  std::vector<Node> operands;  ///< bounds; condition; or indices, value, and condition and literal
                               ///< of the guard
  std::vector<Command> body;
};

Value combined(Combine combine, DType type, Value old, Value value) {
  switch (combine) {
    case Combine::None:
      return value;
    case Combine::Sum:
      return apply(BinaryOp::Add, type, type, old, value);
    case Combine::Prod:
      return apply(BinaryOp::Mul, type, type, old, value);
    case Combine::Min:
      return apply(BinaryOp::Min, type, type, old, value);
    case Combine::Max:
      return apply(BinaryOp::Max, type, type, old, value);
  }
  TW_CHECK(false);
}

class Evaluator {
 public:
  explicit Evaluator(const Program& program) : program_(program) {}

  Status run(Storage& storage) {
    TW_RETURN_IF_ERROR(bind(storage));
    for (const Phase& phase : program_.phases) {
      phase_ = &phase;
      std::vector<size_t> axes;
      for (const TaskAxis& axis : phase.axes) axes.push_back(variable(axis.variable));
      const std::vector<Command> body = compile(*phase.body);
      phase_begin_ = next_actor_;
      run_tasks(phase, axes, body);
      if (error_) return tl::unexpected<Error>(*error_);
    }
    return {};
  }

 private:
  Status bind(Storage& storage) {
    for (const Argument& argument : program_.arguments) {
      const Buffer& buffer = argument.buffer;
      const auto bytes = static_cast<size_t>(buffer.bytes());
      if (argument.is_output) storage[buffer.name].assign(bytes, std::byte{});
      const auto found = storage.find(buffer.name);
      if (found == storage.end() || found->second.size() != bytes)
        return fail(
            ErrorCode::Usage,
            fmt::format("[evaluate] input '{}' has {} bytes, its storage needs {}: pass an "
                        "array in storage layout",
                        buffer.name, found == storage.end() ? 0 : found->second.size(), bytes));
      Memory& memory = add_memory(buffer);
      memory.is_input = !argument.is_output;
      memory.is_shared = true;
      memory.data = found->second.data();
      memory.reset(task_begin_);
    }
    for (const Buffer& buffer : program_.scratch) {
      Memory& memory = add_memory(buffer);
      memory.is_shared = true;
      own_storage(memory);
    }
    return {};
  }

  Memory& add_memory(const Buffer& buffer) {
    buffers_[buffer.name] = memories_.size();
    memories_.emplace_back().buffer = &buffer;
    return memories_.back();
  }

  void own_storage(Memory& memory) {
    memory.own.assign(static_cast<size_t>(memory.buffer->bytes()), std::byte{});
    memory.data = memory.own.data();
    memory.reset(task_begin_);
  }

  size_t variable(const std::string& name) {
    const auto [at, is_new] = variables_.emplace(name, variables_.size());
    if (is_new) values_.push_back(0);
    return at->second;
  }

  size_t buffer_slot(const std::string& name) const {
    const auto found = buffers_.find(name);
    TW_CHECK(found != buffers_.end(), "a program accesses declared buffers only");
    return found->second;
  }

  Node resolve(const Expr& expr) {
    Node node{&expr.node(), 0, {}};
    const auto add = [&](const Expr& child) { node.children.push_back(resolve(child)); };
    dsl::visit(
        expr,
        [&](const dsl::Var& v) {
          const auto found = variables_.find(v.name);
          TW_CHECK(found != variables_.end(), "a program uses variables in scope only");
          node.slot = found->second;
        },
        [&](const dsl::Read& r) {
          node.slot = buffer_slot(r.tensor);
          for (const Expr& index : r.indices) add(index);
        },
        [&](const dsl::Unary& u) { add(u.a); },
        [&](const dsl::Binary& b) {
          add(b.a);
          add(b.b);
        },
        [&](const dsl::Select& s) {
          add(s.condition);
          add(s.a);
          add(s.b);
        },
        [&](const dsl::Cast& c) { add(c.a); }, ignore<dsl::Const>);
    return node;
  }

  std::vector<Command> compile(const Block& body) {
    std::vector<Command> commands;
    for (const Stmt& stmt : body) commands.push_back(compile(stmt));
    return commands;
  }

  Command compile(const Stmt& stmt) {
    using Kind = Command::Kind;
    const auto make = [&](Kind kind) { return Command{kind, &stmt, 0, {}, {}}; };
    return schedules::visit(
        stmt,
        [&](const Loop& loop) {
          Command command = make(loop.kind == LoopKind::Thread ? Kind::Thread : Kind::Loop);
          command.operands = {resolve(loop.begin), resolve(loop.end)};
          command.slot = variable(loop.variable);
          command.body = compile(*loop.body);
          return command;
        },
        [&](const If& branch) {
          Command command = make(Kind::If);
          command.operands = {resolve(branch.condition)};
          command.body = compile(*branch.body);
          return command;
        },
        [&](const Assign& assign) {
          Command command = make(Kind::Assign);
          command.slot = buffer_slot(assign.buffer);
          for (const Expr& index : assign.indices) command.operands.push_back(resolve(index));
          command.operands.push_back(resolve(assign.value));
          if (assign.guard) command.operands.push_back(resolve(assign.guard->condition));
          if (assign.guard) command.operands.push_back(resolve(assign.guard->otherwise));
          return command;
        },
        [&](const Allocate& allocate) {
          Command command = make(Kind::Allocate);
          command.slot = memories_.size();
          add_memory(allocate.buffer).is_shared = allocate.buffer.scope == Scope::Shared;
          command.body = compile(*allocate.body);
          return command;
        },
        [&](const Barrier&) { return make(Kind::Barrier); },
        [&](const Commit&) { return make(Kind::Commit); },
        [&](const Wait&) { return make(Kind::Wait); },
        [&](const PrefetchLines& prefetch) {
          Command command = make(Kind::Prefetch);
          command.slot = buffer_slot(prefetch.buffer);
          command.operands = {resolve(prefetch.offset)};
          return command;
        });
  }

  void run_tasks(const Phase& phase, const std::vector<size_t>& axes,
                 const std::vector<Command>& body) {
    const int64_t tasks = phase.tasks();
    for (int64_t task = 0; task < tasks && !error_; ++task) {
      task_begin_ = next_actor_;
      begin_stretch();
      int64_t rest = task;
      for (size_t i = axes.size(); i > 0; --i) {
        values_[axes[i - 1]] = rest % phase.axes[i - 1].extent;
        rest /= phase.axes[i - 1].extent;
      }
      run(body);
    }
  }

  void run(const std::vector<Command>& commands) {
    for (const Command& command : commands) {
      if (error_) return;
      statement_ = command.statement;
      switch (command.kind) {
        case Command::Kind::Loop:
          run_loop(command);
          break;
        case Command::Kind::Thread:
          run_threads(command);
          break;
        case Command::Kind::Barrier:
          begin_stretch();
          break;
        case Command::Kind::Commit:
          arrived_in_.push_back(never);
          break;
        case Command::Kind::Wait:
          wait_for(committed() - std::get<Wait>(command.statement->value).pending);
          break;
        case Command::Kind::If:
          if (holds(command, command.operands[0], std::get<If>(command.statement->value).uniform))
            run(command.body);
          break;
        case Command::Kind::Assign:
          run_assign(command);
          break;
        case Command::Kind::Allocate:
          own_storage(memories_[command.slot]);
          run(command.body);
          break;
        case Command::Kind::Prefetch:
          check_prefetch(command);
          break;
      }
    }
  }

  void check_prefetch(const Command& command) {
    const Buffer& buffer = *memories_[command.slot].buffer;
    const int64_t first = value(command.operands[0]).i;
    const int64_t lines = std::get<PrefetchLines>(command.statement->value).lines;
    const int64_t last = first * size_bytes(buffer.type) + (lines - 1) * prefetched_line_bytes;
    if (first < 0 || last >= buffer.bytes())
      report(fmt::format("a line that is prefetched begins outside of '{}': element {}",
                         buffer.name, first));
  }

  void run_loop(const Command& command) {
    const int64_t begin = value(command.operands[0]).i, end = value(command.operands[1]).i;
    const Loop& loop = std::get<Loop>(command.statement->value);
    if (in_nest_) iterations_.push_back(begin);
    for (int64_t i = begin; i < end && !error_; ++i) {
      values_[command.slot] = i;
      if (in_nest_) iterations_.back() = i;
      if (loop.pipeline && committed() - arrived_ < loop.pipeline->ahead) {
        statement_ = command.statement;
        report(
            fmt::format("an iteration of the pipeline begins with {} groups of copies on their "
                        "way, expected {}",
                        committed() - arrived_, loop.pipeline->ahead));
      }
      run(command.body);
    }
    if (in_nest_) iterations_.pop_back();
  }

  /// Runs the iterations of a thread loop one after another. The threads of a nest are numbered row
  /// by row, so successive iterations of the innermost loop have successive numbers.
  void run_threads(const Command& command) {
    const int64_t threads = value(command.operands[1]).i, outer = thread_;
    const bool is_outermost = !in_nest_;
    in_nest_ = true;
    if (is_outermost) found_.clear();
    for (int64_t i = 0; i < threads && !error_; ++i) {
      values_[command.slot] = i;
      thread_ = outer * threads + i;
      run(command.body);
    }
    thread_ = outer;
    in_nest_ = !is_outermost;
  }

  /// Evaluates a condition. If it is marked uniform, all threads of the nest that evaluate it in
  /// the same iterations of the loops around it must find the same value.
  bool holds(const Command& command, const Node& condition, bool uniform) {
    const bool result = value(condition).i != 0;
    if (!uniform || !in_nest_) return result;
    const auto [found, is_new] = found_.try_emplace({&command, iterations_}, result);
    if (!is_new && found->second != result)
      report("threads find a uniform condition both true and false");
    return result && !error_;
  }

  /// Begins the stretch after a barrier. Writes of the stretch before the barrier are visible to
  /// all threads of the task.
  void begin_stretch() {
    stretch_begin_ = next_actor_;
    next_actor_ += most_threads;
  }
  Actor actor() const { return stretch_begin_ + thread_; }
  /// Returns an actor that stands for several threads of the stretch and differs from each of them.
  Actor several_threads() const { return stretch_begin_ + most_threads - 1; }

  CommitGroup committed() const { return static_cast<CommitGroup>(arrived_in_.size()); }

  /// Makes the groups with indices below `end` arrive. Their elements then count as written in the
  /// current stretch.
  void wait_for(CommitGroup end) {
    for (; arrived_ < end; ++arrived_) arrived_in_[static_cast<size_t>(arrived_)] = stretch_begin_;
  }

  /// Returns the actor that wrote the element. For an asynchronous copy it is the thread that
  /// issued the copy, in the stretch in which the copy arrived. Requires: the copy has arrived.
  Actor writer_of(const Memory& memory, size_t i) const {
    const Actor writer = memory.writer[i];
    const CommitGroup group = memory.commit_group[i];
    if (writer == never || group == never) return writer;
    return arrived_in_[static_cast<size_t>(group)] + writer % most_threads;
  }
  bool is_on_its_way(const Memory& memory, size_t i) const {
    return memory.is_shared && memory.commit_group[i] >= arrived_;
  }

  void run_assign(const Command& command) {
    const Assign& assign = std::get<Assign>(command.statement->value);
    const size_t rank = assign.indices.size();
    const bool is_value =
        !assign.guard || holds(command, command.operands[rank + 1], assign.guard->uniform);
    if (error_) return;
    const bool arrives_late =
        assign.asynchronous && (is_value || dsl::is_zero_bytes(assign.guard->otherwise));
    const Value computed = value(command.operands[is_value ? rank : rank + 2]);
    Memory& memory = memories_[command.slot];
    const auto at = element(memory, command.operands, rank);
    if (error_ || !note_write(memory, at, assign.combine != Combine::None)) return;
    if (memory.is_shared)
      memory.commit_group[static_cast<size_t>(at)] = arrives_late ? committed() : never;
    const DType type = memory.buffer->type;
    const Value old = assign.combine == Combine::None ? Value{} : load(memory, at);
    const Value result = combined(assign.combine, type, old, computed);
    if (is_float(type)) {
      store_float(type, memory.data, at, result.f);
    } else {
      store_int(type, memory.data, at, result.i);
    }
  }

  /// Returns the linear index of an element. Reports an error if an index is outside of its extent.
  int64_t element(const Memory& memory, const std::vector<Node>& indices, size_t rank) {
    const std::vector<int64_t>& extents = memory.buffer->extents;
    int64_t linear = 0;
    for (size_t i = 0; i < rank; ++i) {
      const int64_t index = value(indices[i]).i;
      if (rank != extents.size() || index < 0 || index >= extents[i]) {
        report(memory, fmt::format("dimension {} at {} is outside of [0, {})", i, index,
                                   i < extents.size() ? extents[i] : 0));
        return 0;
      }
      linear = linear * extents[i] + index;
    }
    return linear;
  }

  bool note_write(Memory& memory, int64_t at, bool combines) {
    const auto i = static_cast<size_t>(at);
    if (memory.is_input) return report(memory, "an input is written");
    if (combines && !memory.written[i]) return report(memory, "combined before it was written");
    if (is_on_its_way(memory, i)) return report(memory, not_waited_for(at));
    if (memory.is_shared) {
      if (others(writer_of(memory, i)) || others(memory.reader[i]))
        return report(memory, conflict(at));
      memory.writer[i] = actor();
    } else {
      if (combines && memory.owner[i] != thread_) return report(memory, of_another_thread(at));
      memory.owner[i] = thread_;
    }
    memory.written[i] = 1;
    return true;
  }

  bool note_read(Memory& memory, int64_t at) {
    const auto i = static_cast<size_t>(at);
    if (!memory.written[i])
      return report(memory, fmt::format("element {} is read before it was written", at));
    if (memory.is_input) return true;
    if (!memory.is_shared)
      return memory.owner[i] == thread_ || report(memory, of_another_thread(at));
    if (is_on_its_way(memory, i)) return report(memory, not_waited_for(at));
    if (others(writer_of(memory, i))) return report(memory, conflict(at));
    // One reader is enough. If another task of the phase has read the element, that read conflicts
    // with every later write of this task, so that task stays the reader.
    Actor& reader = memory.reader[i];
    if (!others(reader)) {
      reader = actor();
    } else if (reader >= stretch_begin_) {
      reader = several_threads();
    }
    return true;
  }

  /// True if the actor `number` belongs to another task of this phase, or if it is another thread
  /// of this task and there was no barrier since.
  bool others(Actor number) const {
    if (number < phase_begin_ || number == actor()) return false;
    return number < task_begin_ || number >= stretch_begin_;
  }
  static std::string not_waited_for(int64_t at) {
    return fmt::format("element {} is touched before its copy was waited for", at);
  }
  static std::string of_another_thread(int64_t at) {
    return fmt::format("element {} is private to another thread", at);
  }
  static std::string conflict(int64_t at) {
    return fmt::format(
        "element {} is touched by two tasks of the phase, or by two threads without "
        "a barrier between",
        at);
  }

  static Value load(const Memory& memory, int64_t at) {
    const DType type = memory.buffer->type;
    if (is_float(type)) return {load_float(type, memory.data, at), 0};
    return {0, load_int(type, memory.data, at)};
  }

  Value value(const Node& node) {
    const auto child = [&](size_t i) { return value(node.children[i]); };
    return visit_each(
        node.expr->value,
        [](const dsl::Const& c) {
          return Value{c.float_value, c.int_value};
        },
        [&](const dsl::Var&) {
          return Value{0, values_[node.slot]};
        },
        [&](const dsl::Read&) { return read(node); },
        [&](const dsl::Unary& u) { return apply(u.op, u.a.type(), child(0)); },
        [&](const dsl::Cast& c) { return convert(c.a.type(), c.type, child(0)); },
        [&](const dsl::Select&) { return child(child(0).i ? 1 : 2); },
        [&](const dsl::Binary& b) {
          const Value a = child(0);
          if (b.op == BinaryOp::And) return a.i ? child(1) : Value{0, 0};
          if (b.op == BinaryOp::Or) return a.i ? Value{0, 1} : child(1);
          return apply(b.op, b.a.type(), node.expr->type, a, child(1));
        });
  }

  Value read(const Node& node) {
    Memory& memory = memories_[node.slot];
    const int64_t at = element(memory, node.children, node.children.size());
    if (error_ || !note_read(memory, at)) return {};
    return load(memory, at);
  }

  bool report(const Memory& memory, const std::string& what) {
    return report(fmt::format("buffer '{}': {}", memory.buffer->name, what));
  }
  bool report(const std::string& what) {
    if (error_) return false;
    std::vector<std::string> variables;
    for (const auto& [name, slot] : variables_)
      variables.push_back(fmt::format("{} = {}", name, values_[slot]));
    std::string statement = to_string(Block{*statement_}, 0);
    statement.resize(std::min(statement.find('\n'), statement.size()));
    error_ = Error{ErrorCode::Invalid,
                   fmt::format("[evaluate] {}, in phase {}, statement `{}`, at {}", what,
                               phase_->name, statement, fmt::join(variables, ", "))};
    return false;
  }

  const Program& program_;
  const Phase* phase_ = nullptr;
  const Stmt* statement_ = nullptr;
  std::vector<Memory> memories_;
  std::map<std::string, size_t> buffers_;
  std::map<std::string, size_t> variables_;
  std::vector<int64_t> values_;
  int64_t thread_ = 0;
  bool in_nest_ = false;  ///< inside of thread loops
  /// values of the loops that are inside of the nest and around the statement
  std::vector<int64_t> iterations_;
  /// Values that threads of the nest found for uniform conditions, by command and iterations.
  std::map<std::pair<const Command*, std::vector<int64_t>>, bool> found_;
  Actor next_actor_ = 0, phase_begin_ = 0, task_begin_ = 0, stretch_begin_ = 0;
  CommitGroup arrived_ = 0;  ///< all groups before this one have arrived
  /// for each committed group, the first actor of the stretch in which it arrived; never if it is
  /// in flight
  std::vector<Actor> arrived_in_;
  std::optional<Error> error_;  ///< the first error; it ends the evaluation
};

}  // namespace

Status evaluate(const Program& program, Storage& storage) {
  if (program.preparation) TW_RETURN_IF_ERROR(evaluate(*program.preparation, storage));
  return Evaluator(program).run(storage);
}

}  // namespace tw::schedules
