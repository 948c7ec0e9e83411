#include "kernel/train/run/model_scorer.hpp"

#include <cmath>

#include "tessera/error.hpp"

namespace tessera {

// A sample for each text: inputs are its tokens but the last, targets those but the first.
class ModelScorer::Texts final : public Dataset {
 public:
  explicit Texts(i64 length) : length_(length) {}
  const std::vector<ScoredText>* texts = nullptr;
  const std::vector<std::size_t>* numbers = nullptr;  ///< of the texts that are samples

 private:
  std::vector<FieldInfo> do_fields() const override {
    return {{"tokens", DType::i64}, {"targets", DType::i64}, {"loss_mask", DType::u8, "lm"}};
  }
  i64 do_size(SampleSet) const override { return static_cast<i64>(numbers->size()); }
  void do_read(SampleSet, i64 ordinal, const SampleBuffers& out) const override {
    const ScoredText& text = texts->at(numbers->at(static_cast<std::size_t>(ordinal)));
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

namespace {

// Texts run over a cache as generation does. Data-parallel ranks share texts out, and would not run
// the same number of passes.
bool one_replica(const Mesh& mesh) { return mesh.world_size() == mesh.size(Axis::tensor); }

TokenScore score_of(double sum, double target) { return {target - std::log(sum), target == 0}; }

}  // namespace

ModelScorer::ModelScorer(PlacedModel& model)
    : setup_(model.setup()),
      one_replica_(one_replica(*model.rank().mesh)),
      texts_(std::make_unique<Texts>(setup_.sequence_length)),
      rows_(model, *texts_),
      evaluation_(model) {}

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
  Scores scores(texts.size());
  std::unique_ptr<SequenceCache> cache;  // a new one: the model may have been trained since
  if (one_replica_) cache = evaluation_.make_cache(2);
  std::vector<std::size_t> whole;
  for (const PrefixGroup& group : prefix_groups(texts)) {
    if (cache != nullptr && group.texts > 1) {
      score_group(texts, group, *cache, scores);
    } else {
      for (std::size_t i = 0; i < group.texts; ++i) whole.push_back(group.first + i);
    }
  }
  score_whole(texts, whole, scores);
  return scores;
}

void ModelScorer::score_whole(const std::vector<ScoredText>& texts,
                              const std::vector<std::size_t>& numbers,
                              Scores& scores) {
  texts_->texts = &texts;
  texts_->numbers = &numbers;
  rows_.for_each_row(SampleSet::validation,
                     0,
                     static_cast<i64>(numbers.size()),
                     [&](i64 sample, i64 row, double sum, double target) {
                       const std::size_t number = numbers[static_cast<std::size_t>(sample)];
                       const ScoredText& text = texts[number];
                       if (row + 1 < text.first) return;
                       if (row + 1 >= static_cast<i64>(text.tokens.size())) return;
                       scores[number].push_back(score_of(sum, target));
                     });
  texts_->texts = nullptr;
  texts_->numbers = nullptr;
}

// One sequence of the cache keeps what is shared; the other goes on from a copy of it.
void ModelScorer::score_group(const std::vector<ScoredText>& texts,
                              const PrefixGroup& group,
                              SequenceCache& cache,
                              Scores& scores) {
  const std::span<const i32> first = texts[group.first].tokens;
  cache.restart(0);
  evaluation_.logits(
      first.first(static_cast<std::size_t>(group.rows)), cache, {.rows = group.rows});
  for (std::size_t i = group.first; i < group.first + group.texts; ++i) {
    evaluation_.move(cache, 0, 1);
    const ScoredText& text = texts[i];
    const auto rest = std::span(text.tokens).subspan(static_cast<std::size_t>(group.rows));
    const std::vector<double> sums = evaluation_.row_sums(rest, cache, 1);
    for (i64 row = text.first - 1 - group.rows; row + 1 < static_cast<i64>(rest.size()); ++row) {
      const auto at = static_cast<std::size_t>(2 * row);
      scores[i].push_back(score_of(sums[at], sums[at + 1]));
    }
  }
}

}  // namespace tessera
