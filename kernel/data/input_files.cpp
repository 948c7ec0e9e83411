#include "kernel/data/input_files.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> matches(const std::string& name) {
  std::error_code error;
  if (fs::exists(name, error)) return {name};  // also where its own name has such characters
  glob_t found{};
  const int result = ::glob(name.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> paths;
  if (result == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOMATCH) fail_config("input: there is no file {}", written_path(name));
  if (result != 0) fail_config("input: cannot look for {}: {}", written_path(name), SystemError());
  std::ranges::sort(paths);
  return paths;
}

bool strip(std::string& name, std::string_view ending) {
  if (!name.ends_with(ending)) return false;
  name.resize(name.size() - ending.size());
  return true;
}

InputFile described(const std::string& path, const std::string& folder) {
  InputFile file;
  file.path = path;
  const std::string near = fs::path(path).lexically_proximate(folder).string();
  file.shown = folder.empty() || near.starts_with("..") ? path : near;
  std::string name = path;
  if (strip(name, ".gz")) {
    file.packing = InputFile::Packing::gzip;
  } else if (strip(name, ".zst")) {
    file.packing = InputFile::Packing::zstd;
  }
  if (name.ends_with(".txt")) {
    file.content = InputFile::Content::text;
  } else if (!name.ends_with(".jsonl") && !name.ends_with(".ndjson") && !name.ends_with(".json")) {
    fail_config(
        "input: the name of {} does not say what is in it: .jsonl, .ndjson or .json (an object a "
        "line), .txt (one document), each also with .gz or .zst",
        written_path(path));
  }
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail_config("input: {} is a folder: write {}/*.jsonl", written_path(path), written_path(path));
  }
  return file;
}

// What std::filesystem::equivalent compares; where there is no file, none.
std::set<std::pair<dev_t, ino_t>> files_at(const std::vector<std::string>& paths) {
  std::set<std::pair<dev_t, ino_t>> found;
  for (const std::string& path : paths) {
    struct stat file {};
    if (::stat(path.c_str(), &file) == 0) found.emplace(file.st_dev, file.st_ino);
  }
  return found;
}

}  // namespace

std::vector<InputFile> input_files(const std::vector<std::string>& names,
                                   const std::string& folder,
                                   const std::vector<std::string>& own) {
  std::vector<InputFile> files;
  std::map<std::string, std::string> seen;  // by what a name leads to
  const auto written = files_at(own);
  bool passed_over = false;
  for (const std::string& name : names) {
    for (const std::string& path : matches(name)) {
      const auto here = files_at({path});
      if (!here.empty() && written.contains(*here.begin())) {
        if (path == name) {
          fail_config("output is one of the input files: {} would be replaced", written_path(path));
        }
        passed_over = true;
        continue;
      }
      std::error_code unknown;
      const fs::path real = fs::weakly_canonical(path, unknown);
      const auto [before, is_new] = seen.emplace(unknown ? path : real.string(), path);
      if (!is_new) {
        const bool alike = before->second == path;
        fail_config(
            "input: {} is named twice{}",
            written_path(path),
            alike ? "" : fmt::format(": {} is the same file", written_path(before->second)));
      }
      files.push_back(described(path, folder));
    }
  }
  if (files.empty()) {
    fail_config("input: it names no file{}", passed_over ? " but what is written" : "");
  }
  return files;
}

}  // namespace tessera
