#include "kernel/checkpoint/foreign_model.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
using JsonTree = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;  // for writing only: it looks every key up one by one
constexpr const char *kConfig = "config.json", *kOneFile = "model.safetensors",
                     *kManyFiles = "model.safetensors.index.json";

JsonTree parse_file(const fs::path& file) {
  JsonTree json = JsonTree::parse(read_text_file(file), nullptr, false);
  require(json.is_object(), "{} is damaged: it holds no JSON object", file.string());
  return json;
}

constexpr int kDeepestJson = 32;  // objects and arrays in each other

void check_depth(int depth) {
  require(depth <= kDeepestJson,
          "config.json is damaged: more than {} objects and arrays lie in each other",
          kDeepestJson);
}

Value value_of(const JsonTree& json, int depth) {
  check_depth(depth);
  if (json.is_boolean()) return json.get<bool>();
  // What does not fit into 64 bits is a number of settings that are real.
  const bool fits = !json.is_number_unsigned() || json.get<u64>() <= static_cast<u64>(INT64_MAX);
  if (json.is_number_integer() && fits) return json.get<i64>();
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return json.dump();  // an object of a list: no setting of a model
  Value::Array array;
  for (const JsonTree& element : json) array.push_back(value_of(element, depth + 1));
  return array;
}

void flatten(const JsonTree& json, const std::string& prefix, int depth, Settings& out) {
  check_depth(depth);
  for (const auto& [key, value] : json.items()) {
    if (value.is_object()) {
      flatten(value, prefix + key + ".", depth + 1, out);
    } else if (!value.is_null()) {
      out[prefix + key] = value_of(value, depth + 1);
    }
  }
}

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

bool ForeignModel::in(const fs::path& folder) { return fs::exists(folder / kConfig); }

ForeignModel::ForeignModel(fs::path folder) : folder_(std::move(folder)) {
  flatten(parse_file(folder_ / kConfig), "", 1, settings_);
  const auto open = [&](const std::string& name) {
    std::unique_ptr<SafetensorsFile>& file = open_[name];
    if (file == nullptr) file = std::make_unique<SafetensorsFile>(folder_ / name);
    return file.get();
  };
  if (!fs::exists(folder_ / kOneFile) && fs::exists(folder_ / kManyFiles)) {  // as transformers
    const fs::path path = folder_ / kManyFiles;
    const JsonTree index = parse_file(path);
    const auto map = index.find("weight_map");
    require(map != index.end() && map->is_object(),
            "{} is damaged: it has no weight_map",
            path.string());
    for (const auto& [name, file] : map->items()) {
      require(file.is_string(), "{} is damaged: \"{}\" has no file", path.string(), name);
      const std::string in = file.get<std::string>();
      require(
          !in.empty() && in[0] != '.' && in.find_first_of(std::string_view("/\0", 2)) == in.npos,
          "{} is damaged: \"{}\" is no name of a file beside it",
          path.string(),
          in);
      open(in)->entry(name);
      files_[name] = in;
    }
    return;
  }
  require(fs::exists(folder_ / kOneFile),
          "{} has neither {} nor {}; files of other formats are not read",
          folder_.string(),
          kOneFile,
          kManyFiles);
  for (const SafetensorsEntry& entry : open(kOneFile)->entries()) files_[entry.key] = kOneFile;
}

std::vector<std::string> ForeignModel::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

const SafetensorsFile& ForeignModel::file_of(const std::string& name) const {
  return *open_.at(files_.at(name));
}

const SafetensorsEntry& ForeignModel::entry(const std::string& name) const {
  return file_of(name).entry(name);
}

std::vector<std::byte> ForeignModel::read(const std::string& name) const {
  const SafetensorsFile& file = file_of(name);
  std::vector<std::byte> bytes = file.read(file.entry(name));
  i64 elements = 1;  // in bytes they might be more than 64 bits tell
  for (const i64 size : entry(name).shape) elements *= size;
  const i64 each = dtype_size(parse_dtype(entry(name).dtype));
  require(static_cast<i64>(bytes.size()) % each == 0 &&
              static_cast<i64>(bytes.size()) / each == elements,
          "{} is damaged: tensor \"{}\" has {} bytes for {} elements of {}",
          (folder_ / files_.at(name)).string(),
          name,
          bytes.size(),
          elements,
          entry(name).dtype);
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
  OrderedJson json = OrderedJson::object();
  for (const auto& [key, value] : settings) json[key] = json_of(value);
  write_synced(folder / kConfig, json.dump(2) + "\n");
  sync_folder(folder);
}

}  // namespace tessera
