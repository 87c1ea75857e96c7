// SPDX-License-Identifier: Apache-2.0
#pragma once
// Private to db/: the words in which the SQL of the two engines differs. Everything else is written
// once: `?` for parameters, which the connection to a server numbers, ON CONFLICT, and SQL that
// both understand. Thread-safe.

#include <string_view>

namespace tw::db {

struct Dialect {
  std::string_view row_number;   ///< type and constraint of a primary key that the engine counts up
  std::string_view key_integer;  ///< type of a primary key of 64 bits that a writer sets
  std::string_view integer;      ///< 64 bits
  std::string_view real;         ///< IEEE double
  std::string_view text;         ///< UTF-8, compared byte by byte
  std::string_view any_text;     ///< the bytes of a line that may be no UTF-8
  std::string_view blob;
  std::string_view table_end;        ///< after the columns of a table whose rows are long
  std::string_view keyed_table_end;  ///< after those of a table that is stored by its primary key
  std::string_view op_index;         ///< the operator as it stands in an index
  std::string_view op_condition;     ///< finds an operator's groups by it, and perhaps some more
  std::string_view
      list_columns;           ///< columns of an index by which groups are listed, after the first
  std::string_view position;  ///< function: where a text has a part, 0: nowhere
  std::string_view calibration_key;  ///< primary key of the calibrations
  std::string_view now_ms;           ///< the clock of the engine's machine, in ms since 1970
  /// True if Connection::prepare_copy() writes many rows by one request. An INSERT for each row
  /// would wait for the server's answer each time.
  bool has_copy;
};

/// As it stands in files: opening compares their schema with this text, letter by letter.
const Dialect& sqlite_dialect();

const Dialect& postgres_dialect();

}  // namespace tw::db
