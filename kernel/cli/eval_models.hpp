#pragma once
#include <optional>
#include <string>
#include <vector>

#include "kernel/cli/commands.hpp"
#include "kernel/cli/stored_model.hpp"

namespace tessera {

/// The models of one `tessera eval`: that of --checkpoint and those of --ensemble or --seeds. All
/// are opened before any is measured, so that what is missing ends the command at once.
class EvalModels {
 public:
  struct Further {
    std::string name;               ///< as the command has it
    StoredModel stored;             ///< its folder is looked for once
    std::optional<RunSetup> setup;  ///< of read()
  };

  /// The options outlive it.
  explicit EvalModels(const EvalOptions& options) : options_(options) {}

  /// Opens all. Returns that of --checkpoint, which its caller keeps.
  StoredModel open();
  /// Which checkpoints the further ones are: a run may save while ranks start.
  std::vector<Fact> facts() const;
  /// Reads what the further ones measure, and the file of --test; `first` and its setup are of
  /// --checkpoint. Throws ConfigError also where an ensemble cannot be averaged.
  void read(const StoredModel& first, const RunSetup& setup, i64 world);
  /// What check_loadable() finds out about the further ones. After read().
  void check_loadable(int threads) const;

  const std::vector<Further>& further() const { return further_; }
  /// A model whose file is that of --test.
  StoredModel tested(const StoredModel& model) const;

 private:
  const EvalOptions& options_;
  std::vector<Further> further_;
};

}  // namespace tessera
