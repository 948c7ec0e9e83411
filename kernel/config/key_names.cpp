#include "kernel/config/key_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "kernel/config/names.hpp"
#include "kernel/config/toml.hpp"

namespace tessera {
namespace {

constexpr std::string_view kDashes = "--";

// The words of a flag have "-" between, those of a key "_".
std::string with_dashes(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', '-');
  return out;
}

std::string flag_of(std::string_view name) {
  std::string flag = with_dashes(name);
  return flag.starts_with(kDashes) ? flag : std::string(kDashes) + flag;
}

std::vector<std::string> words_of(const std::string& names) {
  std::istringstream in(names);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

void add_once(std::vector<std::string>& paths, std::string path) {
  if (std::ranges::count(paths, path) == 0) paths.push_back(std::move(path));
}

std::string with_path(std::string words, std::string_view path) {
  const std::size_t at = words.find("{}");
  return at == words.npos ? words : words.replace(at, 2, path);
}

}  // namespace

KeyNames::KeyNames(const std::vector<KeyTable>& tables) {
  for (const KeyTable& table : tables) {
    for (const KeyRow& row : table.rows) {
      for (const std::string& flag : words_of(row.megatron)) {
        std::vector<std::string>& keys = flags_[flag];
        add_once(keys, join_path(table.path, row.name));
        for (const std::string& place : table.also) add_once(keys, join_path(place, row.name));
      }
      for (const auto& [names, words] : row.also) {
        for (const std::string& name : words_of(names)) {
          notes_.emplace(with_dashes(name), with_path(words, join_path(table.path, row.name)));
        }
      }
    }
  }
  for (const TomlItem& item : parse_toml(kNames, Origin())) {
    if (!item.value) continue;
    const std::string name = item.path.substr(item.path.find('.') + 1);
    const bool flag = item.path.starts_with("megatron.");
    notes_.emplace(flag ? flag_of(name) : with_dashes(name),
                   std::get<std::string>(item.value->data));
  }
}

std::vector<std::string> KeyNames::keys_of(std::string_view name) const {
  const auto found = flags_.find(flag_of(name));
  return found == flags_.end() ? std::vector<std::string>() : found->second;
}

std::string KeyNames::hint(std::string_view name) const {
  const std::string flag = flag_of(name);
  if (const auto keys = flags_.find(flag); keys != flags_.end()) {
    return fmt::format("Megatron-LM's {} is {} here", flag, fmt::join(keys->second, " or "));
  }
  if (const auto note = notes_.find(flag.substr(kDashes.size())); note != notes_.end()) {
    return fmt::format("{} {}", name, note->second);
  }
  const auto note = notes_.find(flag);
  return note == notes_.end() ? "" : fmt::format("Megatron-LM's {} {}", flag, note->second);
}

}  // namespace tessera
