#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/checkpoint/host_floats.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/train/run/convert.hpp"
#include "kernel/train/run/converters.hpp"
#include "kernel/train/run/training_state.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr const char* kTokenizer = "tokenizer";  // folder of its files

// Their tensors under our names, and what does not fit.
class Imported {
 public:
  Imported(const ForeignModel& model, const Converter& converter) : model_(model) {
    const std::string_view prefix = converter.optional_prefix();
    std::set<std::string> known;
    for (const ConvertedTensor& tensor : converter.tensors(model.settings())) {
      std::string name = tensor.theirs;
      if (!model.has(name) && name.starts_with(prefix)) name.erase(0, prefix.size());
      if (!model.has(name)) problems_.push_back(fmt::format("\"{}\" is missing", tensor.theirs));
      known.insert(name);
      tensors_[tensor.ours] = {name, tensor.transposed};
    }
    for (const std::string& name : model.names()) {
      std::string_view bare = name;
      if (bare.starts_with(prefix)) bare.remove_prefix(prefix.size());
      if (known.contains(name) || converter.redundant(bare, model.settings())) continue;
      problems_.push_back(fmt::format("\"{}\" is not known to the converter", name));
    }
  }
  void expect(const CheckpointTensor& ours) {
    const auto found = tensors_.find(ours.name);
    if (found == tensors_.end()) {
      problems_.push_back(fmt::format("the converter has nothing for \"{}\"", ours.name));
      return;
    }
    const auto& [name, transposed] = found->second;
    if (!model_.has(name)) return;  // told already
    std::vector<i64> shape = model_.entry(name).shape;
    if (transposed) std::ranges::reverse(shape);
    if (shape == sizes_of(ours.of->logical)) return;
    problems_.push_back(fmt::format("\"{}\" is [{}], and \"{}\" has {}{}",
                                    name,
                                    fmt::join(model_.entry(name).shape, ", "),
                                    ours.name,
                                    ours.of->logical,
                                    transposed ? ", transposed" : ""));
  }
  void require_fit(const fs::path& folder) const {
    if (problems_.empty()) return;
    fail_config("{} cannot be converted: {}", folder.string(), name_list(problems_));
  }
  std::vector<std::byte> values(const CheckpointTensor& ours) const {
    const auto& [name, turned] = tensors_.at(ours.name);
    const SafetensorsEntry& entry = model_.entry(name);
    const std::vector<std::byte> bytes =
        converted(model_.read(name), parse_dtype(entry.dtype), ours.tensor.dtype());
    return turned ? transposed(bytes, entry.shape[0], entry.shape[1]) : bytes;
  }

 private:
  struct Theirs {
    std::string name;
    bool transposed = false;
  };
  const ForeignModel& model_;
  std::map<std::string, Theirs> tensors_;  // by our name
  std::vector<std::string> problems_;
};

// Some of the files without the others are a copy that went wrong.
bool tokenizer_in(const fs::path& folder, const Converter& converter) {
  std::vector<std::string> there, missing;
  for (const std::string& file : converter.tokenizer_files()) {
    (fs::exists(folder / file) ? there : missing).push_back(file);
  }
  if (there.empty()) return false;
  if (missing.empty()) return true;
  fail_config("{} has {} without {}; --no-tokenizer converts the model alone",
              folder.string(),
              name_list(there),
              name_list(missing));
}

std::string toml_of(const Settings& settings, const std::vector<std::string_view>& tables) {
  std::string text = "schema = 1\n";
  for (const auto& [key, value] : settings) {
    const bool shown = tables.empty() || std::ranges::any_of(tables, [&](std::string_view table) {
                         return key.starts_with(table);
                       });
    if (shown) text += fmt::format("{} = {}\n", key, value.text());
  }
  return text;
}

}  // namespace

Conversion import_model(const ConversionArguments& arguments, const PluginHost& plugins) {
  const fs::path &from = arguments.from, &out = arguments.out;
  const ForeignModel model(from);
  const auto type = model.settings().find(kModelType);
  const std::string model_type = type == model.settings().end() ? "" : type->second.text();
  std::vector<NamedConverter> known = converters(plugins, arguments.converter);
  const auto found = std::ranges::find_if(known, [&](const NamedConverter& one) {
    return !arguments.converter.empty() || Value(one.converter->model_type()).text() == model_type;
  });
  if (found == known.end() && model_type.empty()) {
    fail_config(
        "{}: the key \"{}\" is missing, which says what converter to take: name one with "
        "--converter; there are {}",
        (from / "config.json").string(),
        kModelType,
        names_of(known));
  }
  if (found == known.end()) {
    fail_config("{}: there is no converter for model_type {}; there are {}{}",
                (from / "config.json").string(),
                model_type,
                names_of(known),
                plugins.not_loaded());
  }
  const Converter& chosen = *found->converter;
  const bool has_tokenizer = arguments.with_tokenizer && tokenizer_in(from, chosen);
  const auto ours = [&](const fs::path& tokenizer) {  // the folder of its files
    Settings settings = chosen.to_ours(model.settings());
    if (!has_tokenizer) return settings;
    for (const auto& [key, value] : chosen.tokenizer(fs::absolute(tokenizer).lexically_normal())) {
      settings[key] = value;
    }
    return settings;
  };
  const auto resolved_with = [&](const fs::path& tokenizer) {
    const std::string name =
        fmt::format("{}, as TOML of converter {}", (from / "config.json").string(), found->name);
    return resolve(Config::parse(toml_of(ours(tokenizer), {}), name, {}), plugins);
  };
  const Resolved resolved = resolved_with(from);
  const RunSetup setup = derive_setup(resolved, plugins, 1, DataUse::none);
  const auto device = make_device(rank_spec_of(setup), {});
  const Rank rank = dry_rank(setup.layout, 0, device);
  const PlacedModel placed(rank, setup);
  const RankPart part(*rank.mesh, parameter_tensors(placed));

  Imported imported(model, chosen);
  for (const CheckpointTensor& tensor : part.tensors()) imported.expect(tensor);
  imported.require_fit(from);
  NewFolder folder(out);
  const fs::path steps = folder.path() / "checkpoints", temporary = steps / "step-0.convert.tmp";
  fs::create_directories(temporary);
  const auto values = [&](const CheckpointTensor& tensor, HostBytes& memory) {
    memory = imported.values(tensor);
    return std::span<const std::byte>(memory);
  };
  CheckpointInfo info;
  info.config = dump(resolved_with(out / kTokenizer));
  const std::string proof = part.write(temporary, values, 1);
  commit_parts(info, {proof}, temporary, step_folder(steps, 0));
  const Settings told = ours(out / kTokenizer);
  write_synced(folder.path() / "model.toml",
               toml_of(told, {"model.", "batch.sequence", "tokenizer."}));
  Conversion done{found->name, out / "model.toml", {}, static_cast<i64>(part.tensors().size())};
  if (has_tokenizer) {
    fs::create_directory(folder.path() / kTokenizer);
    for (const std::string& file : chosen.tokenizer_files()) {
      write_synced(folder.path() / kTokenizer / file, read_text_file(from / file));
    }
    sync_folder(folder.path() / kTokenizer);
    done.tokenizer = told.at("tokenizer.type").text();
  }
  folder.finish();
  return done;
}

}  // namespace tessera
