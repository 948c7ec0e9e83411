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
  /// False where the family does not have the key, or where it is null.
  bool flag(std::string_view key);

  /// Is the key there, and null?
  bool is_null(std::string_view key);

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

/// Nothing is in this slot: where none is by default, its type is empty or not written.
void require_none(const ModelKeys& ours, const std::string& slot);

/// Which projections have biases.
struct FamilyBiases {
  explicit FamilyBiases(FamilyConfig& config);

  bool qkv, proj, mlp;
};

}  // namespace tessera
