#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "kernel/checkpoint/index.hpp"
#include "kernel/config/structure.hpp"
#include "kernel/train/setup/run_setup.hpp"
#include "tessera/data.hpp"

namespace tessera {

/// The name of the tokenizer among structural keys, for `checkpoint.init_changes` too.
inline constexpr std::string_view kTokenizerKey = "tokenizer";

/// What the parameters of a checkpoint mean to those who would use it: structural keys and the
/// tokenizer that they were trained with, against those of today.
struct Meaning {
  std::vector<StructureChange> keys;  ///< structural keys with another value
  std::string tokenizer;              ///< that of the checkpoint, where it is another one; or empty
  std::string tokenizer_now;          ///< the other one
  bool tokenizer_known = true;        ///< a checkpoint of a model from elsewhere may have none

  /// Removes keys and tokenizer that a pattern of `allowed` names. Throws ConfigError for a pattern
  /// that names none of them.
  void allow(const std::vector<std::string>& allowed);
  bool same() const { return keys.empty() && tokenizer.empty(); }
  /// A line each, indented: "\n  model.heads: 4, now 2".
  std::string text() const;
};

/// Compares a checkpoint with a resolved configuration and its tokenizer; without one, only keys
/// are compared.
Meaning compare_meaning(const CheckpointInfo& info,
                        const ConfigTree& now,
                        const Tokenizer* tokenizer);
inline Meaning compare_meaning(const CheckpointInfo& info, const RunSetup& setup) {
  return compare_meaning(info, *setup.tree, setup.tokenizer.get());
}

/// Throws ConfigError where structural keys differ, naming them and `way_out`.
void require_same_keys(const std::filesystem::path& checkpoint,
                       const Meaning& meaning,
                       std::string_view way_out);
/// Warns where the checkpoint does not tell its tokenizer.
void warn_of_unknown(const std::filesystem::path& checkpoint, const Meaning& meaning);

}  // namespace tessera
