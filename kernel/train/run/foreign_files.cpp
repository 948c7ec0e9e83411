#include "kernel/train/run/foreign_files.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <initializer_list>
#include <set>

#include "kernel/checkpoint/disk.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/train/run/token_ids.hpp"
#include "kernel/train/run/unread_folders.hpp"
#include "tessera/error.hpp"
#include "tessera/io/written.hpp"
#include "tessera/log.hpp"

namespace tessera {

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kAlone = "--no-tokenizer converts the model alone";

bool matches(const std::string& name, std::initializer_list<const char*> patterns) {
  return std::ranges::any_of(patterns, [&](const char* pattern) {
    return ::fnmatch(pattern, name.c_str(), FNM_CASEFOLD) == 0;
  });
}

// Pages and pictures, weights of other formats, states and results of a training.
bool harmless(const std::string& name) {
  return matches(name, {".*", "*.md", "*.rst", "*.pdf", "*.png", "*.jpg", "*.jpeg", "*.gif"}) ||
         matches(name, {"*.svg", "*license*", "*notice*", "use_policy*", "*.py", "*.log"}) ||
         matches(name, {"*.bin", "*.bin.index.json", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.ot"}) ||
         matches(name, {"*.msgpack", "*.onnx", "*.gguf", "*.tflite", "*.mlmodel", "*.npz"}) ||
         matches(name, {"trainer_state.json", "training_args.json", "*_results.json"}) ||
         matches(name, {"events.out.*", "chat_template.*"});
}

bool of_a_tokenizer(const std::string& name) {
  return matches(name, {"tokenizer*", "vocab*", "merges.txt", "added_tokens.json"}) ||
         matches(name, {"special_tokens_map.json", "*.model", "*.tiktoken", "tekken.json"});
}

// Settings of generation for another program; tessera generate takes its own flags.
constexpr std::initializer_list<const char*> kOfGeneration = {
    "max_*",          "min_*",        "early_stopping",  "stop_strings",      "do_sample",
    "num_*",          "temperature",  "top_*",           "typical_p",         "*_cutoff",
    "*_penalty",      "*no_repeat*",  "bad_words_ids",   "force_words_ids",   "forced_*",
    "renormalize_*",  "remove_*",     "exponential_*",   "*suppress_tokens*", "sequence_bias*",
    "guidance_scale", "constraints*", "penalty_alpha",   "dola_layers",       "use_mtp",
    "token_healing",  "watermark*",   "is_assistant",    "*assistant_*",      "*lookup_*",
    "*lookbehind",    "speculation*", "decoder_start_*", "cache_*",           "max_cache_len"};

void warn_of_generation(const fs::path& file, const NamedConverter& by) {
  Claims claims(file.string(), parse_settings(read_text_file(file), file.string()));
  claims.harmless({"_from_model_config", "transformers_version", "use_cache", "output_*"});
  claims.harmless({"return_dict_in_generate", "bos_token_id", "eos_token_id", "pad_token_id"});
  claims.harmless({"compile_config*", "disable_compile", "low_memory", "prefill_chunk_size"});
  claims.harmless({"continuous_batching_config*"});
  std::vector<std::string> passed;
  for (const auto& [key, value] : claims.all()) {
    if (!matches(key, kOfGeneration)) continue;
    claims.harmless({key});
    passed.push_back(fmt::format("{} = {}", written_plain(key), written_plain(value.text())));
  }
  claims.require_known("the converter " + quote(by.name));
  if (passed.empty()) return;
  log_warning("{} is not kept: {}; give tessera generate what you need of it",
              file.string(),
              name_list(passed));
}

std::string texts(const std::vector<std::vector<std::string>>& sets) {
  std::string text;
  for (const std::vector<std::string>& set : sets) {
    text += fmt::format("{}{}", text.empty() ? "" : ", or ", fmt::join(set, " and "));
  }
  return text;
}

}  // namespace

fs::path tokenizer_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? path.parent_path() : path;
}

std::vector<std::string> tokenizer_files_in(const fs::path& folder, const TokenizerFiles& known) {
  const auto there = [&](const std::string& file) { return fs::is_regular_file(folder / file); };
  std::vector<std::string> files;
  const auto take = [&](const std::string& file) {
    if (there(file) && std::ranges::find(files, file) == files.end()) files.push_back(file);
  };
  bool whole = false;
  for (const std::vector<std::string>& set : known.sets) {
    whole = whole || std::ranges::all_of(set, there);
    std::ranges::for_each(set, take);
  }
  std::ranges::for_each(known.others, take);
  if (whole || files.empty()) return files;
  std::vector<std::string> missing;  // of the first set of which something is there
  for (const std::vector<std::string>& set : known.sets) {
    if (!missing.empty() || std::ranges::none_of(set, there)) continue;
    std::ranges::copy_if(set, std::back_inserter(missing), std::not_fn(there));
  }
  fail_config("{} has {} without {}; {}",
              folder.string(),
              name_list(files),
              missing.empty() ? texts(known.sets) : name_list(missing),
              kAlone);
}

void require_known_files(const fs::path& folder,
                         const ForeignModel& model,
                         const NamedConverter& by,
                         bool with_tokenizer) {
  const Converter& converter = *by.converter;
  std::set<std::string> read(model.files().begin(), model.files().end());
  if (with_tokenizer) {
    for (std::string& file : tokenizer_files_in(folder, converter.tokenizer_files())) {
      read.insert(std::move(file));
    }
  }
  std::vector<std::string> unknown, tensors;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() || read.contains(name)) continue;
    if (name == kGenerationConfig) {
      warn_of_generation(entry.path(), by);
    } else if (matches(name, {"adapter*"})) {
      fail_config("{} is an adapter: merge it into the model first", written_path(entry.path()));
    } else if (of_a_tokenizer(name)) {
      if (!with_tokenizer) continue;
      fail_config("{} is of a tokenizer that the converter {} does not read; {}",
                  written_path(entry.path()),
                  quote(by.name),
                  kAlone);
    } else if (matches(name, {"*.safetensors", "*.safetensors.index.json"})) {
      tensors.push_back(name);
    } else if (!harmless(name) && !converter.harmless_file(name)) {
      unknown.push_back(written_plain(name));
    }
  }
  std::ranges::sort(unknown);
  std::ranges::sort(tensors);
  if (!unknown.empty()) {
    fail_config(
        "{} has {}, which the converter {} does not know: move away what changes nothing in the "
        "model",
        folder.string(),
        name_list(unknown),
        quote(by.name));
  }
  if (!tensors.empty()) log_warning("{}: {} is not read", folder.string(), name_list(tensors));
  tell_unread_folders(folder);
}

}  // namespace tessera
