#include "kernel/train/run/imported_tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kernel/checkpoint/host_floats.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/train/run/converters.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

// The name in the files: with the prefix that some leave out, or without.
std::string written_name(const ForeignModel& model, const Converter& converter, std::string name) {
  const std::string_view prefix = converter.optional_prefix();
  if (!model.has(name) && name.starts_with(prefix)) name.erase(0, prefix.size());
  return name;
}

bool equal(const ForeignModel& model, const std::string& a, const std::string& b) {
  const SafetensorsEntry &left = model.entry(a), &right = model.entry(b);
  if (&left == &right) return true;
  if (left.shape != right.shape) return false;
  if (left.dtype == right.dtype) return model.read(a) == model.read(b);
  const auto wide = [&](const std::string& name) {
    return converted(model.read(name), parse_dtype(model.entry(name).dtype), DType::fp64);
  };
  return wide(a) == wide(b);
}

}  // namespace

Settings apart_where_they_differ(const ForeignModel& model, const Converter& converter) {
  Settings settings = model.settings();
  for (const SharedTensor& shared : converter.shared(model.settings())) {
    const std::string name = written_name(model, converter, shared.name),
                      of = written_name(model, converter, shared.of);
    if (!model.has(name) || !model.has(of) || equal(model, name, of)) continue;
    std::vector<std::string> keys;
    for (const auto& [key, value] : shared.apart) {
      settings[key] = value;
      keys.push_back(fmt::format("{} = {}", key, value.text()));
    }
    if (keys.empty()) {
      fail_config("{} makes \"{}\" a second name of \"{}\", but the files hold other values there",
                  model.settings_file(),
                  name,
                  of);
    }
    log_warning(
        "{} makes \"{}\" a second name of \"{}\", but the files hold other values there: they are "
        "read as two, with {}",
        model.settings_file(),
        name,
        of,
        name_list(keys));
  }
  return settings;
}

ImportedTensors::ImportedTensors(const ForeignModel& model,
                                 const Converter& converter,
                                 const Settings& theirs)
    : model_(model) {
  const std::vector<SharedTensor> all_shared = converter.shared(theirs);
  const std::vector<std::string> names = model.names();
  std::set<std::string> known;
  for (const ConvertedTensor& tensor : converter.tensors(theirs)) {
    std::string name = written_name(model, converter, tensor.theirs);
    for (const SharedTensor& shared : all_shared) {
      if (model.has(name) || shared.of != tensor.theirs) continue;
      const std::string second = written_name(model, converter, shared.name);
      if (model.has(second)) name = second;
    }
    if (!model.has(name) && !tensor.optional) {
      problems_.push_back(fmt::format("\"{}\" is missing{}",
                                      tensor.theirs,
                                      std::ranges::find(names, name) != names.end()
                                          ? " from the file that the index says"
                                          : ""));
    }
    known.insert(name);
    tensors_[tensor.ours].push_back(tensor);
    tensors_[tensor.ours].back().theirs = name;
  }
  for (auto of = tensors_.begin(); of != tensors_.end();) {
    const auto& [ours, tiles] = *of;
    const auto there = std::ranges::count_if(
        tiles, [&](const ConvertedTensor& tensor) { return model.has(tensor.theirs); });
    if (!tiles[0].optional || there == std::ssize(tiles)) {
      if (tiles[0].optional) kept_.push_back(ours);
      ++of;
    } else if (there == 0) {
      lacking_.push_back(ours);
      of = tensors_.erase(of);
    } else {
      problems_.push_back(fmt::format("a part of \"{}\" is missing", ours));
      ++of;
    }
  }
  const std::string_view prefix = converter.optional_prefix();
  const auto bare = [&](std::string_view name) {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  };
  for (const std::string& name : names) {
    const bool second = std::ranges::any_of(
        all_shared, [&](const SharedTensor& shared) { return bare(shared.name) == bare(name); });
    if (second || known.contains(name) || converter.redundant(bare(name), theirs)) continue;
    problems_.push_back(fmt::format("\"{}\" is not known to the converter", name));
  }
}

void ImportedTensors::expect(const std::string& ours, const std::vector<i64>& shape) {
  const auto found = tensors_.find(ours);
  if (found == tensors_.end()) {
    problems_.push_back(fmt::format("the converter has nothing for \"{}\"", ours));
    return;
  }
  std::vector<Tile>& tiles = tiles_[ours];
  try {
    tiles = lay_out(found->second, shape);
  } catch (const ConfigError& error) {
    problems_.emplace_back(error.what());
    return;
  }
  for (const Tile& tile : tiles) {
    const std::string& name = tile.tensor.theirs;
    if (!model_.has(name)) continue;  // told already
    const std::vector<i64>& theirs = model_.entry(name).shape;
    if (theirs == tile.their_shape()) continue;
    const char* turned = tile.tensor.transposed ? ", transposed" : "";
    std::string told = fmt::format("\"{}\" is [{}], and ", name, fmt::join(theirs, ", "));
    if (tiles.size() == 1) {
      told += fmt::format("\"{}\" has [{}]{}", ours, fmt::join(shape, ", "), turned);
    } else {
      told += fmt::format("{}{} were expected", tile.text(theirs), turned);
    }
    problems_.push_back(std::move(told));
  }
}

void ImportedTensors::require_fit(const std::filesystem::path& folder) const {
  if (problems_.empty()) return;
  fail_config("{} cannot be converted: {}", folder.string(), name_list(problems_));
}

DType ImportedTensors::dtype_of(const std::vector<std::string>& ours) const {
  std::set<DType> all;
  for (const std::string& name : ours) {
    for (const Tile& tile : tiles_.at(name)) {
      all.insert(parse_dtype(model_.entry(tile.tensor.theirs).dtype));
    }
  }
  if (all.size() == 1) return *all.begin();
  return all.contains(DType::fp64) ? DType::fp64 : DType::fp32;
}

std::vector<std::byte> ImportedTensors::values(const std::string& ours, DType dtype) const {
  const std::vector<Tile>& tiles = tiles_.at(ours);
  const i64 bytes = dtype_size(dtype), elements = Rectangle{{}, tiles[0].of}.elements();
  std::vector<std::byte> all(static_cast<std::size_t>(elements * bytes));
  for (const Tile& tile : tiles) {
    const std::string& name = tile.tensor.theirs;
    const DType from = parse_dtype(model_.entry(name).dtype);
    put(tile, converted(model_.read(name), from, dtype), all, bytes);
  }
  return all;
}

}  // namespace tessera
