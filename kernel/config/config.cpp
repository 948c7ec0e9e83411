#include "kernel/config/config.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "kernel/config/home_path.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace fs = std::filesystem;

constexpr std::size_t kLargestFile = 1 << 20;  // bytes; configurations have thousands
constexpr std::size_t kDeepestInclude = 16, kMostFiles = 1000, kMostBytes = 16 << 20;

/// Reads files and settings into a Config, one layer after the other.
class ConfigReader {
 public:
  explicit ConfigReader(TableArrays arrays = TableArrays::refused) : arrays_(arrays) {}

  void add_file(const fs::path& path, const std::string& asked_by = "") {
    const fs::path file = fs::absolute(path).lexically_normal();
    for (const fs::path& open : open_) {
      if (open == file) fail_config("{}{} includes itself", asked_by, written_path(path));
    }
    if (open_.size() == kDeepestInclude) {
      fail_config("{}files include each other more than {} deep", asked_by, kDeepestInclude);
    }
    if (++files_ > kMostFiles) {
      fail_config("{}more than {} files are included", asked_by, kMostFiles);
    }
    std::error_code error;
    const bool folder = fs::is_directory(file, error);
    // A user may name a pipe (`train <(make_config)`); a file that names one would wait for ever.
    if (!asked_by.empty() && !folder && fs::exists(file, error) &&
        !fs::is_regular_file(file, error)) {
      fail_config("{}cannot read {}: it is not a regular file", asked_by, written_path(path));
    }
    std::ifstream stream(file, std::ios::binary);
    std::string text;
    std::array<char, 1 << 16> block;
    while (stream && text.size() <= kLargestFile) {  // of a pipe or a device nobody knows the size
      stream.read(block.data(), block.size());
      text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
    }
    if (folder || stream.bad() || !stream.eof()) {
      const std::string why = folder                       ? "it is a folder"
                              : text.size() > kLargestFile ? "it has more than 1 MiB"
                              : errno == ENOENT            ? "there is no such file"
                                                           : std::generic_category().message(errno);
      fail_config("{}cannot read {}: {}", asked_by, written_path(path), why);
    }
    bytes_ += text.size();
    if (bytes_ > kMostBytes) fail_config("{}more than 16 MiB are included", asked_by);
    open_.push_back(file);
    add_text(text, path.string(), file.parent_path(), path.parent_path());
    open_.pop_back();
  }

  void add_text(const std::string& text,
                const std::string& name,
                const fs::path& folder,
                const fs::path& shown_folder) {
    if (text.size() > kLargestFile) fail_config("{}: it has more than 1 MiB", written_plain(name));
    Origin where;
    where.kind = Origin::file;
    where.name = name;
    ConfigSource source{name, folder, split_lines(text)};
    std::vector<TomlItem> items = parse_toml(text, where, arrays_);
    tables_ += std::ranges::count_if(items, [](const TomlItem& item) { return !item.value; });
    if (tables_ > kMostTables) {
      fail_config(
          "{}: with it, the files have more than {} tables; put keys that belong together "
          "into one table",
          written_plain(name),
          kMostTables);
    }
    for (const TomlItem& item : items) {
      if (item.path == "include") include(item, source, shown_folder);
    }
    std::erase_if(items, [](const TomlItem& item) { return item.path == "include"; });
    add_layer(std::move(source), std::move(items), "");
  }

  void add_set(const std::string& argument) {
    Origin where;
    where.kind = Origin::set;
    where.name = fmt::format("--set #{}", ++sets_);
    where.line = 1;
    const auto equals = argument.find('=');
    const std::string path = argument.substr(0, equals);
    if (equals == std::string::npos || !is_path(path) || path == "include") {
      fail_config("{} {}: write it as table.key=value", where.name, quote(argument));
    }
    where.column = static_cast<int>(equals) + 2;
    where.length = static_cast<int>(argument.size());
    const std::string raw = argument.substr(equals + 1);
    auto items = parse_toml_value(raw, where);
    // Shells take quotes away: what is no TOML value is a string as it stands.
    if (!items) items = {{"", Value(raw), where, where}};
    const bool scalar = items->front().path.empty() && items->front().value;
    for (TomlItem& item : *items) {
      item.path = join_path(path, item.path);
      item.key.column = 1;
      item.key.length = static_cast<int>(equals);
    }
    add_layer({where.name, fs::current_path(), {argument}}, std::move(*items), scalar ? raw : "");
  }

  void add_stored(const std::string& text, const std::string& name) {
    config_.stored_ = true;
    add_text(text, name, fs::current_path(), "");
  }

  Config take() { return std::move(config_); }

 private:
  static bool is_path(std::string_view path) {
    if (std::ranges::count(path, '.') >= kDeepest) return false;
    for (; path.find('.') != std::string_view::npos; path = parent_of(path)) {
      if (!is_bare_key(last_of(path))) return false;
    }
    return is_bare_key(path);
  }

  [[noreturn]] static void reject(const TomlItem& item,
                                  const ConfigSource& source,
                                  std::string_view why) {
    fail_config("{}: {}{}", item.at.text(), why, excerpt(source.lines, item.at));
  }

  void include(const TomlItem& item, const ConfigSource& source, const fs::path& shown_folder) {
    if (config_.stored_) {
      reject(item, source, "a stored configuration includes no files: what it says is all there");
    }
    constexpr std::string_view kWanted = "include takes files: [\"model.toml\"]";
    if (!item.value) reject(item, source, kWanted);
    const auto* array = std::get_if<Value::Array>(&item.value->data);
    for (const Value& file : array != nullptr ? *array : Value::Array{*item.value}) {
      const auto* name = std::get_if<std::string>(&file.data);
      if (name == nullptr) reject(item, source, kWanted);
      add_file((shown_folder / included(*name, item, source)).lexically_normal(),
               fmt::format("{}: include: ", item.at.text()));
    }
  }

  static std::string included(const std::string& name,
                              const TomlItem& item,
                              const ConfigSource& source) {
    try {
      return expand_home(name);
    } catch (const ConfigError& error) {
      reject(item, source, fmt::format("include: {}", error.what()));
    }
  }

  void add_layer(ConfigSource source, std::vector<TomlItem> items, const std::string& raw) {
    const int layer = static_cast<int>(config_.sources_.size());
    for (TomlItem& item : items) {
      if (item.path == "schema") {
        if (item.value != Value(1)) {
          reject(item, source, "this program reads configurations of schema = 1");
        }
        continue;
      }
      item.key.layer = item.at.layer = layer;
      if (item.value && last_of(item.path) == "type") {
        config_.types_[std::string(parent_of(item.path))].push_back({layer, *item.value});
      }
      Entry entry;
      entry.value = std::move(item.value);
      entry.key = std::move(item.key);
      entry.at = std::move(item.at);
      entry.raw = raw;
      config_.tree_->put(item.path, std::move(entry));
    }
    config_.sources_.push_back(std::move(source));
  }

  TableArrays arrays_;
  Config config_;
  std::vector<fs::path> open_;
  std::size_t files_ = 0, bytes_ = 0;
  i64 tables_ = 0;
  int sets_ = 0;
};

Config Config::load(const std::vector<std::string>& files,
                    const std::vector<std::string>& sets,
                    TableArrays arrays) {
  ConfigReader reader(arrays);
  for (const std::string& file : files) reader.add_file(file);
  for (const std::string& set : sets) reader.add_set(set);
  return reader.take();
}

Config Config::parse(const std::string& text,
                     const std::string& name,
                     const std::vector<std::string>& sets) {
  ConfigReader reader;
  reader.add_text(text, name, fs::current_path(), "");
  for (const std::string& set : sets) reader.add_set(set);
  return reader.take();
}

Config Config::stored(const std::string& text,
                      const std::string& name,
                      const std::vector<std::string>& sets,
                      const ConfigText& command) {
  ConfigReader reader;
  reader.add_stored(text, name);
  if (!command.text.empty()) reader.add_text(command.text, command.name, fs::current_path(), "");
  for (const std::string& set : sets) reader.add_set(set);
  return reader.take();
}

std::vector<TypeChange> Config::types(std::string_view path) const {
  const auto found = types_.find(path);
  return found == types_.end() ? std::vector<TypeChange>() : found->second;
}

void Config::inherit(const std::string& base, const std::string& path) {
  tree_ = std::make_shared<ConfigTree>(*tree_);
  const std::string prefix = base + '.';
  std::vector<std::pair<std::string, Entry>> below;
  const auto& entries = tree_->entries();
  for (auto at = entries.lower_bound(prefix); at != entries.end() && at->first.starts_with(prefix);
       ++at) {
    below.emplace_back(*at);
  }
  const auto covered = [&](std::string place) {
    while (place != path) {
      const Entry* own = tree_->find(place);
      if (own != nullptr && own->value) return true;
      place = parent_of(place);
    }
    return false;
  };
  for (auto& [from, entry] : below) {
    const std::string place = join_path(path, std::string_view(from).substr(prefix.size()));
    if (tree_->find(place) != nullptr || covered(place)) continue;
    entry.from = from;
    tree_->put(place, std::move(entry));
  }
  std::map<std::string, std::vector<TypeChange>> types;
  for (const auto& [table, changes] : types_) {
    if (table != base && !table.starts_with(prefix)) continue;
    types.emplace(path + table.substr(base.size()), changes);
  }
  for (auto& [table, changes] : types) {
    std::vector<TypeChange>& own = types_[table];
    own.insert(own.begin(), changes.begin(), changes.end());
  }
}

std::unique_ptr<ConfigNode> Config::node(const std::string& path) const {
  return make_node(tree_, path);
}

std::string Config::excerpt_at(const Origin& at) const {
  return at.layer < 0 ? "" : excerpt(sources_[static_cast<std::size_t>(at.layer)].lines, at);
}

fs::path Config::resolve_path(std::string_view text, const Origin& origin) const {
  const fs::path folder = origin.layer < 0
                              ? fs::current_path()
                              : sources_[static_cast<std::size_t>(origin.layer)].folder;
  const fs::path path = (folder / expand_home(text)).lexically_normal();
  return path.has_filename() || path == path.root_path() ? path : path.parent_path();
}

fs::path Config::resolve_path(std::string_view key) const {
  const Entry* entry = tree_->find(key);
  if (entry == nullptr || !entry->value) fail_config("\"{}\" is not set", key);
  const auto* text = std::get_if<std::string>(&entry->value->data);
  if (text == nullptr) {
    fail_config("{}: {}: expected a path, got {}{}",
                entry->at.text(),
                key,
                entry->value->text(),
                excerpt_at(entry->at));
  }
  return placed_path(key, *text, entry->at);
}

fs::path Config::placed_path(std::string_view key, std::string_view text, const Origin& at) const {
  try {
    return resolve_path(text, at);
  } catch (const ConfigError& error) {
    fail_config("{}: {}: {}{}", at.text(), key, error.what(), excerpt_at(at));
  }
}

std::vector<fs::path> Config::plugin_path() const { return plugin_path_if(false); }
std::vector<fs::path> Config::stored_plugin_path() const { return plugin_path_if(true); }

std::vector<fs::path> Config::plugin_path_if(bool stored) const {
  std::vector<fs::path> out;
  const Entry* entry = tree_->find("plugins.path");
  if (entry == nullptr || (stored_ && entry->at.layer == 0) != stored) return out;
  Value::Array folders = entry->value ? Value::Array{*entry->value} : Value::Array();
  if (entry->value && std::holds_alternative<Value::Array>(entry->value->data)) {
    folders = std::get<Value::Array>(entry->value->data);
  }
  bool good = entry->value.has_value();
  for (const Value& each : folders) {
    const auto* folder = std::get_if<std::string>(&each.data);
    good = good && folder != nullptr;
    if (good) out.push_back(placed_path("[plugins] path", *folder, entry->at));
  }
  if (!good) {
    fail_config("{}: [plugins] path: expected an array of folders, [\"build/plugins\"]{}",
                entry->at.text(),
                excerpt_at(entry->at));
  }
  return out;
}

}  // namespace tessera
