#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parts.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What the index of a part is made for.
struct IndexRequest {
  i64 length = 1;                   ///< tokens of a sample
  std::optional<i64> samples = {};  ///< that are drawn; none: one epoch
  u32 seed = 0;
  bool tail = false;  ///< keep a last sample that is not full
};

/// The three arrays of Megatron-LM's GPTDataset (core/datasets/gpt_dataset.py, helpers.cpp), equal
/// to its own for equal files: documents in the order in which they are read, where each sample
/// begins among them, and which sample is read when. A view over bytes that build_index made.
class MegatronIndex {
 public:
  /// A sample begins at `token` of the document in this place of documents().
  struct Start {
    i64 place, token;
  };

  /// Throws Error where the bytes are no index.
  explicit MegatronIndex(std::string_view bytes);

  std::span<const i32> documents() const { return documents_; }  ///< numbers of sequences
  std::span<const Start> starts() const { return starts_; }      ///< one more than samples
  std::span<const u32> shuffle() const { return shuffle_; }
  i64 samples() const { return static_cast<i64>(shuffle_.size()); }

 private:
  std::span<const i32> documents_;
  std::span<const Start> starts_;
  std::span<const u32> shuffle_;
};

/// Builds the index of a part, which has tokens. Throws Error where it has none, or more samples or
/// documents than numbers of 32 bits count.
std::string build_index(const Part& part, const IndexRequest& request);

/// How many samples `tokens` make: without `tail` those that are full. With it the quotient is
/// rounded up in FP32, as there, which is not exact beyond 2^24 tokens.
i64 samples_of(i64 tokens, i64 length, bool tail);

}  // namespace tessera
