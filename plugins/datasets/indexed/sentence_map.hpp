#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "parts.hpp"
#include "tessera/types.hpp"

namespace tessera {

/// What sentences become samples, and how long.
struct SentenceRequest {
  i64 longest = 2;           ///< tokens of a sample, without those between its halves
  double short_share = 0.1;  ///< of samples that are made shorter
  std::optional<i64> samples =
      {};         ///< that are drawn, in as many epochs as have so many; none: one
  i64 least = 2;  ///< sentences of a document that is used, and of a sample: 1 or 2
  u64 seed = 0;
  /// Which draws: those of Megatron-LM, where samples are shuffled too; or our own, and samples
  /// have the order of the file.
  bool megatron = false;
};

/// Sentences of one document that follow each other.
struct SentenceRun {
  i64 first = 0;   ///< sequence of the file
  u32 count = 0;   ///< of them
  u32 target = 0;  ///< tokens that are kept of more
};

/// The samples of a part, as Megatron-LM's build_mapping has them (core/datasets/helpers.cpp,
/// called by masked_dataset.py): all sentences of each document that has enough of them, and of
/// several none longer than 512 tokens. A view over bytes that build_sentence_map made.
class SentenceMap {
 public:
  static constexpr i64 kLongSentence = 512;

  /// Throws Error where the bytes are no map.
  explicit SentenceMap(std::string_view bytes);
  std::span<const SentenceRun> runs() const { return runs_; }

 private:
  std::span<const SentenceRun> runs_;
};

/// What a document gives.
enum class DocumentUse : u8 { used, too_few, too_long };
DocumentUse use_of(const TokenIndex& index, i64 document, i64 least);

/// Throws Error where the part has no document that is used.
std::string build_sentence_map(const Part& part, const SentenceRequest& request);

}  // namespace tessera
