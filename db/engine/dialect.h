// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the parts of SQL statements that differ between SQLite and PostgreSQL. All other
// SQL is written once, in a form that both engines understand. Parameters are written as `?`. A
// connection to a server replaces them by $1, $2 and so on. Thread-safe.

#include <string_view>

namespace tw::db {

struct Dialect {
  std::string_view row_number;   ///< type and constraint of a primary key that the engine numbers
  std::string_view key_integer;  ///< type of a 64-bit primary key that a writer sets
  std::string_view integer;      ///< type of integers of 64 bits
  std::string_view real;         ///< type of IEEE doubles
  std::string_view text;         ///< type of UTF-8 text that is compared byte by byte
  std::string_view any_text;     ///< type of the bytes of a line that may not be UTF-8
  std::string_view blob;
  std::string_view table_end;  ///< text after the columns of a table with long rows
  /// Text after the columns of a table whose rows are stored in the order of the primary key.
  std::string_view keyed_table_end;
  std::string_view op_index;  ///< expression for the column `op` in the definition of an index
  /// Condition of a query that finds the groups of an operator by an index on `op_index`. On a
  /// server it may also find groups of other operators, because `op_index` has only the beginning
  /// of `op`.
  std::string_view op_condition;
  std::string_view
      /// The columns of the index by which groups are listed, without its first column.
      list_columns;
  /// Name of the function that returns the position of a part in a text, from 1 on; 0 if the text
  /// does not contain the part.
  std::string_view position;
  std::string_view calibration_key;  ///< primary key of the calibrations
  std::string_view now_ms;  ///< expression for the clock of the engine's machine, in ms since 1970
  /// True if Connection::prepare_copy() works. It sends many rows by one request. With INSERT, the
  /// program would wait for the server's reply after each row.
  bool has_copy;
};

/// The parts for SQLite. They must not change, because opening a file compares the text of its
/// schema, letter by letter, with the SQL that is made from these parts.
const Dialect& sqlite_dialect();

const Dialect& postgres_dialect();

}  // namespace tw::db
