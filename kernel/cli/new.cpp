#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernel/cli/commands.hpp"
#include "kernel/plugin/search_path.hpp"
#include "tessera/error.hpp"
#include "tessera/suggest.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

// A template is a plugin that works, examples/plugin_<kind>. Its own name, which its CMakeLists.txt
// says, is replaced: my_norm in names of files, targets and components, MyNorm in those of classes.

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  require(in.good() || in.eof(), "cannot read {}", path.string());
  return text;
}

std::vector<std::string> known_kinds(const fs::path& templates) {
  std::vector<std::string> kinds;
  std::error_code error;
  for (fs::directory_iterator at(templates, error), end; !error && at != end; at.increment(error)) {
    kinds.push_back(at->path().filename().string());
  }
  require(!kinds.empty(),
          "there are no templates in {}: install Tessera as a whole (cmake --install)",
          templates.string());
  std::ranges::sort(kinds);
  return kinds;
}

void check_kind(const std::string& kind, const std::vector<std::string>& known) {
  if (std::ranges::count(known, kind) > 0) return;
  const auto near = nearest(kind, known);
  fail_config("there is no template for a plugin of kind \"{}\"{}; there is one for each of {}",
              kind,
              near ? fmt::format(": did you mean \"{}\"?", *near) : "",
              fmt::join(known, ", "));
}

void check_name(const std::string& name) {
  const auto sound = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || !(name[0] >= 'a' && name[0] <= 'z') || !std::ranges::all_of(name, sound)) {
    fail_config("\"{}\" is no name for a plugin: use a-z, 0-9 and _, a letter first", name);
  }
  for (const fs::path& folder : plugin_search_path()) {
    const fs::path library = folder / fmt::format("libtessera_{}.so", name);
    if (fs::exists(library)) {
      fail_config(
          "there is a plugin \"{}\" already, {}; choose another name", name, library.string());
    }
  }
}

std::string class_name(std::string_view name) {
  std::string made;
  bool upper = true;
  for (const char c : name) {
    if (c != '_') made += upper ? static_cast<char>(std::toupper(c)) : c;
    upper = c == '_';
  }
  return made;
}

bool is_small(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_letter(char c) { return is_small(c) || (c >= 'A' && c <= 'Z'); }

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

std::string project_of(const fs::path& folder) {
  const std::string text = read_file(folder / "CMakeLists.txt");
  constexpr std::string_view kStart = "project(";
  const std::size_t at = text.find(kStart);
  require(at != text.npos, "{} names no project", (folder / "CMakeLists.txt").string());
  const std::size_t begin = at + kStart.size();
  return text.substr(begin, text.find_first_of(" )", begin) - begin);
}

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

int run_new(const NewOptions& options) {
  const fs::path prefix = program_path().parent_path().parent_path();
  const fs::path templates = prefix / "share/tessera/templates";
  check_kind(options.kind, known_kinds(templates));
  check_name(options.name);
  const fs::path folder = (fs::path(options.into) / options.name).lexically_normal();
  std::error_code error;
  fs::create_directories(folder.parent_path().empty() ? "." : folder.parent_path(), error);
  if (fs::exists(fs::symlink_status(folder))) {
    fail_config("{} exists already: nothing was written; remove it, or choose another name",
                folder.string());
  }
  fs::create_directory(folder, error);
  require(!error, "cannot make the folder {}: {}", folder.string(), error.message());

  const fs::path source = templates / options.kind;
  const std::string old = project_of(source);
  const auto renamed = [&](std::string text) {
    text = replaced(std::move(text), old, options.name);
    return replaced(std::move(text), class_name(old), class_name(options.name));
  };
  fmt::print("{}: a plugin that works, of kind {}\n", folder.string(), options.kind);
  for (const fs::path& file : files_of(source)) {
    const std::string name = renamed(file.filename().string());
    write_output_file((folder / name).string(), renamed(read_file(file)));
    fmt::print("  {}\n", name);
  }
  const bool installed = !fs::exists(prefix / "CMakeCache.txt");
  fmt::print("\nIts README.md says what to look at. Build, test and train:\n");
  if (!installed) fmt::print("  cmake --install {} --prefix <PREFIX>\n", prefix.string());
  fmt::print(
      "  cd {0}\n"
      "  cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH={1}\n"
      "  cmake --build build && ctest --test-dir build\n"
      "  {2} train {3}.toml\n",
      folder.string(),
      installed ? prefix.string() : "<PREFIX>",
      installed ? "tessera" : "<PREFIX>/bin/tessera",
      options.name);
  return 0;
}

}  // namespace tessera
