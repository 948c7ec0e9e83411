#include "kernel/train/run/model_scorer.hpp"

#include <cmath>

#include "tessera/error.hpp"

namespace tessera {

// A sample for each text: inputs are its tokens but the last, targets those but the first.
class ModelScorer::Texts final : public Dataset {
 public:
  explicit Texts(i64 length) : length_(length) {}
  const std::vector<ScoredText>* texts = nullptr;

 private:
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64}, {"targets", DType::i64}, {"loss_mask", DType::u8, "lm"}};
  }
  i64 do_size(SampleSet) const override { return static_cast<i64>(texts->size()); }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    const ScoredText& text = texts->at(static_cast<std::size_t>(ordinal));
    auto* tokens = static_cast<i64*>(out.fields[0]);
    auto* targets = static_cast<i64*>(out.fields[1]);
    auto* mask = static_cast<u8*>(out.fields[2]);
    const i64 count = static_cast<i64>(text.tokens.size()) - 1;
    for (i64 i = 0; i < length_; ++i) {
      const auto at = static_cast<std::size_t>(i);
      tokens[i] = i < count ? text.tokens[at] : 0;
      targets[i] = i < count ? text.tokens[at + 1] : 0;
      mask[i] = i < count && i + 1 >= text.first ? 1 : 0;
    }
  }
  std::string do_fingerprint() const override { return "texts"; }

  i64 length_;
};

ModelScorer::ModelScorer(PlacedModel& model)
    : setup_(model.setup()),
      texts_(std::make_unique<Texts>(setup_.sequence_length)),
      rows_(model, *texts_) {}

ModelScorer::~ModelScorer() = default;

i64 ModelScorer::most_tokens() const { return setup_.sequence_length + 1; }

void ModelScorer::check(const std::vector<ScoredText>& texts) const {
  const i64 vocabulary = setup_.tokenizer->vocabulary();
  for (const ScoredText& text : texts) {
    const auto count = static_cast<i64>(text.tokens.size());
    require(count >= 1 && count <= most_tokens(),
            "a text of {} tokens was to be scored: 1 to {}",
            count,
            most_tokens());
    require(text.first >= 1, "token {} of a text has nothing before it", text.first);
    for (const i32 id : text.tokens) {
      require(id >= 0 && id < vocabulary, "token {} is outside {} tokens", id, vocabulary);
    }
  }
}

std::vector<std::vector<TokenScore>> ModelScorer::score(const std::vector<ScoredText>& texts) {
  check(texts);
  texts_->texts = &texts;
  std::vector<std::vector<TokenScore>> scores(texts.size());
  rows_.for_each_row(SampleSet::validation,
                     0,
                     static_cast<i64>(texts.size()),
                     [&](i64 sample, i64 row, double sum, double target) {
                       const auto number = static_cast<std::size_t>(sample);
                       const ScoredText& text = texts[number];
                       if (row + 1 < text.first) return;
                       if (row + 1 >= static_cast<i64>(text.tokens.size())) return;
                       scores[number].push_back({target - std::log(sum), target == 0});
                     });
  texts_->texts = nullptr;
  return scores;
}

}  // namespace tessera
