#include "kernel/train/run/run_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"
#include "tessera/io/json.hpp"
#include "tessera/io/output_file.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"
#include "tessera/observer.hpp"

namespace tessera {

namespace {

using JsonTree = nlohmann::json;

std::string now_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string plugin_text(const PluginHost::Fingerprint& plugin) {
  return fmt::format(
      "{} {}, ABI {}, file {:016x}", plugin.plugin, plugin.version, plugin.stamp, plugin.hash);
}

// The last start that a file tells of; null where there is none that can be read.
JsonTree last_start(const std::string& text) {
  JsonTree last;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    JsonTree json;  // null: the line is half-written, or none of ours
    try {
      json = parse_json<JsonTree>(line, "history.jsonl");
    } catch (const Error&) {
      continue;
    }
    if (json.is_object() && json.value("event", JsonTree()) == "start") last = std::move(json);
  }
  return last;
}

std::string text_in(const JsonTree& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Plugins that have changed, by name.
std::string other_plugins(const JsonTree& before, const RunPart& part) {
  constexpr std::size_t kShown = 8;
  std::map<std::string, int> seen;  // each text, before - now
  const auto plugins = before.find("plugins");
  if (plugins != before.end() && plugins->is_array()) {
    for (const JsonTree& plugin : *plugins) {
      if (plugin.is_string()) ++seen[plugin.get<std::string>()];
    }
  }
  for (const auto& plugin : part.plugins) --seen[plugin_text(plugin)];
  std::vector<std::string> names;
  for (const auto& [text, count] : seen) {
    const std::string name = written_plain(text.substr(0, text.find(' ')));
    if (count != 0 && (names.empty() || names.back() != name)) names.push_back(name);
  }
  if (names.empty()) return "";
  const std::size_t shown = std::min(names.size(), kShown), more = names.size() - shown;
  names.resize(shown);
  return fmt::format("other versions or files of the plugins {}{}",
                     fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// What has changed since the last part, a line each.
std::vector<std::string> others_than(const JsonTree& before, const RunPart& part) {
  std::vector<std::string> others;
  if (!before.is_object()) return others;
  const auto compare = [&](const char* key, const std::string& now) {
    const std::string then = text_in(before, key);
    if (then != now) others.push_back(fmt::format("{}: {}, now {}", key, written_plain(then), now));
  };
  compare("tessera", part.tessera);
  compare("host", part.host);
  compare("device", part.device);
  std::string plugins = other_plugins(before, part);
  if (!plugins.empty()) others.push_back(std::move(plugins));
  return others;
}

// Does the file end within a line, as a process that was killed while writing leaves it?
bool ends_within_a_line(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file)) return false;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  const std::streamoff end = in.tellg();
  return end > 0 && in.seekg(end - 1).get() != '\n';
}

}  // namespace

void RunHistory::begin(const RunPart& part, bool goes_on) {
  if (goes_on && std::filesystem::is_regular_file(file_)) {
    const auto others = others_than(last_start(read_text_file(file_)), part);
    if (!others.empty()) {
      log_info("this part of the run is not made by the same as the last one:\n  {}",
               fmt::join(others, "\n  "));
    }
  }
  append(Json()
             .add("event", "start")
             .add("time", now_text())
             .add("step", part.step)
             .add("tessera", part.tessera)
             .add("host", part.host)
             .add("device", part.device)
             .add("layout", part.layout)
             .add("command", Json::array(part.command))
             .add("resumed_from", part.resumed_from)
             .add("changed", Json::array(part.changed))
             .add("plugins", Json::array(part.plugins, plugin_text))
             .text());
  begun_ = true;
}

void RunHistory::end(i64 step, std::string_view outcome, std::string_view error) noexcept {
  if (!std::exchange(begun_, false)) return;
  try {
    Json line;
    line.add("event", "end").add("time", now_text()).add("step", step).add("outcome", outcome);
    if (!error.empty()) line.add("error", error);
    append(line.text());
  } catch (const std::exception& failure) {
    log_warning("the end of this part of the run is not recorded: {}", failure.what());
  }
}

void RunHistory::set_aside() const { tessera::set_aside(file_.string()); }

void RunHistory::append(const std::string& line) const {
  OutputFile out(file_, OutputFile::Start::append);
  out.write((ends_within_a_line(file_) ? "\n" : "") + line + "\n");
  out.sync();
}

}  // namespace tessera
