#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folder_place.hpp"
#include "kernel/cli/commands.hpp"
#include "kernel/cli/new_names.hpp"
#include "kernel/cli/show.hpp"
#include "kernel/plugin/search_path.hpp"
#include "tessera/error.hpp"
#include "tessera/io/suggest.hpp"

namespace tessera {
namespace fs = std::filesystem;
namespace {

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

// A file of a template: its name without folders, and its text.
struct TemplateFile {
  std::string name, text;
};

// A template is a plugin that works, examples/plugin_<kind>.
std::vector<TemplateFile> files_of(const fs::path& folder) {
  std::vector<TemplateFile> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    files.push_back({entry.path().filename().string(), read_text_file(entry.path())});
  }
  std::ranges::sort(files, {}, &TemplateFile::name);
  return files;
}

// The name to be replaced: that of the template's CMake project.
std::string project_of(const std::vector<TemplateFile>& files, const fs::path& folder) {
  constexpr std::string_view kStart = "project(";
  const auto file = std::ranges::find(files, "CMakeLists.txt", &TemplateFile::name);
  const std::size_t at = file == files.end() ? std::string::npos : file->text.find(kStart);
  require(at != std::string::npos, "{} names no project", (folder / "CMakeLists.txt").string());
  const std::size_t begin = at + kStart.size();
  return file->text.substr(begin, file->text.find_first_of(" )", begin) - begin);
}

// What is done with the template's configuration, as its first line says after a colon:
// "tessera train lion.toml".
std::string command_of(const std::vector<TemplateFile>& files, const fs::path& folder) {
  for (const TemplateFile& file : files) {
    if (!file.name.ends_with(".toml")) continue;
    constexpr std::string_view kColon = ": tessera ";
    const std::string first = file.text.substr(0, file.text.find('\n'));
    const std::size_t at = first.find(kColon);
    if (at != std::string::npos) return first.substr(at + kColon.size());
  }
  fail("{} has no configuration that says what to do with it", folder.string());
}

// A word as a shell takes it for one.
std::string shell_word(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("_-+=:,.@%/").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::ranges::all_of(text, plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

int run_new(const NewOptions& options) {
  const fs::path prefix = program_path().parent_path().parent_path();
  const fs::path templates = prefix / "share/tessera/templates";
  check_kind(options.kind, known_kinds(templates));
  check_plugin_name(options.name);
  const fs::path source = templates / options.kind;
  const std::vector<TemplateFile> files = files_of(source);
  const Renaming renamed{project_of(files, source), options.name};
  std::set<std::string> names;
  for (const TemplateFile& file : files) {
    if (names.insert(renamed(file.name)).second) continue;
    fail_config(
        "\"{}\" is not a valid name for a plugin of kind {}: two of its files would be {}; choose "
        "another name",
        options.name,
        options.kind,
        renamed(file.name));
  }

  const fs::path folder = (fs::path(options.into) / options.name).lexically_normal();
  std::error_code unknown;
  if (fs::exists(fs::symlink_status(folder, unknown))) {
    fail_config("{} exists already: nothing was written; remove it, or choose another name",
                folder.string());
  }
  make_folder(folder);

  show("Created {}, a working {} plugin\n", folder.string(), options.kind);
  for (const TemplateFile& file : files) {
    const std::string name = renamed(file.name);
    write_output_file((folder / name).string(), renamed(file.text));
    show("  {}\n", name);
  }
  const bool installed = !fs::exists(prefix / "CMakeCache.txt");
  const std::string here = shell_word(prefix.string());
  show("\nIts README.md says what to look at. Build, test and use it:\n");
  if (!installed) show("  cmake --install {} --prefix <PREFIX>\n", here);
  show(
      "  cd {0}\n"
      "  cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH={1}\n"
      "  cmake --build build && ctest --test-dir build\n"
      "  {2} {3}\n",
      shell_word(folder.string()),
      installed ? here : "<PREFIX>",
      installed ? "tessera" : "<PREFIX>/bin/tessera",
      renamed(command_of(files, source)));
  return 0;
}

}  // namespace tessera
