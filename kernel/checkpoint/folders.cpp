#include "kernel/checkpoint/folders.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "kernel/checkpoint/safetensors_file.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "step-";

std::optional<i64> step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  i64 step = 0;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [at, error] = std::from_chars(begin, end, step);
  return error == std::errc() && at == end && begin != end ? std::optional(step) : std::nullopt;
}

}  // namespace

fs::path step_folder(const fs::path& folder, i64 step) {
  return folder / fmt::format("{}{}", kPrefix, step);
}

std::vector<fs::path> complete_steps(const fs::path& folder) {
  std::vector<std::pair<i64, fs::path>> found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::optional<i64> step = step_of(entry.path());
    if (step && fs::exists(entry.path() / "index.json")) found.emplace_back(*step, entry.path());
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<fs::path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void remove_old(const fs::path& folder, i64 keep) {
  const std::vector<fs::path> steps = complete_steps(folder);
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i) {
    fs::remove(steps[i] / "index.json");  // first: without it the rest is no checkpoint
    fs::remove_all(steps[i]);
  }
}

void replace_folder(const fs::path& temporary, const fs::path& target) {
  const fs::path old = target.string() + ".old.tmp";
  fs::remove_all(old);
  if (fs::exists(target)) fs::rename(target, old);
  fs::rename(temporary, target);
  sync_to_disk(target.parent_path());
  fs::remove_all(old);
}

void write_synced(const fs::path& file, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> out(std::fopen(file.c_str(), "wb"),
                                                            &std::fclose);
  require(out != nullptr && std::fwrite(text.data(), 1, text.size(), out.get()) == text.size() &&
              std::fflush(out.get()) == 0,
          "cannot write {}: {}",
          file.string(),
          std::strerror(errno));
  sync_to_disk(file);
}

std::string join_lines(const std::vector<fs::path>& lines) {
  std::string text;
  for (const fs::path& line : lines) text += line.string() + "\n";
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace tessera
