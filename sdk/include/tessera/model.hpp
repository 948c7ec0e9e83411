#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// One entry of a model's linear list of layers.
struct ModelLayer {
  std::string name;  ///< scope of its parameters: "embedding", "layers.3", "head"
  enum Role : u8 { embedding, block, head } role = block;
};

struct ModelArguments {
  /// What "vocab = auto" becomes: the tokenizer's size; 0 when there is no tokenizer.
  i64 tokenizer_vocab = 0;
  i64 sequence_length = 1;  ///< positions of a sample: batch.sequence_length
};

/// From configuration to a linear list of layers. Plugin kind "model". The kernel cuts the list
/// into chunks and builds only the layers that live on this rank.
class TESSERA_API Model {
 public:
  static constexpr std::string_view kKind = "model";
  static constexpr bool kStructural = true;
  using Arguments = ModelArguments;

  virtual ~Model();
  virtual std::vector<ModelLayer> layers() const = 0;
  /// Builds one layer; `build` is scoped to its name.
  virtual std::shared_ptr<Layer> build(int index, BuildContext& build) const = 0;
  /// Entries of the vocabulary, without padding.
  virtual i64 vocabulary() const = 0;
  /// The bundle slot that holds the logits [n, v / tp] of the last layer when evaluating, for
  /// generation.
  static constexpr std::string_view kLogitsSlot = "logits";
};

}  // namespace tessera
