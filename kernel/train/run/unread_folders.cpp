#include "kernel/train/run/unread_folders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using JsonTree = nlohmann::json;

// One of the steps from a text to its vector.
struct VectorStep {
  std::string path;  // a folder in the model's; empty: the model itself
  std::string type;  // "Pooling", of "sentence_transformers.models.Pooling"
};

std::vector<VectorStep> modules_in(const fs::path& folder) {
  const fs::path file = folder / "modules.json";
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown)) return {};
  const auto json = parse_json<JsonTree, ConfigError>(read_text_file(file), file.string());
  std::vector<VectorStep> modules;
  reading_file<ConfigError>(file.string(), [&] {
    for (const JsonTree& one : json) {
      const auto type = one.at("type").get<std::string>();
      modules.push_back(
          {one.at("path").get<std::string>(), type.substr(type.find_last_of('.') + 1)});
    }
  });
  return modules;
}

// The modes of a pooling that are on, as its config.json has them: keys that are true, or a text.
std::vector<std::string> pooling_modes(const fs::path& file) {
  const auto json = parse_json_object<JsonTree, ConfigError>(read_text_file(file), file.string());
  constexpr std::string_view kKey = "pooling_mode";
  std::vector<std::string> modes;
  for (const auto& [key, value] : json.items()) {
    if (!key.starts_with(kKey)) continue;
    if (value.is_string()) modes.push_back(value.get<std::string>());
    if (value == true) modes.push_back(key.substr(std::min(key.size(), kKey.size() + 1)));
  }
  return modes;
}

void tell_pooling(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  std::error_code unknown;
  std::vector<std::string> modes;
  if (fs::is_regular_file(file, unknown)) modes = pooling_modes(file);
  const std::string name = written_path(folder);
  const auto is = [&](const char* text, const char* key) {
    return modes.size() == 1 && (modes[0] == text || modes[0] == key);
  };
  if (is("mean", "mean_tokens")) {
    log_info(
        "{} is not read: it takes the mean of all tokens, and so does tessera eval embed "
        "(--pooling mean, the default)",
        name);
  } else if (is("cls", "cls_token")) {
    log_info("{} is not read: it takes the first token; give tessera eval embed --pooling cls",
             name);
  } else {
    log_warning(
        "{} is not read: its pooling_mode is {}; tessera eval embed does not have it: --pooling "
        "mean, cls (the first token) or none (all of them) is",
        name,
        modes.empty() ? "not said" : written_plain(fmt::format("{}", fmt::join(modes, " and "))));
  }
}

}  // namespace

void tell_unread_folders(const fs::path& folder) {
  std::vector<std::string> told;
  for (const VectorStep& step : modules_in(folder)) {
    if (step.path.empty()) continue;
    const fs::path path = folder / step.path;
    const bool within = step.path != ".." && step.path.find('/') == std::string::npos;
    told.push_back(path.filename().string());
    if (step.type == "Pooling" && within) {
      tell_pooling(path);
    } else if (step.type == "Normalize") {
      log_info(
          "{} is not read: it scales vectors to a length of 1, and tessera eval embed does not; "
          "their cosines are the same",
          written_path(path));
    } else {
      log_warning(
          "{} is not read: it is a module {} of sentence-transformers, and tessera eval embed "
          "gives vectors without it",
          written_path(path),
          quote(step.type));
    }
  }
  std::vector<std::string> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_directory() || name.starts_with('.')) continue;
    if (std::ranges::find(told, name) == told.end()) others.push_back(written_plain(name));
  }
  std::ranges::sort(others);
  if (!others.empty()) log_info("{}: not read: {}", written_path(folder), name_list(others));
}

}  // namespace tessera
