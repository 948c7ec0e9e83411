#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/types.hpp"

namespace tessera {

/// White space of ASCII.
inline constexpr std::string_view kBlanks = " \t\r\n\f\v";

/// A line of a file whose columns have tabs between them.
struct TabRow {
  std::vector<std::string_view> columns;  ///< of the file's text, the last with any \r
  i64 line = 0;                           ///< from 1 on
  std::string where;                      ///< "train.tsv:17"
};

/// What becomes of rows that have no sample: an error, or they are left out and counted.
struct BadRows {
  bool leave_out = false;
  std::string advice = {};  ///< follows the text of the error
  i64 left_out = 0;

  /// Throws ConfigError "train.tsv:17: what" unless rows are left out.
  void add(const TabRow& row, std::string_view what);
};

/// Calls first(row) with the line that names the columns, then take(row) with each other one; an
/// empty last line is none. `bad` gets those that have another number of columns than the first:
/// "train.tsv:17: 11 columns, its first line has 12". Throws ConfigError for a file without lines.
void for_each_row(std::string_view text,
                  std::string_view file,
                  BadRows& bad,
                  const std::function<void(const TabRow&)>& first,
                  const std::function<void(const TabRow&)>& take);

}  // namespace tessera
