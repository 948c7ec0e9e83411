#include "kernel/checkpoint/index.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "kernel/checkpoint/disk.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/parse_json.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

namespace {

using JsonTree = nlohmann::json;
constexpr std::string_view kFormat = "tessera-checkpoint-3";

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

// The one form in which an index is printed. The configuration may name paths that are not UTF-8.
std::string printed(const JsonTree& json) {
  return json.dump(1, ' ', false, JsonTree::error_handler_t::replace);
}

// A value for an error.
constexpr std::size_t kShownJson = 400;
std::string shown(const JsonTree& json) { return written_plain(printed(json), kShownJson); }

// The checksum of the whole index without this field.
u64 checksum_of(const JsonTree& json) { return hash64(printed(json)); }

// Removes the checksum. Returns whether it is that of the rest.
bool take_checksum(JsonTree& json) {
  const JsonTree stored = json.contains("checksum") ? std::move(json["checksum"]) : JsonTree();
  json.erase("checksum");
  return stored == hex(checksum_of(json));
}

std::string another_format(const JsonTree& format) {
  return fmt::format("has format {}, this version reads \"{}\"", shown(format), kFormat);
}

std::string translate(std::string_view name, bool to_safetensors) {
  for (const auto& [ours, theirs] : kDtypes) {
    if (name == (to_safetensors ? ours : theirs)) {
      return std::string(to_safetensors ? theirs : ours);
    }
  }
  fail("dtype {} is not one that checkpoints hold", quote(name));
}

JsonTree to_json(const StoredSlice& slice) {
  JsonTree json = {{"file", slice.file},
                   {"key", slice.key},
                   {"begin", slice.where.begin},
                   {"shape", slice.where.shape}};
  if (slice.block_rows == 0) {
    json["checksum"] = hex(slice.checksums.at(0));
    return json;
  }
  json["block_rows"] = slice.block_rows;
  if (slice.block_columns != 0) {
    json["column_dim"] = slice.column_dim;
    json["block_columns"] = slice.block_columns;
  }
  for (const u64 checksum : slice.checksums) json["checksums"].push_back(hex(checksum));
  return json;
}

// Runs `read`; its errors name the entry of the file.
template <class F>
auto reading_entry(std::string_view kind, const std::string& name, F&& read) {
  try {
    return read();
  } catch (const std::exception& error) {
    fail("{} {}: {}", kind, quote(name), json_reason(error));
  }
}

// The library would convert a fraction; for a number that does not fit, its result is undefined.
i64 whole_number(const JsonTree& json) {
  const bool fits = json.is_number_unsigned()
                        ? json.get<u64>() <= static_cast<u64>(std::numeric_limits<i64>::max())
                        : json.is_number_integer();
  require(fits, "{} is not a whole number of 64 bits", shown(json));
  return json.get<i64>();
}

std::vector<i64> whole_numbers(const JsonTree& json) {
  require(json.is_array(), "{} is not a list of numbers", shown(json));
  std::vector<i64> numbers;
  for (const JsonTree& one : json) numbers.push_back(whole_number(one));
  return numbers;
}

// Reads sizes: none negative, their product at most 2^60.
std::vector<i64> shape_from(const JsonTree& json) {
  constexpr i64 kMost = i64{1} << 60;
  std::vector<i64> shape = whole_numbers(json);
  require(shape.size() <= kMaxRank, "a tensor has {} dimensions", shape.size());
  i64 elements = 1;
  for (const i64 size : shape) {
    require(size >= 0, "a tensor has size {}", size);
    require(size <= kMost / elements, "a tensor has more than 2^60 elements: {}", shown(json));
    elements *= std::max<i64>(size, 1);
  }
  return shape;
}

bool plain_file_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

// How many blocks the slice has; none if its numbers make no sense.
std::optional<i64> count_blocks(const StoredSlice& slice) {
  constexpr i64 kMost = i64{1} << 30;
  i64 blocks = 1;
  const auto divide = [&](i64 dim, i64 entries) {
    if (dim < 0 || dim >= static_cast<i64>(slice.where.shape.size()) || entries <= 0) return false;
    const i64 size = slice.where.shape[static_cast<std::size_t>(dim)];
    if (size <= 0 || (size - 1) / entries >= kMost) return false;
    blocks *= (size - 1) / entries + 1;
    return true;
  };
  if (slice.block_rows != 0 && !divide(0, slice.block_rows)) return {};
  if (slice.block_columns != 0 &&
      (slice.column_dim == 0 || !divide(slice.column_dim, slice.block_columns))) {
    return {};
  }
  return blocks;
}

StoredSlice slice_from(const JsonTree& json, std::size_t rank) {
  StoredSlice slice;
  slice.file = json.at("file");
  slice.key = json.at("key");
  slice.where.begin = whole_numbers(json.at("begin"));
  slice.where.shape = shape_from(json.at("shape"));
  const auto add = [&](const JsonTree& sum) {
    slice.checksums.push_back(std::stoull(sum.get<std::string>(), nullptr, 16));
  };
  if (const auto rows = json.find("block_rows"); rows != json.end()) {
    slice.block_rows = whole_number(*rows);
    if (const auto columns = json.find("block_columns"); columns != json.end()) {
      const i64 dim = whole_number(json.at("column_dim"));
      slice.column_dim = static_cast<int>(std::clamp<i64>(dim, -1, kMaxRank));
      slice.block_columns = whole_number(*columns);
    }
    for (const JsonTree& sum : json.at("checksums")) add(sum);
  } else {
    add(json.at("checksum"));
  }
  require(slice.where.begin.size() == rank && slice.where.shape.size() == rank,
          "slice {} has another number of dimensions than its tensor",
          quote(slice.key));
  for (const i64 begin : slice.where.begin) {
    require(begin >= 0 && begin <= std::numeric_limits<i64>::max() / 2,
            "slice {} begins at {}",
            quote(slice.key),
            begin);
  }
  require(plain_file_name(slice.file), "{} is not a valid name of a file", quote(slice.file));
  require(count_blocks(slice) == static_cast<i64>(slice.checksums.size()),
          "slice {} has another number of checksums than blocks",
          quote(slice.key));
  return slice;
}

StoredTensor tensor_from(const JsonTree& json) {
  StoredTensor tensor{json.at("dtype"), shape_from(json.at("shape")), {}};
  translate(tensor.dtype, true);  // throws for a dtype that is not ours
  for (const JsonTree& slice : json.at("slices")) {
    tensor.slices.push_back(slice_from(slice, tensor.shape.size()));
  }
  return tensor;
}

void read_losses(const JsonTree& json, CheckpointInfo& info) {
  require(json.at("loss_mean").is_number(), "its loss_mean is {}", shown(json.at("loss_mean")));
  info.loss_mean = json.at("loss_mean");
  info.loss_count = whole_number(json.at("loss_count"));
  info.passed_over = whole_numbers(json.at("passed_over"));
}

void read_meaning(const JsonTree& json, CheckpointInfo& info) {
  if (json.contains("tokenizer")) info.tokenizer = json.at("tokenizer");
  const JsonTree& structure = json.at("structure");
  require(structure.is_object(), "its structure is a JSON {}", structure.type_name());
  for (const auto& [key, value] : structure.items()) info.structure[key] = value;
}

// What the header of a safetensors file says of a tensor.
SafetensorsEntry entry_from(const std::string& key, const JsonTree& json) {
  require(json.is_object(), "it is a JSON {} instead of an object", json.type_name());
  const JsonTree& offsets = json.at("data_offsets");
  require(offsets.is_array() && offsets.size() == 2,
          "data_offsets is {}, which is not a begin and an end",
          shown(offsets));
  return {key,
          translate(json.at("dtype").get<std::string>(), false),
          shape_from(json.at("shape")),
          whole_number(offsets[0]),
          whole_number(offsets[1])};
}

}  // namespace

std::string CheckpointIndex::to_json() const {
  JsonTree json = {{"format", kFormat},
                   {"step", info.step},
                   {"updates", info.updates},
                   {"samples", info.samples},
                   {"seed", info.seed},
                   {"data", info.data},
                   {"config", info.config},
                   {"loss_mean", info.loss_mean},
                   {"loss_count", info.loss_count},
                   {"passed_over", info.passed_over},
                   {"structure", info.structure},
                   {"files", JsonTree::array()},
                   {"tensors", JsonTree::object()}};
  if (!info.tokenizer.empty()) json["tokenizer"] = info.tokenizer;
  if (const auto& scale = info.loss_scale) {
    json["loss_scale"] = {{"scale", scale->scale},
                          {"clean_steps", scale->clean_steps},
                          {"hysteresis", scale->hysteresis}};
  }
  for (const StoredFile& file : files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
  }
  for (const auto& [name, tensor] : tensors) {
    JsonTree slices = JsonTree::array();
    for (const StoredSlice& slice : tensor.slices) slices.push_back(tessera::to_json(slice));
    json["tensors"][name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"slices", std::move(slices)}};
  }
  json["checksum"] = hex(checksum_of(json));
  return printed(json);
}

CheckpointIndex CheckpointIndex::from_json(const std::string& text, const std::string& source) {
  auto json = parse_json_object<JsonTree>(text, source);
  const bool sound = take_checksum(json);
  // A sound index of another version is not damaged.
  if (sound && json.contains("format") && json["format"] != kFormat) {
    fail("{} {}", source, another_format(json["format"]));
  }
  return reading_file(source, [&] {
    const JsonTree& format = json.at("format");
    require(format == kFormat, "it {}", another_format(format));
    require(sound, "its own checksum is wrong");
    CheckpointIndex index;
    index.info.step = whole_number(json.at("step"));
    index.info.updates = whole_number(json.at("updates"));
    index.info.samples = whole_number(json.at("samples"));
    require(json.at("seed").is_number_unsigned(), "its seed is {}", shown(json.at("seed")));
    index.info.seed = json.at("seed");
    if (const auto scale = json.find("loss_scale"); scale != json.end()) {
      require(scale->at("scale").is_number(), "its loss scale is {}", shown(scale->at("scale")));
      index.info.loss_scale = {scale->at("scale"),
                               whole_number(scale->at("clean_steps")),
                               whole_number(scale->at("hysteresis"))};
    }
    index.info.data = json.at("data");
    index.info.config = json.at("config");
    read_losses(json, index.info);
    read_meaning(json, index.info);
    i64 bytes = 0;
    for (const JsonTree& file : json.at("files")) {
      index.files.push_back({file.at("name"), whole_number(file.at("bytes"))});
      require(index.files.back().bytes >= 0 &&
                  index.files.back().bytes <= std::numeric_limits<i64>::max() - bytes,
              "a file has {} bytes",
              index.files.back().bytes);
      bytes += index.files.back().bytes;
      require(plain_file_name(index.files.back().name), "it names a file outside of its folder");
    }
    for (const auto& [name, tensor] : json.at("tensors").items()) {
      index.tensors.emplace(
          name, reading_entry("tensor", name, [&, &json = tensor] { return tensor_from(json); }));
    }
    return index;
  });
}

CheckpointIndex read_index(const std::filesystem::path& folder) {
  const auto file = folder / kIndexName;
  CheckpointIndex index = CheckpointIndex::from_json(read_text_file(file), file.string());
  reading_file(file.string(), [&] { index.check_tiling(); });
  return index;
}

std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  for (const SafetensorsEntry& entry : entries) {
    json[entry.key] = {{"dtype", translate(entry.dtype, true)},
                       {"shape", entry.shape},
                       {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data starts aligned
  return text;
}

std::vector<SafetensorsEntry> parse_safetensors_header(
    const std::string& text,
    const std::string& source,
    std::map<std::string, std::string>* metadata) {
  const auto json = parse_json_object<JsonTree>(text, source);
  return reading_file(source, [&] {
    std::vector<SafetensorsEntry> entries;
    for (const auto& [key, value] : json.items()) {
      if (key == "__metadata__") {
        if (metadata != nullptr) *metadata = value.get<std::map<std::string, std::string>>();
        continue;
      }
      entries.push_back(
          reading_entry("tensor", key, [&, &json = value] { return entry_from(key, json); }));
    }
    return entries;
  });
}

}  // namespace tessera
