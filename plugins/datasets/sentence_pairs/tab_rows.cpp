#include "tab_rows.hpp"

#include <algorithm>

#include "tessera/error.hpp"

namespace tessera {

void BadRows::add(const TabRow& row, std::string_view what) {
  if (!leave_out) fail_config("{}: {}{}", row.where, what, advice);
  ++left_out;
}

void for_each_row(std::string_view text,
                  std::string_view file,
                  BadRows& bad,
                  const std::function<void(const TabRow&)>& first,
                  const std::function<void(const TabRow&)>& take) {
  if (text.empty()) fail_config("{} is empty; its first line names columns", file);
  TabRow row;
  std::size_t named = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view rest = text.substr(at, end - at);
    at = end + 1;
    row.columns.clear();
    for (std::size_t tab = 0; tab != rest.npos; rest.remove_prefix(tab + 1)) {
      tab = rest.find('\t');
      row.columns.push_back(rest.substr(0, tab));
      if (tab == rest.npos) break;
    }
    row.where = fmt::format("{}:{}", file, ++row.line);
    if (row.line == 1) {
      named = row.columns.size();
      first(row);
    } else if (row.columns.size() == named) {
      take(row);
    } else {
      bad.add(row, fmt::format("{} columns, its first line has {}", row.columns.size(), named));
    }
  }
}

}  // namespace tessera
