#include "tessera/block_row.hpp"

#include <algorithm>

#include "tessera/io/suggest.hpp"
#include "tessera/pattern.hpp"

namespace tessera {

namespace {

std::vector<std::string> names_of(const BlockKinds& kinds) {
  std::vector<std::string> names;
  for (const auto& [name, component] : kinds) names.push_back(name);
  return names;
}

std::size_t kind(std::string_view rest, const BlockKinds& kinds) {
  constexpr std::string_view kWord =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  const std::size_t length = std::min(rest.find_first_not_of(kWord), rest.size());
  if (length == 0) {
    fail_config("unexpected \"{}\"; names of [model.blocks], (…) and *n are known", rest.front());
  }
  const std::string name(rest.substr(0, length));
  if (kinds.contains(name)) return length;
  const std::vector<std::string> names = names_of(kinds);
  const auto near = nearest(name, names);
  fail_config("there is no [model.blocks.{}]; {}",
              name,
              near            ? fmt::format("did you mean \"{}\"?", *near)
              : names.empty() ? "there are none"
                              : fmt::format("there are {}", fmt::join(names, ", ")));
}

// The component of each of `layers` blocks: `block` everywhere without a pattern, else the kinds
// that the pattern names.
std::vector<Component<Layer>> blocks_of(const std::string& pattern,
                                        const BlockKinds& kinds,
                                        const Component<Layer>& block,
                                        i64 layers) {
  if (pattern.empty()) {
    if (!kinds.empty()) {
      fail_config("model.blocks.{}: model.pattern says which blocks are of this kind, and is empty",
                  kinds.begin()->first);
    }
    return std::vector<Component<Layer>>(static_cast<std::size_t>(layers), block);
  }
  std::vector<std::string> row;
  try {
    row = expand_pattern(pattern, [&](std::string_view rest) { return kind(rest, kinds); });
  } catch (const ConfigError& error) {
    fail_config("model.pattern: {}", error.what());
  }
  if (static_cast<i64>(row.size()) != layers) {
    fail_config("model.pattern: it has {} blocks; model.layers = {}", row.size(), layers);
  }
  for (const auto& [name, component] : kinds) {
    if (std::ranges::find(row, name) != row.end()) continue;
    fail_config("model.blocks.{}: no block of model.pattern is of this kind", name);
  }
  std::vector<Component<Layer>> blocks;
  for (const std::string& name : row) blocks.push_back(kinds.at(name));
  return blocks;
}

i64 vocabulary_of(const BlockRowKeys& keys, const ModelArguments& arguments) {
  const i64 vocab = keys.vocab.value_or(arguments.tokenizer_vocab);
  if (vocab < 1) {
    fail_config("model.vocab = \"auto\" needs a tokenizer; give the number of entries");
  }
  if (vocab < arguments.tokenizer_vocab) {
    fail_config("model.vocab = {} is smaller than the tokenizer's vocabulary of {}",
                vocab,
                arguments.tokenizer_vocab);
  }
  return vocab;
}

}  // namespace

BlockRow::BlockRow(const BlockRowKeys& keys, const ModelArguments& arguments)
    : keys_(keys),
      vocab_(vocabulary_of(keys, arguments)),
      blocks_(blocks_of(keys.pattern, keys.blocks, keys.block, keys.layers)) {
  if (arguments.own_positions || arguments.sequence_length <= keys.positions) return;
  fail_config("model.positions = {} are fewer than batch.sequence_length = {}",
              keys.positions,
              arguments.sequence_length);
}

std::vector<ModelLayer> BlockRow::layers() const {
  std::vector<ModelLayer> list{{"embedding", ModelLayer::embedding}};
  for (i64 i = 0; i < keys_.layers; ++i) {
    list.push_back({fmt::format("layers.{}", i), ModelLayer::block});
  }
  list.push_back({"head", ModelLayer::head});
  return list;
}

Given BlockRow::given(Given more) const {
  more.emplace_back("vocab", vocab_);
  more.emplace_back("vocab_multiple", keys_.vocab_multiple);
  return more;
}

}  // namespace tessera
