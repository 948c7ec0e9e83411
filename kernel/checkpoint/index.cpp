#include "kernel/checkpoint/index.hpp"

#include <nlohmann/json.hpp>
#include <span>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/error.hpp"
#include "tessera/hash.hpp"

namespace tessera {

namespace {

using Json = nlohmann::json;
constexpr std::string_view kFormat = "tessera-checkpoint-1";

// The safetensors names of our dtypes.
constexpr std::pair<std::string_view, std::string_view> kDtypes[] = {{"fp64", "F64"},
                                                                     {"fp32", "F32"},
                                                                     {"fp16", "F16"},
                                                                     {"bf16", "BF16"},
                                                                     {"i64", "I64"},
                                                                     {"i32", "I32"},
                                                                     {"u8", "U8"},
                                                                     {"bool", "BOOL"}};

std::string hex(u64 value) { return fmt::format("{:016x}", value); }

// The checksum of the whole index without this field, in the one form in which it is printed.
u64 checksum_of(const Json& json) {
  const std::string text = json.dump(1);
  return hash64(text);
}

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
          {"checksum", hex(slice.checksum)}};
}

Json parse_object(const std::string& text) {
  Json json = Json::parse(text);
  require(json.is_object(), "it is a JSON {} instead of an object", json.type_name());
  return json;
}

bool plain_file_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

StoredSlice slice_from(const Json& json, std::size_t rank) {
  StoredSlice slice;
  slice.file = json.at("file");
  slice.key = json.at("key");
  slice.where.begin = json.at("begin").get<std::vector<i64>>();
  slice.where.shape = json.at("shape").get<std::vector<i64>>();
  slice.checksum = std::stoull(json.at("checksum").get<std::string>(), nullptr, 16);
  require(slice.where.begin.size() == rank && slice.where.shape.size() == rank,
          "slice \"{}\" has another number of dimensions than its tensor",
          slice.key);
  require(plain_file_name(slice.file), "\"{}\" is no name of a file", slice.file);
  return slice;
}

// Indices of earlier versions say "f32" for "fp32".
std::string present_name(const std::string& dtype) {
  const bool earlier = dtype == "f64" || dtype == "f32" || dtype == "f16";
  return earlier ? "fp" + dtype.substr(1) : dtype;
}

StoredTensor tensor_from(const Json& json) {
  StoredTensor tensor{present_name(json.at("dtype")), json.at("shape").get<std::vector<i64>>(), {}};
  for (const i64 size : tensor.shape) require(size >= 0, "a tensor has size {}", size);
  for (const Json& slice : json.at("slices")) {
    tensor.slices.push_back(slice_from(slice, tensor.shape.size()));
  }
  return tensor;
}

// Runs `read` and turns whatever the JSON library throws into an Error that names the source.
template <class F>
auto reading(const std::string& source, F&& read) {
  try {
    return read();
  } catch (const std::exception& error) {
    std::string_view why = error.what();  // the library's: "[json.exception.type.302] why"
    if (why.starts_with("[json.")) why.remove_prefix(why.find("] ") + 2);
    fail("{} is damaged: {}", source, why);
  }
}

}  // namespace

std::string CheckpointIndex::to_json() const {
  Json json = {{"format", kFormat},
               {"step", info.step},
               {"updates", info.updates},
               {"samples", info.samples},
               {"seed", info.seed},
               {"data", info.data},
               {"config", info.config},
               {"files", Json::array()},
               {"tensors", Json::object()}};
  if (const auto& scale = info.loss_scale) {
    json["loss_scale"] = {{"scale", scale->scale},
                          {"clean_steps", scale->clean_steps},
                          {"hysteresis", scale->hysteresis}};
  }
  for (const StoredFile& file : files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  for (const auto& [name, tensor] : tensors) {
    Json slices = Json::array();
    for (const StoredSlice& slice : tensor.slices) slices.push_back(tessera::to_json(slice));
    json["tensors"][name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"slices", std::move(slices)}};
  }
  json["checksum"] = hex(checksum_of(json));
  return json.dump(1);
}

CheckpointIndex CheckpointIndex::from_json(const std::string& text, const std::string& source) {
  return reading(source, [&] {
    Json json = parse_object(text);
    require(json.at("format") == kFormat,
            "it has format {}, this version reads \"{}\"",
            json.at("format").dump(),
            kFormat);
    const std::string stored = json.at("checksum");
    json.erase("checksum");
    require(stored == hex(checksum_of(json)), "its own checksum is wrong");
    CheckpointIndex index;
    index.info.step = json.at("step");
    index.info.updates = json.at("updates");
    index.info.samples = json.at("samples");
    index.info.seed = json.at("seed");
    if (const auto scale = json.find("loss_scale"); scale != json.end()) {
      index.info.loss_scale = {
          scale->at("scale"), scale->at("clean_steps"), scale->at("hysteresis")};
    }
    index.info.data = json.at("data");
    index.info.config = json.at("config");
    for (const Json& file : json.at("files")) {
      index.files.push_back({file.at("name"), file.at("bytes")});
      require(plain_file_name(index.files.back().name), "it names a file outside of its folder");
    }
    for (const auto& [name, tensor] : json.at("tensors").items()) {
      index.tensors.emplace(name, tensor_from(tensor));
    }
    return index;
  });
}

CheckpointIndex read_index(const std::filesystem::path& folder) {
  const auto file = folder / kIndexName;
  CheckpointIndex index = CheckpointIndex::from_json(read_text_file(file), file.string());
  reading(file.string(), [&] { index.check_tiling(); });
  return index;
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
    const Json json = parse_object(text);
    for (const auto& [key, value] : json.items()) {
      if (key == "__metadata__") continue;
      require(value.is_object(), "its entry \"{}\" is a JSON {}", key, value.type_name());
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
