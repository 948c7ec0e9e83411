// Keys as text for terminals and as Markdown.
#include <fmt/format.h>

#include <algorithm>

#include "kernel/config/key_names.hpp"

namespace tessera {
namespace {

std::string heading(const KeyTable& table) {
  if (table.kind.empty()) return fmt::format("[{}]", table.path);
  return fmt::format("[{}] type = \"{}\"", table.path, table.type);
}

std::string also_text(const KeyTable& table, std::string_view mark) {
  constexpr std::size_t kShown = 6;
  std::string out;
  for (std::size_t i = 0; i < table.also.size() && i < kShown; ++i) {
    out += fmt::format("{0}{1}[{2}]{1}", i == 0 ? "" : ", ", mark, table.also[i]);
  }
  return out + (table.also.size() > kShown ? ", …" : "");
}

// Escapes a cell of a Markdown table. Code keeps its characters, but for what would end the cell.
std::string cell(std::string_view text) {
  std::string out;
  bool code = false;
  for (const char c : text) {
    if (c == '`') code = !code;
    if (c == '|' || (!code && (c == '*' || c == '<' || c == '_'))) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string code(std::string_view text) { return cell(fmt::format("`{}`", text)); }

// A name keeps its first letter: trace.json, x86-64.
std::string capital(std::string text) {
  const std::string_view word = std::string_view(text).substr(0, text.find_first_of(" ,:;"));
  const bool is_name = word.find_first_of("._0123456789") != std::string_view::npos;
  const bool small = !text.empty() && text[0] >= 'a' && text[0] <= 'z';
  if (small && !is_name) text[0] = static_cast<char>(text[0] - 32);
  if (!text.empty() && text.back() != '.') text += '.';
  return text;
}

// Lines of at most 100 columns.
std::string wrapped(std::string_view text) {
  constexpr std::size_t kColumns = 100;
  std::string out;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (column > 0) out += column + 1 + end > kColumns ? '\n' : ' ';
    column = column == 0 || out.back() == '\n' ? end : column + 1 + end;
    out += text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string table_markdown(const KeyTable& table) {
  std::string out;
  if (table.kind.empty()) {
    out += fmt::format("\n## [{}]\n\n{}\n", table.path, wrapped(capital(table.doc)));
  } else {
    const std::string also = table.also.empty() ? "" : " Also at " + also_text(table, "`") + ".";
    out += fmt::format("\n### [{}] type = \"{}\"{}\n\n{}\n",
                       table.path,
                       table.type,
                       table.initial ? "" : " (an alternative)",
                       wrapped(capital(table.doc) + also));
  }
  if (table.rows.empty()) return out + "\nNo keys of its own.\n";
  out += "\n| key | type | default | | Megatron-LM |\n|---|---|---|---|---|\n";
  for (const KeyRow& row : table.rows) {
    out += fmt::format("| {} | {} | {} | {} | {} |\n",
                       code(row.name),
                       cell(row.type),
                       cell(row.initial),
                       cell(row.doc) + (row.structural ? " (structural)" : ""),
                       row.megatron.empty() ? "" : code(row.megatron));
  }
  return out;
}

}  // namespace

std::string rows_text(const std::vector<KeyRow>& rows) {
  if (rows.empty()) return "  no keys of its own\n";
  std::size_t name = 0, type = 0, initial = 0;
  for (const KeyRow& row : rows) {
    name = std::max(name, row.name.size());
    type = std::max(type, row.type.size());
    initial = std::max(initial, row.initial.size());
  }
  std::string out;
  for (const KeyRow& row : rows) {
    const std::string flag =
        row.megatron.empty() ? "" : fmt::format(" (Megatron: {})", row.megatron);
    out += fmt::format("  {:<{}}   {:<{}}   {:<{}}   {}{}{}\n",
                       row.name,
                       name,
                       row.type,
                       type,
                       row.initial,
                       initial,
                       row.doc,
                       row.structural ? " (structural)" : "",
                       flag);
  }
  return out;
}

std::string keys_text(const std::vector<KeyTable>& tables) {
  std::string out;
  for (const KeyTable& table : tables) {
    out += fmt::format("{}{}   {}\n", out.empty() ? "" : "\n", heading(table), table.doc);
    if (!table.also.empty()) out += fmt::format("  also {}\n", also_text(table, ""));
    out += rows_text(table.rows);
  }
  return out;
}

std::string keys_markdown(const std::vector<KeyTable>& tables) {
  std::string out =
      "# Every key of a configuration\n\n"
      "Written by `tessera config keys --markdown`; `tessera config keys SECTION` prints a part.\n"
      "Tables are in the order of a dump. A component's keys are in the table that its `type` is\n"
      "in. \"From\" another key means: that key's value, where this one is not written. Keys that\n"
      "are \"set by the parent\" are set by the component around them: to write one is an error.\n"
      "Where a float's range is open, it is at most 1e+38 in size. A \"structural\" key changes\n"
      "what parameters compute: a checkpoint is not taken with another value of it.\n"
      "[MEGATRON.md](MEGATRON.md) leads from Megatron-LM's flags to these keys.\n";
  for (const KeyTable& table : tables) out += table_markdown(table);
  return out;
}

std::string megatron_markdown(const std::vector<KeyTable>& tables) {
  std::string out =
      "## Flags\n\n"
      "From here on this page is written by `tessera config keys --megatron`: each key names its\n"
      "flag. `tessera config keys SECTION` says what the key means and which values it takes; "
      "what\n"
      "a flag switches off (`--disable-bias-linear`) is `false` here.\n\n"
      "| Megatron-LM | here |\n|---|---|\n";
  const KeyNames names(tables);
  for (const auto& [flag, keys] : names.flags()) {
    std::string places;
    for (const std::string& key : keys) places += (places.empty() ? "" : ", ") + code(key);
    out += fmt::format("| {} | {} |\n", code(flag), places);
  }
  return out;
}

}  // namespace tessera
