#include "kernel/checkpoint/index.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tessera/error.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;
constexpr std::string_view kFormat = "tessera-checkpoint-1";

// The safetensors names of our dtypes.
constexpr std::pair<std::string_view, std::string_view> kDtypes[] = {{"f64", "F64"},
                                                                     {"f32", "F32"},
                                                                     {"f16", "F16"},
                                                                     {"bf16", "BF16"},
                                                                     {"i64", "I64"},
                                                                     {"i32", "I32"},
                                                                     {"u8", "U8"},
                                                                     {"bool", "BOOL"}};

std::string translate(std::string_view name, bool to_safetensors) {
  for (const auto& [ours, theirs] : kDtypes) {
    if (name == (to_safetensors ? ours : theirs)) {
      return std::string(to_safetensors ? theirs : ours);
    }
  }
  fail("dtype \"{}\" is not one that checkpoints hold", name);
}

Json to_json(const StoredSlice& slice) {
  return {{"file", slice.file},
          {"key", slice.key},
          {"begin", slice.where.begin},
          {"shape", slice.where.shape},
          {"checksum", fmt::format("{:016x}", slice.checksum)}};
}

StoredSlice slice_from(const Json& json) {
  StoredSlice slice;
  slice.file = json.at("file");
  slice.key = json.at("key");
  slice.where.begin = json.at("begin").get<std::vector<i64>>();
  slice.where.shape = json.at("shape").get<std::vector<i64>>();
  slice.checksum = std::stoull(json.at("checksum").get<std::string>(), nullptr, 16);
  return slice;
}

// Runs `read` and turns whatever the JSON library throws into an Error that names the source.
template <class F>
auto reading(const std::string& source, F&& read) {
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail("{} is damaged: {}", source, error.what());
  }
}

}  // namespace

std::string CheckpointIndex::to_json() const {
  Json json = {{"format", kFormat},
               {"step", info.step},
               {"samples", info.samples},
               {"seed", info.seed},
               {"data", info.data},
               {"config", info.config},
               {"files", Json::array()},
               {"tensors", Json::object()}};
  for (const StoredFile& file : files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  for (const auto& [name, tensor] : tensors) {
    Json slices = Json::array();
    for (const StoredSlice& slice : tensor.slices) slices.push_back(tessera::to_json(slice));
    json["tensors"][name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"slices", std::move(slices)}};
  }
  return json.dump(1);
}

CheckpointIndex CheckpointIndex::from_json(const std::string& text, const std::string& source) {
  return reading(source, [&] {
    const Json json = Json::parse(text);
    require(json.at("format") == kFormat,
            "{} has format {}, this version reads \"{}\"",
            source,
            json.at("format").dump(),
            kFormat);
    CheckpointIndex index;
    index.info = {
        json.at("step"), json.at("samples"), json.at("seed"), json.at("data"), json.at("config")};
    for (const Json& file : json.at("files")) {
      index.files.push_back({file.at("name"), file.at("bytes")});
    }
    for (const auto& [name, tensor] : json.at("tensors").items()) {
      StoredTensor stored{tensor.at("dtype"), tensor.at("shape").get<std::vector<i64>>(), {}};
      for (const Json& slice : tensor.at("slices")) stored.slices.push_back(slice_from(slice));
      index.tensors.emplace(name, std::move(stored));
    }
    return index;
  });
}

std::string read_text_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  require(in.good(), "cannot read {}", file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

CheckpointIndex read_index(const std::filesystem::path& folder) {
  const auto file = folder / "index.json";
  return CheckpointIndex::from_json(read_text_file(file), file.string());
}

std::string safetensors_header(const std::vector<SafetensorsEntry>& entries) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const SafetensorsEntry& entry : entries) {
    json[entry.key] = {{"dtype", translate(entry.dtype, true)},
                       {"shape", entry.shape},
                       {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts aligned
  return text;
}

std::vector<SafetensorsEntry> parse_safetensors_header(const std::string& text,
                                                       const std::string& source) {
  return reading(source, [&] {
    std::vector<SafetensorsEntry> entries;
    const Json json = Json::parse(text);
    for (const auto& [key, value] : json.items()) {
      if (key == "__metadata__") continue;
      const auto& offsets = value.at("data_offsets");
      entries.push_back({key,
                         translate(value.at("dtype").get<std::string>(), false),
                         value.at("shape").get<std::vector<i64>>(),
                         offsets.at(0),
                         offsets.at(1)});
    }
    return entries;
  });
}

}  // namespace tessera
