#include "kernel/data/input_files.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

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

}  // namespace

std::vector<InputFile> input_files(const std::vector<std::string>& names,
                                   const std::string& folder,
                                   const std::string& own) {
  std::vector<InputFile> files;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    for (const std::string& path : matches(name)) {
      if (path == own) continue;
      if (!seen.insert(path).second) {
        fail_config("input: {} is named twice", written_path(path));
      }
      files.push_back(described(path, folder));
    }
  }
  if (files.empty()) fail_config("input: it names no file");
  return files;
}

}  // namespace tessera
