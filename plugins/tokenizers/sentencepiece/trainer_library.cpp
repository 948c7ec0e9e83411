#include <sentencepiece_trainer.h>

#include <unordered_map>

#include "library_log.hpp"
#include "training_sentences.hpp"
#include "vocabulary_trainer.hpp"

namespace tessera {

namespace {

class Iterator final : public sentencepiece::SentenceIterator {
 public:
  explicit Iterator(const std::vector<std::string>& texts) : sentences_(texts) { Next(); }
  bool done() const override { return done_; }
  void Next() override { done_ = !sentences_.next(sentence_); }
  const std::string& value() const override { return sentence_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  TrainingSentences sentences_;
  std::string sentence_;
  bool done_ = false;
};

}  // namespace

void require_trainer() {}

TrainedModel train_model(const TrainerOptions& options, const std::vector<std::string>& texts) {
  silence_library();
  Iterator sentences(texts);
  TrainedModel model;
  try {
    const std::unordered_map<std::string, std::string> all(options.begin(), options.end());
    const auto status = sentencepiece::SentencePieceTrainer::Train(all, &sentences, &model.bytes);
    if (!status.ok()) model = {.bytes = {}, .why = status.message()};
  } catch (const std::exception& error) {
    model = {.bytes = {}, .why = error.what()};
  }
  return model;
}

}  // namespace tessera
