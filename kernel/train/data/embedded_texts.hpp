#pragma once
#include <span>
#include <string>
#include <vector>

#include "tessera/data.hpp"

namespace tessera {

/// Texts as samples of a model that sees both sides, as many to a sample as fit, which do not see
/// each other: [CLS] text [SEP] each, with positions of their own. So hardly a row is padding,
/// however long they are.
class EmbeddedTexts final : public Dataset {
 public:
  /// A text in the tokens of a sample.
  struct Place {
    i64 sample = 0, first = 0, tokens = 0;
  };

  /// `sequence_length`: places of a sample; `longest`: most tokens of a text. Throws ConfigError
  /// where the tokenizer has no tokens that a text stands between.
  EmbeddedTexts(const Tokenizer& tokenizer,
                std::span<const std::string> texts,
                i64 sequence_length,
                i64 longest);

  /// The fields, which do not depend on texts.
  static std::vector<FieldInfo> field_list();
  /// Of each text, in order.
  const std::vector<Place>& places() const { return places_; }
  /// The texts of a sample, by their numbers.
  std::span<const std::size_t> texts_of(i64 sample) const {
    return samples_.at(static_cast<std::size_t>(sample));
  }
  /// Texts that were longer than that, and lost their end.
  i64 cut() const { return cut_; }

 private:
  std::vector<FieldInfo> do_fields() const override { return field_list(); }
  i64 do_size(SampleSet) const override { return static_cast<i64>(samples_.size()); }
  void do_read(SampleSet set, i64 ordinal, const SampleBuffers& out) const override;
  std::string do_fingerprint() const override { return "texts"; }

  i64 length_, cut_ = 0;
  i32 pad_ = 0;
  std::vector<std::vector<i32>> tokens_;  // of each text
  std::vector<Place> places_;
  std::vector<std::vector<std::size_t>> samples_;  // the texts of each
};

}  // namespace tessera
