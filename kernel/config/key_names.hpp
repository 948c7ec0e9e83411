#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/config/keys.hpp"

namespace tessera {

/// Names that other training programs have for our keys, for hints of errors: those that keys
/// declare (FieldBuilder::megatron and also) and, for what is no single key, those of
/// configs/names/other_programs.toml.
class KeyNames {
 public:
  explicit KeyNames(const std::vector<KeyTable>& tables);
  /// Megatron-LM's flags ("--lr") with the paths of the keys that they are here.
  const std::map<std::string, std::vector<std::string>>& flags() const { return flags_; }
  /// The paths of "lr", "--lr" or, of words, "lr-warmup_iters"; none where no key is that flag.
  std::vector<std::string> keys_of(std::string_view name) const;
  /// "Megatron-LM's --lr is lr.peak here", "n_layer is model.layers here"; empty where nothing has
  /// such a name.
  std::string hint(std::string_view name) const;

 private:
  std::map<std::string, std::vector<std::string>> flags_;
  std::map<std::string, std::string> notes_;  ///< "--load" and "n-layer" with what is said of them
};

}  // namespace tessera
