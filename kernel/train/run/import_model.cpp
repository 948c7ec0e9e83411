#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/checkpoint/rank_part.hpp"
#include "kernel/checkpoint/slices.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/config/structure.hpp"
#include "kernel/dry/dry_rank.hpp"
#include "kernel/train/run/convert.hpp"
#include "kernel/train/run/converters.hpp"
#include "kernel/train/run/foreign_files.hpp"
#include "kernel/train/run/imported_tensors.hpp"
#include "kernel/train/run/token_ids.hpp"
#include "kernel/train/run/training_state.hpp"
#include "kernel/train/setup/make_rank.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr const char* kTokenizer = "tokenizer";  // folder of its files

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

RunSetup setup_of(const Resolved& resolved, const PluginHost& plugins, bool with_tokenizer) {
  try {
    return derive_setup(resolved, plugins, 1, DataUse::none);
  } catch (const ConfigError&) {
    if (!with_tokenizer) throw;
    try {
      TokenizerArguments none;
      HostMaker(plugins, resolved.tree).make(resolved.run.tokenizer, none);
    } catch (const ConfigError& error) {  // the model alone may be what is wanted
      fail_config("{}; --no-tokenizer converts the model alone", error.what());
    }
    throw;
  }
}

// Removes those that the files lack, and says so: a head may be missing, and is new then.
void leave_out(std::vector<CheckpointTensor>& tensors,
               const ImportedTensors& imported,
               const fs::path& from) {
  const std::vector<std::string>& lacking = imported.lacking();
  if (lacking.empty()) return;
  std::erase_if(tensors, [&](const CheckpointTensor& tensor) {
    return std::ranges::find(lacking, tensor.name) != lacking.end();
  });
  std::string text = fmt::format(
      "{} lacks {}: the checkpoint does too, and a run that begins with it "
      "(checkpoint.init_from) gives them initial values",
      from.string(),
      name_list(lacking));
  if (!imported.kept().empty()) {
    text += fmt::format("\n  it has {}, which are kept", name_list(imported.kept()));
  }
  log_info("{}", text);
}

// The dtype of the parameters in the files, where values go back into it without a change; else
// empty.
std::string narrow_dtype(const ImportedTensors& imported, const PlacedModel& placed) {
  const std::vector<std::string>& lacking = imported.lacking();
  std::vector<std::string> names;
  for (const ParameterName& parameter : placed.parameter_names()) {
    if (std::ranges::find(lacking, parameter.name) == lacking.end()) {
      names.push_back(parameter.name);
    }
  }
  const DType dtype = imported.dtype_of(names);
  return dtype == DType::bf16 || dtype == DType::fp16 ? std::string(dtype_name(dtype)) : "";
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
  require_known_files(from, model, *found, arguments.with_tokenizer);
  const std::vector<std::string> tokenizer_files =
      arguments.with_tokenizer ? tokenizer_files_in(from, chosen.tokenizer_files())
                               : std::vector<std::string>();
  const Settings theirs = apart_where_they_differ(model, chosen);
  Claims claims(model.settings_file(), theirs);
  claims.harmless({kModelType, null_key("*")});
  const Settings of_model = chosen.to_ours(claims);
  claims.require_known("the converter " + quote(found->name));
  std::string dtype;                                  // of its files, where it is a narrow one
  const auto ours = [&](const fs::path& tokenizer) {  // the folder of its files
    Settings settings = of_model;
    if (!dtype.empty()) settings["checkpoint.convert_dtype"] = dtype;
    if (tokenizer_files.empty()) return settings;
    const std::string files = fs::absolute(tokenizer).lexically_normal().string();
    for (const auto& [key, value] : chosen.tokenizer(files, tokenizer_files, theirs))
      settings[key] = value;
    return settings;
  };
  const auto resolved_with = [&](const fs::path& tokenizer) {
    const std::string name =
        fmt::format("{}, as TOML of converter {}", (from / "config.json").string(), found->name);
    return resolve(Config::parse(toml_of(ours(tokenizer), {}), name, {}), plugins);
  };
  const Resolved resolved = resolved_with(from);
  const RunSetup setup = setup_of(resolved, plugins, !tokenizer_files.empty());
  const auto device = make_planned_device(rank_spec_of(setup));
  const Rank rank = dry_rank(setup.layout, 0, device);
  const PlacedModel placed(rank, setup);
  const Settings token_ids =
      token_ids_of(model, from, vocabulary_in(of_model), !tokenizer_files.empty());
  ImportedTensors imported(model, chosen, theirs);
  std::vector<CheckpointTensor> wanted = parameter_tensors(placed);
  leave_out(wanted, imported, from);
  const RankPart part(*rank.mesh, std::move(wanted));
  for (const CheckpointTensor& tensor : part.tensors()) {
    imported.expect(tensor.name, sizes_of(tensor.of->logical));
  }
  imported.require_fit(from);
  dtype = narrow_dtype(imported, placed);
  NewFolder folder(out);
  const fs::path steps = folder.path() / "checkpoints", temporary = steps / "step-0.convert.tmp";
  fs::create_directories(temporary);
  const auto values = [&](const CheckpointTensor& tensor, HostBytes& memory) {
    memory = imported.values(tensor.name, tensor.tensor.dtype());
    return std::span<const std::byte>(memory);
  };
  CheckpointInfo info;
  const Resolved stored = resolved_with(out / kTokenizer);
  info.config = dump(stored);
  info.structure = structure_of(*stored.tree);
  if (!tokenizer_files.empty()) info.tokenizer = setup.tokenizer->fingerprint();
  const std::string proof = part.write(temporary, values, 1);
  commit_parts(info, {proof}, temporary, step_folder(steps, 0));
  const Settings told = ours(out / kTokenizer);
  write_synced(folder.path() / "model.toml",
               toml_of(told, {"model.", "batch.sequence", "tokenizer.", "checkpoint."}));
  Conversion done{found->name,
                  out / "model.toml",
                  resolved.run.tokenizer.type,
                  !tokenizer_files.empty(),
                  static_cast<i64>(part.tensors().size())};
  if (done.with_tokenizer) {
    fs::create_directory(folder.path() / kTokenizer);
    for (const std::string& file : tokenizer_files) {
      write_synced(folder.path() / kTokenizer / file, read_text_file(from / file));
    }
    write_token_ids(folder.path() / kTokenizer, token_ids);
    sync_folder(folder.path() / kTokenizer);
  }
  folder.finish();
  return done;
}

}  // namespace tessera
