#include "instruction_cut.hpp"

#include <fmt/format.h>

#include <utility>

#include "tessera/base/hash.hpp"

namespace tessera {

PackedItems::Item InstructionCut::item_of(i64 example) const {
  const i64 begin = tokens_->begin(example);
  return {begin, tokens_->end(example) - begin - 1, tokens_->prompt(example) - 1};
}

InstructionCut::InstructionCut(std::shared_ptr<const InstructionTokens> tokens,
                               std::vector<i64> examples,
                               i64 pack,
                               const std::string& keep_in)
    : tokens_(std::move(tokens)), examples_(std::move(examples)) {
  if (pack == 0) return;
  const std::string_view numbers(reinterpret_cast<const char*>(examples_.data()),
                                 examples_.size() * sizeof(i64));
  packed_ = std::make_unique<PackedItems>(
      keep_in,
      fmt::format("instructions {:016x} {:016x}", tokens_->hash(), hash64(numbers)),
      pack,
      [&] {
        std::vector<PackedItems::Item> items;
        for (const i64 example : examples_) items.push_back(item_of(example));
        return items;
      });
  examples_.clear();
}

i64 InstructionCut::size() const {
  return packed_ != nullptr ? packed_->size() : static_cast<i64>(examples_.size());
}

void InstructionCut::find(i64 number, Sample& sample) const {
  if (packed_ != nullptr) return packed_->find(number, tokens_->tokens(), sample);
  const auto [begin, places, quiet] = item_of(examples_[static_cast<std::size_t>(number)]);
  sample.packed = true;
  sample.pieces = {{begin, places, false, quiet}};
}

}  // namespace tessera
