#pragma once
#include <filesystem>
#include <string>

#include "kernel/plugin/host.hpp"

namespace tessera {

struct Conversion {
  std::string converter;                ///< the one that was used
  std::filesystem::path configuration;  ///< the file that was written; empty: none
  std::string tokenizer;                ///< of the converted model; empty: none was found
  i64 tensors = 0;
};

/// Makes `out`, a new folder, with checkpoints/step-0, which has the parameters of the model in
/// `from` (a folder with a config.json), and model.toml, its configuration: what
/// `checkpoint.init_from` and a configuration's include take. `converter`: its name; empty: the one
/// for the model's type. `with_tokenizer`: copies the tokenizer's files too, where there are any,
/// to a folder that the configuration names. Throws ConfigError when there is no converter, or
/// naming tensors that are missing, unknown or of other shapes.
Conversion import_model(const std::filesystem::path& from,
                        const std::filesystem::path& out,
                        const std::string& converter,
                        bool with_tokenizer,
                        const PluginHost& plugins);

/// Makes `out`, a new folder with config.json and model.safetensors, of the parameters of the
/// checkpoint `from`. `converter`: its name; empty: the one that takes the model. `with_tokenizer`:
/// copies the tokenizer's files too, where the run had the tokenizer that the converter knows.
Conversion export_model(const std::filesystem::path& from,
                        const std::filesystem::path& out,
                        const std::string& converter,
                        bool with_tokenizer,
                        const PluginHost& plugins);

}  // namespace tessera
