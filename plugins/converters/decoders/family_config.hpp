#pragma once
#include "families.hpp"

namespace tessera {

/// A config.json as its family reads it: a key that is absent has the family's default.
class FamilyConfig {
 public:
  FamilyConfig(const Family& family, Claims& theirs) : family_(family), theirs_(theirs) {}

  Value get(std::string_view key);
  i64 integer(std::string_view key);
  /// The same of a key for which the family may have no default.
  i64 integer(std::string_view key, i64 otherwise);
  /// False where the family does not have the key.
  bool flag(std::string_view key);

  /// Is the key there, and null? Claims has no such key, and for some null means another model than
  /// no key. So the file is read once more; where there is none, nothing is null.
  bool is_null(const char* key) const;

  Claims& claims() { return theirs_; }
  const Family& family() const { return family_; }

 private:
  const Value* usual(std::string_view key) const;

  const Family& family_;
  Claims& theirs_;
};

/// How large a model is.
struct FamilySizes {
  explicit FamilySizes(FamilyConfig& config);

  i64 layers, hidden, ffn, heads, groups;  // groups: heads of keys and values
  i64 head = 0;                            // size of a head
};

/// Which projections have biases.
struct FamilyBiases {
  explicit FamilyBiases(FamilyConfig& config);

  bool qkv, proj, mlp;
};

/// Throws ConfigError unless every layer attends to all positions before its own.
void require_full_attention(FamilyConfig& config);

}  // namespace tessera
