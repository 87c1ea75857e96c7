// SPDX-License-Identifier: Apache-2.0
#include "db/engine/statement.h"

#include <fmt/format.h>

namespace tw::db {
namespace {

/// Runs `sql` and returns the first column of its first row, which the member function `read`
/// reads.
template <typename Value>
Result<Value> first_value(Connection& connection, const std::string& sql,
                          Value (Row::*read)(int) const) {
  TW_TRY(Statement statement, Statement::prepare(connection, sql));
  Value value = {};
  TW_TRY(const bool found, statement.one([&](const Row& row) { value = (row.*read)(0); }));
  if (found) return value;
  return fail(ErrorCode::Database, fmt::format("[database] {} gave no answer to {}; check it with "
                                               "`tilewright db verify`",
                                               connection.path(), sql));
}

}  // namespace

Result<int64_t> Connection::integer(const std::string& sql) {
  return first_value(*this, sql, &Row::integer);
}

Result<std::string> Connection::text(const std::string& sql) {
  return first_value(*this, sql, &Row::text);
}

Result<std::unique_ptr<PreparedStatement>> Connection::prepare_copy(std::string_view,
                                                                    std::string_view) {
  TW_CHECK(false, "the engine has no copy");
}

Result<Statement> Statement::prepare(Connection& connection, std::string_view sql) {
  TW_TRY(std::unique_ptr<PreparedStatement> prepared, connection.prepare(sql));
  return Statement(std::move(prepared));
}

Result<Statement> Statement::prepare_copy(Connection& connection, std::string_view table,
                                          std::string_view columns) {
  TW_TRY(std::unique_ptr<PreparedStatement> prepared, connection.prepare_copy(table, columns));
  return Statement(std::move(prepared));
}

Statement& Statement::bind(int64_t value) {
  prepared_->bind(value);
  return *this;
}
Statement& Statement::bind(double value) {
  prepared_->bind(value);
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  prepared_->bind(text);
  return *this;
}
Statement& Statement::bind_blob(std::string_view bytes) {
  prepared_->bind_blob(bytes);
  return *this;
}

Result<bool> Statement::one(const std::function<void(const Row&)>& visit) {
  bool found = false;
  TW_RETURN_IF_ERROR(each([&](const Row& row) {
    found = true;
    visit(row);
    return false;
  }));
  return found;
}

Status Statement::run() {
  return each([](const Row&) { return true; });
}

Status PreparedStatement::run_soon() {
  return each([](const Row&) { return true; });
}

Result<Transaction> Transaction::begin(Connection& connection) {
  TW_RETURN_IF_ERROR(connection.begin(Access::Write));
  return Transaction(&connection);
}

Result<Transaction> Transaction::begin_reading(Connection& connection) {
  if (connection.is_in_transaction()) return Transaction(nullptr);
  TW_RETURN_IF_ERROR(connection.begin(Access::Read));
  return Transaction(&connection);
}

Transaction::~Transaction() {
  if (connection_) connection_->roll_back();
}

Status Transaction::commit() {
  TW_CHECK(connection_, "only what writes is committed");
  TW_RETURN_IF_ERROR(connection_->commit());
  connection_ = nullptr;
  return {};
}

}  // namespace tw::db
