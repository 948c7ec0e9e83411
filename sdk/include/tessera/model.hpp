#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tessera/build.hpp"

namespace tessera {

/// One entry of a model's linear list of layers.
struct ModelLayer {
  std::string name;  ///< scope of its parameters: "embedding", "layers.3", "head"
  /// ahead: after the head and on its stage, a block that only training runs. Layers of several
  /// `head`s may follow the first one, there too.
  enum Role : u8 { embedding, block, head, ahead } role = block;
  /// Is it one of those that [recompute] and graphs of chosen phases mean by blocks?
  bool is_block() const { return role == block || role == ahead; }
};

struct ModelArguments {
  /// What "vocab = auto" becomes: the tokenizer's size; 0 when there is no tokenizer.
  i64 tokenizer_vocab = 0;
  i64 sequence_length = 1;  ///< positions of a sample: batch.sequence_length
  /// Does the data say which position each token has? Those of a sample may begin anew then, and
  /// be fewer than sequence_length; BuildContext::bound has them looked at.
  bool own_positions = false;
};

/// Makes a linear list of layers from a configuration. Plugin kind "model". The kernel cuts the
/// list into chunks and builds only the layers that live on this rank.
class TESSERA_API Model : public Identified {
 public:
  static constexpr std::string_view kKind = "model";
  static constexpr bool kStructural = true;
  using Arguments = ModelArguments;

  ~Model() override;
  std::vector<ModelLayer> layers() const;
  /// Builds one layer; `build` is scoped to its name.
  std::shared_ptr<Layer> build(int index, BuildContext& build) const;
  /// Entries of the vocabulary, without padding.
  i64 vocabulary() const;
  /// The bundle slot that holds the logits [n, v / tp] of the last layer when evaluating, for
  /// generation.
  static constexpr std::string_view kLogitsSlot = "logits";
  /// The bundle slot in which a head that scores samples leaves a row for each sample of a
  /// microbatch when evaluating, [samples, k]: a logit a class, for example. The rank that is first
  /// along tensor and context has them all.
  static constexpr std::string_view kScoresSlot = "scores";

 private:
  virtual std::vector<ModelLayer> do_layers() const = 0;
  virtual std::shared_ptr<Layer> do_build(int index, BuildContext& build) const = 0;
  virtual i64 do_vocabulary() const = 0;
};

}  // namespace tessera
