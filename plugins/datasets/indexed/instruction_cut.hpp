#pragma once
#include <memory>
#include <string>
#include <vector>

#include "cut.hpp"
#include "instruction_tokens.hpp"
#include "packed_items.hpp"

namespace tessera {

/// Examples as samples: one each, or several that fit together. The targets of a prompt have no
/// loss; that of its last token is the answer's first.
class InstructionCut final : public Cut {
 public:
  /// Those of `examples`. `pack`: in samples of so many tokens, kept in a folder; 0: one each.
  InstructionCut(std::shared_ptr<const InstructionTokens> tokens,
                 std::vector<i64> examples,
                 i64 pack,
                 const std::string& keep_in);
  i64 size() const override;
  void find(i64 number, Sample& sample) const override;

 private:
  PackedItems::Item item_of(i64 example) const;

  std::shared_ptr<const InstructionTokens> tokens_;
  std::vector<i64> examples_;  // empty where they are packed
  std::unique_ptr<PackedItems> packed_;
};

}  // namespace tessera
