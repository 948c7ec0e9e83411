#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/foreign_model.hpp"
#include "kernel/train/run/converters.hpp"

namespace tessera {

/// Where the files of a tokenizer lie: tokenizer.path names a folder, or the main one of its files.
std::filesystem::path tokenizer_folder(const std::filesystem::path& path);
/// The files of the folder's tokenizer that are copied; empty: it has none. Throws ConfigError
/// where some are there without the others that they need.
std::vector<std::string> tokenizer_files_in(const std::filesystem::path& folder,
                                            const TokenizerFiles& known);

/// Every file of the model's folder is read, harmless or refused: throws ConfigError naming one
/// that is refused, and those that are not known. Warns of what is passed over although it matters:
/// other tensors, settings of generation, folders.
void require_known_files(const std::filesystem::path& folder,
                         const ForeignModel& model,
                         const NamedConverter& converter,
                         bool with_tokenizer);

}  // namespace tessera
