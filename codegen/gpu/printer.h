// SPDX-License-Identifier: Apache-2.0
#pragma once
// A KernelPrinter prints the kernel of a phase. printer.cpp prints the text around the statements,
// and decides which threads execute them (codegen/gpu/roles.h). statements.cpp prints the
// statements of one thread, and tiles.cpp prints tensor tiles. Expressions are printed as in C
// (codegen/c_printer.h). Not thread-safe.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/c_printer.h"
#include "codegen/gpu/dialects.h"
#include "codegen/gpu/roles.h"
#include "codegen/vector_accesses.h"
#include "schedules/program/tensor_tiles.h"
#include "schedules/program/threads.h"

namespace tw::codegen {

class KernelPrinter : CPrinter {
 public:
  KernelPrinter(const schedules::Program& program, const schedules::Phase& phase,
                const DialectRow& dialect);

  /// Returns the text of the kernel, and sets its launch parameters in `kernel`. Requires:
  /// kernel.name is set.
  std::string print_kernel(GpuKernel& kernel);

 private:
  // ---- around the statements (printer.cpp) ----------------------------------------------
  std::string declarations();
  std::string numbers();
  std::string mbarrier_declarations() const;
  std::string pointer(std::string_view space, const Buffer& buffer, const std::string& address);

  // ---- roles (printer.cpp) --------------------------------------------------------------
  void print_phase();
  void print_tasks(const std::function<void(int indent)>& print_task, int indent);
  void print_producer(const Block& body, int indent);
  /// Prints statements that all threads of the block reach together. Statements that only thread 0
  /// executes are put under `if (thread == 0)`; consecutive ones share one condition.
  void print_uniform(const Block& block, int indent);
  /// Prints one statement that all threads of the block reach together and execute. Requires:
  /// concerns_all(stmt) (codegen/gpu/roles.h).
  void print_uniform(const schedules::Stmt& stmt, bool is_last, int indent);
  void print_once(const Block& statements, int indent);
  using PrintBody = std::function<void(const Block& body, int indent)>;
  void print_nest(const schedules::Loop& loop, const PrintBody& print_inside, int indent);
  void print_overlapped(const Block& block, size_t i, size_t nest, int indent);
  void print_reduction(const schedules::Loop& loop, int indent);
  std::string combined(std::string_view target, dsl::Combine combine, const Expr& a, const Expr& b);
  void print_body(const Block& block, int indent) override;
  /// Calls `print`, which prints statements that the threads of a block do not execute together:
  /// each thread may reach them at another time, or not at all.
  template <typename F>
  void print_divergent(F&& print) {
    is_block_uniform_ = false;
    print();
    is_block_uniform_ = true;
  }

  // ---- statements (statements.cpp) ------------------------------------------------------
  void print_loop(const schedules::Loop& loop, int indent) override;
  std::string pragma_of(const schedules::Loop& loop) const;
  bool is_row_loop(const schedules::Loop& loop) const;
  void print_pipeline(const schedules::Loop& loop, int indent);
  void print_allocate(const schedules::Allocate& allocate, bool is_last, int indent) override;
  int64_t own_elements(const Buffer& buffer) const;

  // Each of these functions tries to print a vector loop as accesses of several elements at once.
  // If the loop does not have the form that the function handles, it returns false and prints
  // nothing.
  bool print_vectors(const schedules::Loop& loop, int indent);
  bool print_scatter(const schedules::Loop& loop, int indent);
  bool print_vector_store(const schedules::Loop& loop, int indent);
  void print_lanes(const VectorStore& store, int indent);
  void hold_lanes(const VectorStore::Load& load, std::vector<std::string>& loads);
  std::optional<VectorAccess> vector_access_of(const schedules::Loop& loop) const;
  VectorBuffer vector_buffer(const std::string& name) const;

  void print_assign(const schedules::Assign& assign, int indent) override;
  void print_branches(const schedules::Branches& branches, int indent) override;
  struct Copy {
    std::string to, from;  ///< text of the first element that is written, or read
    int64_t bytes;
  };
  static std::string asynchronous(const Copy& copy, const std::string& condition = "");
  std::optional<Copy> copy_of(const Block& body);
  bool is_asynchronous(const schedules::Assign& assign, int64_t bytes) const;

  void print_barrier(int indent);
  /// Prints the commit of a group of asynchronous copies if `wait` is null, else the wait. Prints
  /// nothing if the copies are synchronous.
  void print_order(const schedules::Wait* wait, int indent);
  void print_tma_order(const schedules::Wait* wait, int indent);
  void print_end_of_pipeline(bool of_producer, int indent);
  void print_leave(int indent);
  void print_wait_at(std::string_view mbarriers, int indent);
  /// Prints the loop nest of a TMA copy as one copy instruction. Returns false and prints nothing
  /// if thread 0 must copy the elements one by one.
  bool print_tma_copy(const schedules::Loop& loop, int indent);
  int mbarriers_shift() const;
  std::string placed(const Buffer& buffer, const std::string& index) const override;

  // ---- tensor tiles (tiles.cpp) ---------------------------------------------------------
  void print_tile(const schedules::TensorNest& nest, int indent);
  void declare_factors(std::string_view name, const schedules::TensorTile& tile,
                       const dsl::Read& factor, const std::vector<Expr>& indices, int indent);
  std::string packed_factors(const schedules::TensorTile& tile, const dsl::Read& factor,
                             const std::vector<Expr>& indices, int64_t begin, int64_t end);
  std::set<std::string> issue_tiles(const schedules::Loop& loop, int indent);
  void print_issued(const schedules::Loop& loop, int indent);
  void print_awaited(const std::set<std::string>& sums, int indent);
  void print_warpgroup_tile(const schedules::TensorNest& nest, int indent);
  std::string descriptor(const Buffer& buffer, const schedules::FactorLayout& layout,
                         const std::vector<Expr>& first);

  const DialectRow& dialect_;
  const FindBuffer find_buffer_;
  const KernelPlan plan_;
  bool is_block_uniform_ = true;  // true if all threads execute what is being printed
  bool uses_thread_ = false;
  // The nest of thread loops whose statements are being printed; null outside of such nests.
  const schedules::ThreadNest* nest_ = nullptr;
  std::set<std::string> as_vectors_;  // names of arrays that are accessed as vectors
  std::string producer_text_;         // text of the producer warps
};

}  // namespace tw::codegen
