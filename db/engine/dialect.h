// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the words that differ between the SQL of SQLite and of PostgreSQL. All other SQL
// is written once, in a form that both engines understand, with `?` for parameters (a connection to
// a server replaces `?` by numbers). Thread-safe.

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
  /// Text after the columns of a table that is stored by its primary key.
  std::string_view keyed_table_end;
  std::string_view op_index;  ///< the column `op` in the definition of an index
  /// Condition that finds the groups of an operator by that index, and possibly others.
  std::string_view op_condition;
  std::string_view
      list_columns;  ///< columns, after the first, of the index by which groups are listed
  /// Name of the function that finds a part in a text; it returns 0 if there is none.
  std::string_view position;
  std::string_view calibration_key;  ///< primary key of the calibrations
  std::string_view now_ms;  ///< expression for the clock of the engine's machine, in ms since 1970
  /// True if Connection::prepare_copy() writes many rows by one request. An INSERT for each row
  /// would wait for the server's answer each time.
  bool has_copy;
};

/// The words of SQLite. They must not change: opening a file compares its schema with this text,
/// letter by letter.
const Dialect& sqlite_dialect();

const Dialect& postgres_dialect();

}  // namespace tw::db
