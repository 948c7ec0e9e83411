#pragma once
#include <filesystem>

#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/train/setup/run_setup.hpp"

namespace tessera {

/// Where a foreign model's folder has settings of generation, numbers of tokens among them.
inline constexpr const char* kGenerationConfig = "generation_config.json";

/// Numbers of tokens that a model of another program came with, as "eos_token_id". The tokenizer's
/// files may say others, so they lie beside those files: `tessera generate` ends a text by them,
/// and `tessera convert` writes them back.

/// "model.vocab" of a configuration here; 0: it does not say a number.
i64 vocabulary_in(const Settings& ours);

/// Numbers in a folder of another program: of its generation_config.json, and of its config.json
/// for keys that the first has not. Warns of those that are no tokens of a model of `vocabulary`,
/// and of all others where there is no tokenizer to keep them with; they are left out.
Settings token_ids_of(const ForeignModel& model,
                      const std::filesystem::path& folder,
                      i64 vocabulary,
                      bool with_tokenizer);

/// Writes them into a tokenizer's folder; none: no file.
void write_token_ids(const std::filesystem::path& folder, const Settings& ids);

/// Numbers that lie in a tokenizer's folder; warns of those that are no tokens of this model.
Settings read_token_ids(const std::filesystem::path& folder, i64 vocabulary);

/// The tokens that end a text of this run's model: those that it came with, or else those that its
/// tokenizer names.
std::vector<i32> end_tokens(const RunSetup& setup);

}  // namespace tessera
