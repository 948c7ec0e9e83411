#include "kernel/cli/new_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/plugin/host.hpp"
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

// The types, concepts and aliases that a C++ source declares, a line each. Of a header what is in
// another class stays in there; clang-format shows by its indentation which is.
std::vector<std::string> declared_names(std::string_view text, bool outermost) {
  std::vector<std::string> names;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (outermost && line.starts_with(' ')) continue;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    for (const std::string_view word : {"class ", "struct ", "enum class ", "concept ", "using "}) {
      if (!line.starts_with(word)) continue;
      std::string_view rest = line.substr(word.size());
      constexpr std::string_view kExported = "TESSERA_API ";
      if (rest.starts_with(kExported)) rest.remove_prefix(kExported.size());
      const auto* end = std::ranges::find_if_not(rest, is_letter);
      names.emplace_back(rest.begin(), end);
    }
  }
  return names;
}

// Names by the header that declares them. Both of a build tree's folders are one when installed.
std::map<std::string, std::string> names_of_sdk(const fs::path& prefix) {
  std::map<std::string, std::string> names;
  for (const fs::path& root : {prefix / "include", prefix / "generated"}) {
    if (!fs::is_directory(root / "tessera")) continue;
    const auto follow = fs::directory_options::follow_directory_symlink;
    for (const auto& entry : fs::recursive_directory_iterator(root / "tessera", follow)) {
      if (entry.path().extension() != ".hpp") continue;
      const std::string header = entry.path().lexically_relative(root).string();
      for (std::string& name : declared_names(read_text_file(entry.path()), true)) {
        names.try_emplace(std::move(name), fmt::format("<{}>", header));
      }
    }
  }
  require(!names.empty(),
          "there are no headers in {}: install Tessera as a whole (cmake --install)",
          (prefix / "include/tessera").string());
  return names;
}

void check_component(const std::string& kind, const std::string& name, const PluginHost& host) {
  // An operation is no component: a layer that calls it comes with it.
  const bool is_kind = !host.of_kind(kind).empty();
  for (const std::string& of : is_kind ? std::vector{kind} : host.kinds()) {
    if (host.find(of, name) == nullptr) continue;
    fail_config("there is a component {}/{} already, of {}; choose another name",
                of,
                name,
                host.library_of(of, name));
  }
}

void check_files(const std::string& kind,
                 const Renaming& renamed,
                 const std::vector<TemplateFile>& files) {
  std::set<std::string> made;
  for (const TemplateFile& file : files) {
    const std::string name = renamed(file.name);
    if (made.insert(name).second) continue;
    fail_config(
        "\"{}\" is not a valid name for a plugin of kind {}: two of its files would be {}; choose "
        "another "
        "name",
        renamed.to,
        kind,
        name);
  }
}

void check_classes(const std::string& kind,
                   const Renaming& renamed,
                   const std::vector<TemplateFile>& files,
                   const fs::path& prefix) {
  std::map<std::string, std::string> taken = names_of_sdk(prefix);
  std::set<std::string> made;
  for (const TemplateFile& file : files) {
    if (!file.name.ends_with("pp")) continue;
    for (std::string& name : declared_names(file.text, false)) {
      const std::string now = renamed(name);
      if (now != name) {
        made.insert(now);
      } else {
        taken.try_emplace(std::move(name), "the template's " + file.name);
      }
    }
  }
  for (const std::string& name : made) {
    const auto at = taken.find(name);
    if (at == taken.end()) continue;
    fail_config(
        "\"{}\" is not a valid name for a plugin of kind {}: it would declare {}, and so does {}; "
        "choose "
        "another name",
        renamed.to,
        kind,
        name,
        at->second);
  }
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

void check_new_plugin(const std::string& kind,
                      const Renaming& renamed,
                      const std::vector<TemplateFile>& files,
                      const fs::path& prefix,
                      const PluginHost& host) {
  check_component(kind, renamed.to, host);
  check_files(kind, renamed, files);
  check_classes(kind, renamed, files, prefix);
}

}  // namespace tessera
