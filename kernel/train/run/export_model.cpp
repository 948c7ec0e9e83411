#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/train/run/convert.hpp"
#include "kernel/train/run/converters.hpp"
#include "kernel/train/run/training_state.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;

// The keys of the resolved configuration in these tables.
Settings settings_in(const Resolved& resolved, std::initializer_list<std::string_view> tables) {
  Settings found;
  for (const auto& [path, entry] : resolved.tree->entries()) {
    const bool told = std::ranges::any_of(
        tables, [&](std::string_view table) { return path.starts_with(table); });
    if (told && entry.value) found[path] = *entry.value;
  }
  return found;
}

// Where the files of the tokenizer are that `converter` would have taken along, when the model was
// trained with that one; empty: with another.
fs::path tokenizer_of(const Resolved& resolved, const Converter& converter) {
  const Settings ours = settings_in(resolved, {"tokenizer."});
  const auto path = ours.find("tokenizer.path");
  if (path == ours.end() || converter.tokenizer_files().empty()) return {};
  const auto* folder = std::get_if<std::string>(&path->second.data);
  if (!folder) return {};
  for (const auto& [key, value] : converter.tokenizer(*folder)) {
    const auto found = ours.find(key);
    if (found == ours.end() || found->second != value) return {};
  }
  return *folder;
}

}  // namespace

Conversion export_model(const ConversionArguments& arguments,
                        i64 file_bytes,
                        const PluginHost& plugins) {
  const fs::path& from = arguments.from;
  const CheckpointIndex index = read_index(from);
  const Resolved resolved =
      resolve(Config::parse(index.info.config, (from / kIndexName).string(), {}), plugins);
  Settings ours = settings_in(resolved, {"model.", "batch."});
  const auto vocab = ours.find("model.vocab");
  const auto table = index.tensors.find("embedding.weight");
  if (vocab != ours.end() && vocab->second == Value("auto") && table != index.tensors.end()) {
    vocab->second = table->second.shape.at(0);
  }
  Settings theirs;
  std::vector<NamedConverter> fitting;
  std::string why;
  for (const NamedConverter& one : converters(plugins, arguments.converter)) {
    try {
      theirs = one.converter->to_theirs(ours);
      fitting.push_back(one);
    } catch (const ConfigError& error) {
      why += fmt::format("\n  {}: {}", one.name, error.what());
    }
  }
  if (fitting.empty()) fail_config("no converter takes the model of {}:{}", from.string(), why);
  if (fitting.size() > 1) {
    fail_config("{} take the model of {}: name one", names_of(fitting), from.string());
  }
  const Converter& chosen = *fitting[0].converter;
  theirs[std::string(kModelType)] = chosen.model_type();

  std::map<std::string, const StoredTensor*> left;  // parameters
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find('/') == std::string::npos) left[name] = &tensor;
  }
  std::vector<const StoredTensor*> stored;
  std::vector<SafetensorsEntry> entries;
  const std::vector<ConvertedTensor> tensors = chosen.tensors(theirs);
  for (const ConvertedTensor& tensor : tensors) {
    const auto found = left.find(tensor.ours);
    if (found == left.end()) {
      fail_config("{} has no parameter \"{}\"", from.string(), tensor.ours);
    }
    stored.push_back(found->second);
    entries.push_back({tensor.theirs, found->second->dtype, found->second->shape});
    if (tensor.transposed) std::ranges::reverse(entries.back().shape);
    left.erase(found);
  }
  if (!left.empty()) {
    fail_config("{} has \"{}\", which converter \"{}\" does not know",
                from.string(),
                left.begin()->first,
                fitting[0].name);
  }
  const fs::path tokenizer = arguments.with_tokenizer ? tokenizer_of(resolved, chosen) : fs::path();
  if (!tokenizer.empty()) {
    for (const std::string& file : chosen.tokenizer_files()) {
      if (fs::is_regular_file(tokenizer / file)) continue;
      fail_config(
          "{} is no file, and {} was trained with it; --no-tokenizer converts the model "
          "alone",
          (tokenizer / file).string(),
          from.string());
    }
  }
  NewFolder folder(arguments.out);
  StoredReader reader(from, index);
  const auto contents = [&](std::size_t i, const ByteSink& sink) {
    const std::vector<std::byte> bytes = reader.read(*stored[i]);
    const std::vector<i64>& shape = stored[i]->shape;
    sink(tensors[i].transposed ? transposed(bytes, shape.at(0), shape.at(1)) : bytes);
  };
  write_foreign_model(folder.path(), theirs, entries, contents, file_bytes);
  Conversion done{fitting[0].name, {}, {}, static_cast<i64>(entries.size())};
  if (!tokenizer.empty()) {
    for (const std::string& file : chosen.tokenizer_files()) {
      write_synced(folder.path() / file, read_text_file(tokenizer / file));
    }
    done.tokenizer = resolved.tree->entries().at("tokenizer.type").value->text();
  }
  folder.finish();
  return done;
}

}  // namespace tessera
