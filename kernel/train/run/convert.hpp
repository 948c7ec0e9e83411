#pragma once
#include <filesystem>
#include <string>

#include "kernel/plugin/host.hpp"

namespace tessera {

struct ConversionArguments {
  std::filesystem::path from, out;  ///< `out` is a new folder
  std::string converter;            ///< its name; empty: the one that fits
  std::string dtype = {};           ///< of parameters that are written; empty: as the run says
  /// Copies the tokenizer's files too: those of a model, where there are any; those of a
  /// checkpoint, where the converter knows the run's tokenizer.
  bool with_tokenizer = true;
};

struct Conversion {
  std::string converter;                ///< the one that was used
  std::filesystem::path configuration;  ///< the file that was written; empty: none
  std::string tokenizer;                ///< type of the one that the model is used with
  bool with_tokenizer = false;          ///< its files were converted too
  i64 tensors = 0;
  std::string dtype = {};  ///< what parameters were rounded to; empty: written as they were
};

/// Makes `out` with checkpoints/step-0, which has the parameters of the model in `from` (a folder
/// with a config.json), and model.toml, its configuration: what `checkpoint.init_from` and a
/// configuration's include take. Tokenizer files go to a folder that the configuration names.
/// Throws ConfigError when there is no converter, or naming tensors that are missing, unknown or of
/// other shapes, and a file, key or tensor that the converter does not know.
Conversion import_model(const ConversionArguments& arguments, const PluginHost& plugins);

/// Makes `out`, such a folder, of the parameters of the checkpoint `from`. `file_bytes`: see
/// write_foreign_model. Warns of values that the dtype does not hold; throws ConfigError where it
/// makes a number infinite.
Conversion export_model(const ConversionArguments& arguments,
                        i64 file_bytes,
                        const PluginHost& plugins);

}  // namespace tessera
