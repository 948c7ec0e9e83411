#include "kernel/cli/new_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "kernel/plugin/search_path.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

bool is_small(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_letter(char c) { return is_small(c) || (c >= 'A' && c <= 'Z'); }

std::string class_name(std::string_view name) {
  std::string made;
  bool upper = true;
  for (const char c : name) {
    if (c != '_') made += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = c == '_';
  }
  return made;
}

// Replaces a word: part of a longer name (LionArgs, tessera_lion), but not of another word.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at)) {
    const std::size_t end = at + from.size();
    const bool starts = at == 0 || !is_letter(text[at - 1]);
    const bool ends = end == text.size() || !is_small(text[end]);
    if (starts && ends) text.replace(at, from.size(), to);
    at += starts && ends ? to.size() : 1;
  }
  return text;
}

}  // namespace

std::string Renaming::operator()(std::string text) const {
  text = replaced(std::move(text), from, to);
  return replaced(std::move(text), class_name(from), class_name(to));
}

void check_plugin_name(const std::string& name) {
  constexpr std::size_t kMostLetters = 64;
  const auto sound = [](char c) { return is_small(c) || c == '_'; };
  if (name.empty() || !(name[0] >= 'a' && name[0] <= 'z') || !std::ranges::all_of(name, sound)) {
    fail_config("\"{}\" is not a valid name for a plugin: use a-z, 0-9 and _, a letter first",
                name);
  }
  if (name.size() > kMostLetters) {
    fail_config("the name of a plugin has at most {} letters, and this one has {}",
                kMostLetters,
                name.size());
  }
  if (name == "none" || name == "auto") {
    fail_config(
        "\"{}\" is not a valid name for a plugin: a configuration means something else by it",
        name);
  }
  for (const fs::path& folder : plugin_search_path()) {
    const fs::path library = folder / fmt::format("libtessera_{}.so", name);
    if (fs::exists(library)) {
      fail_config(
          "there is a plugin \"{}\" already, {}; choose another name", name, library.string());
    }
  }
}

}  // namespace tessera
