#include "kernel/checkpoint/foreign_model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using JsonTree = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // only for writing: it looks keys up one by one
constexpr const char *kConfig = "config.json", *kOneFile = "model.safetensors",
                     *kManyFiles = "model.safetensors.index.json";

OrderedJson json_of(const Value& value) {
  return std::visit(
      [](const auto& v) -> OrderedJson {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Value::Array>) {
          OrderedJson array = OrderedJson::array();
          for (const Value& element : v) array.push_back(json_of(element));
          return array;
        } else {
          return v;
        }
      },
      value.data);
}

const std::string& null_prefix() {
  static const std::string kPrefix = null_key("");
  return kPrefix;
}

// parse_settings(), and which of the outer keys are null.
Settings with_nulls(std::string_view text, const std::string& file) {
  Settings settings = parse_settings(text, file);
  const auto taken = settings.lower_bound(null_prefix());
  if (taken != settings.end() && taken->first.starts_with(null_prefix())) {
    fail("{} has {}, which no model has", file, quote(taken->first));
  }
  const auto json = parse_json_object<JsonTree>(text, file);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) settings[null_key(key)] = true;
  }
  return settings;
}

// Dotted keys are those of nested objects, as with_nulls() reads them.
OrderedJson json_of(const Settings& settings) {
  OrderedJson json = OrderedJson::object();
  std::vector<std::string> nulls;
  for (const auto& [key, value] : settings) {
    if (key.starts_with(null_prefix())) {
      nulls.push_back(key.substr(null_prefix().size()));
      continue;
    }
    OrderedJson* at = &json;
    for (std::size_t begin = 0; begin <= key.size();) {
      const std::size_t end = std::min(key.find('.', begin), key.size());
      require(at->is_null() || at->is_object(), "{} is a value and an object", quote(key));
      at = &(*at)[key.substr(begin, end - begin)];
      begin = end + 1;
    }
    *at = json_of(value);
  }
  for (const std::string& key : nulls) json[key] = nullptr;
  return json;
}

i64 bytes_of(const SafetensorsEntry& entry) {
  i64 bytes = dtype_size(parse_dtype(entry.dtype));
  for (const i64 size : entry.shape) bytes *= size;
  return bytes;
}

// The first entry of each file, and the end of the last one.
std::vector<std::size_t> file_begins(const std::vector<SafetensorsEntry>& entries, i64 most) {
  std::vector<std::size_t> begins = {0};
  i64 bytes = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    bytes += bytes_of(entries[i]);
    if (bytes <= most || i == begins.back()) continue;
    begins.push_back(i);
    bytes = bytes_of(entries[i]);
  }
  begins.push_back(entries.size());
  return begins;
}

}  // namespace

bool ForeignModel::in(const fs::path& folder) {
  std::error_code unknown;  // whoever reads it as a checkpoint says what cannot be looked at
  return fs::exists(folder / kConfig, unknown);
}

ForeignModel::ForeignModel(fs::path folder) : folder_(std::move(folder)) {
  settings_ = with_nulls(read_text_file(folder_ / kConfig), settings_file());
  read_.emplace_back(kConfig);
  if (fs::exists(folder_ / kOneFile)) {  // before an index, as in transformers
    take_tensors(kOneFile);
    return;
  }
  require(fs::exists(folder_ / kManyFiles),
          "{} has neither {} nor {}; files of other formats are not read",
          folder_.string(),
          kOneFile,
          kManyFiles);
  read_index();
}

std::string ForeignModel::settings_file() const { return (folder_ / kConfig).string(); }

const SafetensorsFile& ForeignModel::open(const std::string& file) {
  std::unique_ptr<SafetensorsFile>& at = open_[file];
  if (at == nullptr) {
    at = std::make_unique<SafetensorsFile>(folder_ / file);
    read_.push_back(file);
  }
  return *at;
}

void ForeignModel::read_index() {
  const fs::path path = folder_ / kManyFiles;
  read_.emplace_back(kManyFiles);
  const auto index = parse_json_object<JsonTree>(read_text_file(path), path.string());
  const auto map = index.find("weight_map");
  require(
      map != index.end() && map->is_object(), "{} is damaged: it has no weight_map", path.string());
  std::set<std::string> files;
  for (const auto& [name, file] : map->items()) {
    require(file.is_string(), "{} is damaged: {} has no file", path.string(), quote(name));
    const std::string in = file.get<std::string>();
    require(!in.empty() && in[0] != '.' && in.find_first_of(std::string_view("/\0", 2)) == in.npos,
            "{} is damaged: {} is not a valid name of a file beside it",
            path.string(),
            quote(in));
    listed_.insert(name);
    files.insert(in);
  }
  for (const std::string& file : files) take_tensors(file);
}

// Takes all tensors of the file: one that an index does not list may matter, too.
void ForeignModel::take_tensors(const std::string& file) {
  const SafetensorsFile& tensors = open(file);
  for (const SafetensorsEntry& entry : tensors.entries()) {
    const auto [place, fresh] = places_.try_emplace(entry.key, Place{file, entry.key});
    if (!fresh && place->second.key != entry.key) {
      place->second = {file, entry.key};  // only its second name was there
    } else {
      require(fresh,
              "{} is ambiguous: tensor {} is in {} and in {}",
              folder_.string(),
              quote(entry.key),
              written_plain(place->second.file),
              written_plain(file));
    }
  }
  // safetensors.torch.save_model keeps one of several names that share memory.
  for (const auto& [name, kept] : tensors.metadata()) {
    const bool here = std::ranges::any_of(
        tensors.entries(), [&, &key = kept](const auto& entry) { return entry.key == key; });
    if (here) places_.try_emplace(name, Place{file, kept});
  }
}

std::vector<std::string> ForeignModel::names() const {
  std::set<std::string> names = listed_;
  for (const auto& [name, place] : places_) {
    if (place.key == name) names.insert(name);
  }
  return {names.begin(), names.end()};
}

const SafetensorsEntry& ForeignModel::entry(const std::string& name) const {
  const Place& place = places_.at(name);
  return open_.at(place.file)->entry(place.key);
}

std::vector<std::byte> ForeignModel::read(const std::string& name) const {
  const Place& place = places_.at(name);
  const SafetensorsEntry& entry = this->entry(name);
  std::vector<std::byte> bytes = open_.at(place.file)->read(entry);
  i64 elements = 1;  // their bytes might overflow 64 bits
  for (const i64 size : entry.shape) elements *= size;
  const i64 each = dtype_size(parse_dtype(entry.dtype));
  require(static_cast<i64>(bytes.size()) % each == 0 &&
              static_cast<i64>(bytes.size()) / each == elements,
          "{} is damaged: tensor {} has {} bytes for {} elements of {}",
          written_path(folder_ / place.file),
          quote(place.key),
          bytes.size(),
          elements,
          entry.dtype);
  return bytes;
}

void write_foreign_model(const fs::path& folder,
                         const Settings& settings,
                         const std::vector<SafetensorsEntry>& entries,
                         const std::function<void(std::size_t, const ByteSink&)>& contents,
                         i64 file_bytes) {
  const std::vector<std::size_t> begins = file_begins(entries, file_bytes);
  const std::size_t files = begins.size() - 1;
  JsonTree weight_map = JsonTree::object();
  i64 total = 0;
  for (std::size_t file = 0; file < files; ++file) {
    const std::string name =
        files == 1 ? kOneFile : fmt::format("model-{:05}-of-{:05}.safetensors", file + 1, files);
    const std::vector<SafetensorsEntry> part(entries.begin() + static_cast<i64>(begins[file]),
                                             entries.begin() + static_cast<i64>(begins[file + 1]));
    // Readers of the format ask for this name: the tensors are laid out as PyTorch has them.
    SafetensorsWriter out(folder / name, part, {{"format", "pt"}});
    for (std::size_t i = begins[file]; i < begins[file + 1]; ++i) {
      out.next([&](const ByteSink& sink) { contents(i, sink); });
      weight_map[entries[i].key] = name;
      total += bytes_of(entries[i]);
    }
    out.finish();
  }
  if (files > 1) {
    const JsonTree index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
    write_synced(folder / kManyFiles, index.dump(2) + "\n");
  }
  write_synced(folder / kConfig, json_of(settings).dump(2) + "\n");
  sync_folder(folder);
}

}  // namespace tessera
