#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "kernel/checkpoint/commit.hpp"
#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/checkpoint/slices.hpp"
#include "kernel/checkpoint/stored_config.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/comm/build_mesh.hpp"
#include "kernel/config/dump.hpp"
#include "kernel/train/run/convert.hpp"
#include "kernel/train/run/converters.hpp"
#include "kernel/train/run/exported_tensors.hpp"
#include "kernel/train/run/foreign_files.hpp"
#include "kernel/train/run/meaning.hpp"
#include "kernel/train/run/token_ids.hpp"
#include "kernel/train/setup/outline.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

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

// The tokenizer of the model, as it is written beside it.
struct WrittenTokenizer {
  std::shared_ptr<Tokenizer> tokenizer;  // nullptr: none is written
  std::vector<std::string> files;        // of `folder`, which are copied
  fs::path folder;
  std::string config;  // a tokenizer_config.json of our own; empty: none
  Settings keys;       // of the tokenizer_config.json that is there
};

constexpr const char* kTokenizerConfig = "tokenizer_config.json";

// The tokenizer of the run, where `converter` knows its type.
WrittenTokenizer written_tokenizer(const Resolved& resolved,
                                   const Converter& converter,
                                   const Settings& theirs,
                                   const PluginHost& plugins,
                                   const fs::path& checkpoint) {
  const Settings ours = settings_in(resolved, {"tokenizer."});
  const auto path = ours.find("tokenizer.path");
  const TokenizerFiles known = converter.tokenizer_files();
  if (path == ours.end() || known.sets.empty()) return {};
  const auto* said = std::get_if<std::string>(&path->second.data);
  if (said == nullptr) return {};
  const fs::path folder = tokenizer_folder(*said);
  // What the run's tokenizer may read.
  std::vector<std::vector<std::string>> sets;
  for (const std::vector<std::string>& files : known.sets) {
    const Settings read_by = converter.tokenizer(folder.string(), files, theirs);
    const auto type = read_by.find("tokenizer.type");
    if (type != read_by.end() && type->second == ours.at("tokenizer.type")) sets.push_back(files);
  }
  if (sets.empty()) return {};
  WrittenTokenizer written{nullptr, tokenizer_files_in(folder, known), folder, {}, {}};
  const auto copied = [&](const std::string& file) {
    return std::ranges::find(written.files, file) != written.files.end();
  };
  const bool named = folder == *said || copied(fs::path(*said).filename().string());
  if (!named || std::ranges::none_of(
                    sets, [&](const auto& set) { return std::ranges::all_of(set, copied); })) {
    fail_config("{} {} {}, and {} was trained with it; --no-tokenizer converts the model alone",
                *said,
                named ? "has no" : "is no",
                sets[0].size() == 1 ? sets[0][0] : name_list(sets[0]),
                checkpoint.string());
  }
  TokenizerArguments none;
  written.tokenizer = HostMaker(plugins, resolved.tree).make(resolved.run.tokenizer, none);
  const fs::path config = folder / kTokenizerConfig;
  if (!copied(kTokenizerConfig)) {
    written.config = converter.tokenizer_config(*written.tokenizer, ours);
  }
  const std::string text =
      written.config.empty() && fs::exists(config) ? read_text_file(config) : written.config;
  if (!text.empty()) written.keys = parse_settings(text, config.string());
  return written;
}

// Puts numbers of tokens into `theirs`: those that the model came with, or else its tokenizer's.
// Tokens that it lacks are null.
void put_token_ids(Settings& theirs,
                   const Converter& converter,
                   const WrittenTokenizer& tokenizer,
                   i64 vocabulary) {
  const Settings kept =
      tokenizer.tokenizer == nullptr ? Settings() : read_token_ids(tokenizer.folder, vocabulary);
  for (const auto& [key, id] : converter.token_ids(tokenizer.tokenizer.get(), tokenizer.keys)) {
    theirs.erase(key);
    if (id) {
      theirs[key] = *id;
    } else if (!kept.contains(key)) {
      theirs[null_key(key)] = true;
    }
  }
  for (const auto& [key, ids] : kept) theirs[key] = ids;
}

// With other tokenizer files beside the weights, ids would mean other texts.
void require_same_tokenizer(const fs::path& from,
                            const CheckpointInfo& info,
                            const Resolved& resolved,
                            const Tokenizer& tokenizer) {
  const Meaning meaning = compare_meaning(info, *resolved.tree, &tokenizer);
  warn_of_unknown(from, meaning);
  if (meaning.tokenizer.empty()) return;
  fail_config(
      "{} was trained with the tokenizer {}, and what tokenizer.path names today is {}: put back "
      "the files that it was trained with; --no-tokenizer converts the model alone",
      from.string(),
      quote(meaning.tokenizer),
      quote(meaning.tokenizer_now));
}

// The parameters of a model, and its saved buffers.
struct Outlined {
  TensorShapes shapes;
  std::set<std::string> buffers;  // among them
};

// No tokenizer is read: the model's vocabulary stands for its tokenizer's.
Outlined outlined(const Resolved& resolved, i64 vocabulary, const PluginHost& plugins) {
  RunSetup setup;
  setup.config = &resolved.run;
  setup.maker = std::make_shared<HostMaker>(plugins, resolved.tree);
  const i64 length = resolved.run.batch.sequence_length;
  ModelArguments arguments{vocabulary, length, false};
  const auto model = setup.maker->make(resolved.run.model, arguments);
  setup.batch = {1, length};
  Mesh mesh(RankGenerator(Layout()), 0);
  build_mesh(mesh);
  Outline outline(*model, build_settings_of(setup, mesh, nullptr));
  Outlined found;
  for (const Parameter* parameter : outline.parts().parameter_list()) {
    found.shapes[parameter->name] = sizes_of(parameter->logical);
  }
  for (const auto& buffer : outline.parts().buffers()) {
    if (!buffer->saved) continue;
    found.shapes[buffer->name] = sizes_of(buffer->logical);
    found.buffers.insert(buffer->name);
  }
  return found;
}

// The model that `theirs` describes: what a reader of the folder expects.
struct Described {
  Resolved resolved;
  Outlined outline;
};

Described described_by(const Settings& theirs,
                       const NamedConverter& by,
                       const PluginHost& plugins) {
  Claims claims("config.json", theirs);
  claims.harmless({kModelType, null_key("*")});
  const Settings ours = by.converter->to_ours(claims);
  claims.require_known("it");
  std::vector<std::string> sets;
  for (const auto& [key, value] : ours) sets.push_back(fmt::format("{}={}", key, value.text()));
  Described described{resolve(Config::parse("schema = 1", by.name, sets), plugins), {}};
  described.outline = outlined(described.resolved, vocabulary_in(ours), plugins);
  return described;
}

std::string shape_in(const TensorShapes& shapes, const std::string& name) {
  const auto found = shapes.find(name);
  return found == shapes.end() ? "absent" : fmt::format("[{}]", fmt::join(found->second, ", "));
}

// Warns of what shapes do not show, such as the epsilon of a norm: a converter may pass over it.
void warn_of_unsaid(const Resolved& ours, const Resolved& described, const NamedConverter& by) {
  const std::string automatic = Value("auto").text();
  std::vector<std::string> unsaid;
  for (const Difference& d : differences(ours, described)) {
    // A key of one side only comes with a type that differs.
    if (!d.path.starts_with("model.") || d.derived || !d.left || !d.right) continue;
    if (d.left == automatic || d.right == automatic) continue;
    unsaid.push_back(fmt::format("{} is {} and not {}", d.path, *d.right, *d.left));
  }
  if (unsaid.empty()) return;
  log_warning("the config.json of converter \"{}\" does not keep all keys; read back, {}",
              by.name,
              name_list(unsaid));
}

// A folder whose config.json does not describe its tensors loads nowhere, or as another model.
Described require_described(const Settings& theirs,
                            const Resolved& ours,
                            const ExportedTensors& tensors,
                            const NamedConverter& by,
                            const PluginHost& plugins) {
  Described described;
  try {
    described = described_by(theirs, by, plugins);
  } catch (const ConfigError& error) {
    fail_config("converter \"{}\" cannot read what it would write: {}", by.name, error.what());
  }
  const TensorShapes &stored = tensors.shapes(), &shapes = described.outline.shapes;
  TensorShapes all = stored;
  all.insert(shapes.begin(), shapes.end());
  for (const std::string& name : tensors.lacking()) all.erase(name);
  std::vector<std::string> problems;
  for (const auto& [name, shape] : all) {
    const std::string here = shape_in(stored, name), there = shape_in(shapes, name);
    if (here == there) continue;
    problems.push_back(fmt::format("\"{}\" is {} and not {}", name, here, there));
  }
  if (problems.empty()) {
    warn_of_unsaid(ours, described.resolved, by);
    return described;
  }
  fail_config("the config.json that converter \"{}\" would write describes another model: {}",
              by.name,
              name_list(problems));
}

// What transformers calls a dtype.
const char* torch_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bfloat16";
    case DType::fp16:
      return "float16";
    case DType::fp64:
      return "float64";
    default:
      return "float32";
  }
}

// The dtype of the parameters that are written: the one that is asked for, or else that of the run,
// or else as they are `stored`.
DType written_dtype(const ConversionArguments& arguments, const Resolved& resolved, DType stored) {
  if (!arguments.dtype.empty()) return parse_dtype(arguments.dtype);
  const std::string& of_run = resolved.run.checkpoint.convert_dtype;
  return of_run == "auto" ? stored : parse_dtype(of_run);
}

// A converter that takes the model, and the keys of config.json that it writes.
struct Fitting {
  NamedConverter by;
  Settings theirs;
};

// The families of one plugin may hold the same model under several names: the first is taken.
Fitting chosen_for(const Settings& ours,
                   const ConversionArguments& arguments,
                   const PluginHost& plugins) {
  std::vector<Fitting> fitting;
  std::vector<NamedConverter> names;
  std::string why;
  for (const NamedConverter& one : converters(plugins, arguments.converter)) {
    try {
      fitting.push_back({one, one.converter->to_theirs(ours)});
      names.push_back(one);
    } catch (const ConfigError& error) {
      why += fmt::format("\n  {}: {}", one.name, error.what());
    }
  }
  const std::string from = arguments.from.string();
  if (fitting.empty()) {
    fail_config("no converter takes the model of {}:{}{}", from, why, plugins.not_loaded());
  }
  const auto library = [&](const NamedConverter& one) {
    return plugins.library_of(Converter::kKind, one.name);
  };
  if (fitting.size() == 1) return fitting[0];
  if (std::ranges::any_of(names,
                          [&](const auto& one) { return library(one) != library(names[0]); })) {
    fail_config("{} take the model of {}: name one with --converter", names_of(names), from);
  }
  log_info("{} take the model of {}: it is written as {}; --converter names another",
           names_of(names),
           from,
           quote(names[0].name));
  return fitting[0];
}

}  // namespace

Conversion export_model(const ConversionArguments& arguments,
                        i64 file_bytes,
                        const PluginHost& plugins) {
  const fs::path& from = arguments.from;
  const CheckpointIndex index = read_index(from);
  const Resolved resolved = resolve_stored(from, index, stored_config(from, index), plugins);
  // A plugin's defaults may have changed.
  require_same_keys(from,
                    compare_meaning(index.info, *resolved.tree, nullptr),
                    "convert it with the version of these plugins that it was trained with");
  Settings ours = settings_in(resolved, {"model.", "batch."});
  const auto vocab = ours.find("model.vocab");
  const auto table = index.tensors.find("embedding.weight");
  if (vocab != ours.end() && vocab->second == Value("auto") && table != index.tensors.end()) {
    vocab->second = table->second.shape.at(0);
  }
  for (const auto& [name, shape] : outlined(resolved, vocabulary_in(ours), plugins).shapes) {
    if (!index.tensors.contains(name)) ours[lacks_key(name)] = true;
  }
  auto [by, theirs] = chosen_for(ours, arguments, plugins);
  const Converter& chosen = *by.converter;
  theirs[std::string(kModelType)] = chosen.model_type();

  ExportedTensors tensors(from, index, by, theirs);
  const Described described = require_described(theirs, resolved, tensors, by, plugins);
  if (!tensors.lacking().empty()) {
    log_info("{} lacks {}: {} does too",
             from.string(),
             name_list(tensors.lacking()),
             arguments.out.string());
  }
  const DType stored = tensors.dtype_without(described.outline.buffers);
  const DType dtype = written_dtype(arguments, resolved, stored);
  theirs["torch_dtype"] = torch_name(dtype);
  if (dtype != stored) tensors.round(dtype, described.outline.buffers);
  const WrittenTokenizer tokenizer =
      arguments.with_tokenizer ? written_tokenizer(resolved, chosen, theirs, plugins, from)
                               : WrittenTokenizer();
  if (tokenizer.tokenizer != nullptr) {
    require_same_tokenizer(from, index.info, resolved, *tokenizer.tokenizer);
  }
  put_token_ids(theirs, chosen, tokenizer, vocabulary_in(ours));
  NewFolder folder(arguments.out);
  write_foreign_model(
      folder.path(),
      theirs,
      tensors.entries(),
      [&](std::size_t i, const ByteSink& sink) { tensors.write(i, sink); },
      file_bytes);
  Conversion done{by.name,
                  {},
                  resolved.run.tokenizer.type,
                  tokenizer.tokenizer != nullptr,
                  static_cast<i64>(tensors.entries().size()),
                  dtype == stored ? std::string() : std::string(dtype_name(dtype))};
  for (const std::string& file : tokenizer.files) {
    write_synced(folder.path() / file, read_text_file(tokenizer.folder / file));
  }
  if (!tokenizer.config.empty()) write_synced(folder.path() / kTokenizerConfig, tokenizer.config);
  folder.finish();
  if (const std::string cost = tensors.cost(); !cost.empty()) {
    log_warning("{}: {}", arguments.out.string(), cost);
  }
  return done;
}

}  // namespace tessera
