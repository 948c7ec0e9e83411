#include "choice_samples.hpp"

#include <algorithm>
#include <numeric>

#include "race.hpp"
#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

ChoiceSamples::ChoiceSamples(const std::vector<std::string>& paths,
                             std::string_view key,
                             const ChoiceKeys& keys,
                             const Tokenizer& tokenizer,
                             i64 length,
                             i64 vocabulary)
    : marks_(tokenizer), choices_(keys.choices), length_(length), texts_(tokenizer, vocabulary) {
  if (length % choices_ != 0 || length / choices_ < kPairMarks) {
    fail_config(
        "batch.sequence_length = {}: a sample has {} choices of equal length, each of {} "
        "places or more",
        length,
        choices_,
        kPairMarks);
  }
  std::string decides =
      fmt::format("1 {} {} {} {}", tokenizer.fingerprint(), length, choices_, keys.question);
  for (const std::string& path : paths) {
    for (const RacePart& part : race_parts(path, key)) {
      const i64 begin = size();
      for (const std::string& file : part.files) read(file, keys.question, decides);
      parts_.push_back({part.name, begin, size()});
    }
  }
  texts_.finish();
  hash_ = hash64(decides);
}

void ChoiceSamples::read(const std::string& path, i64 most, std::string& decides) {
  const DataFile file(path);
  const std::string name = written_path(path);
  const RaceArticle article = parse_race(file.text(), name, choices_);
  decides += fmt::format(" {:016x}", hash64(file.text()));
  const i64 of_article = texts_.size();
  texts_.add(article.text);
  i64 of_file = 0;
  for (const RaceArticle::Question& question : article.questions) {
    questions_.push_back({of_article, texts_.size(), question.answer, of_file++, files_.size()});
    for (const std::string& choice : question.choices) texts_.add(choice, most);
  }
  files_.push_back(name);
}

std::vector<FieldInfo> ChoiceSamples::fields() const {
  std::vector<FieldInfo> fields = {{.name = "tokens"},
                                   {.name = "segments"},
                                   {.name = "last", .dtype = DType::i32},
                                   {.name = "first", .dtype = DType::i32},
                                   {.name = "positions"}};
  for (FieldInfo& field : label_fields()) fields.push_back(std::move(field));
  return fields;
}

void ChoiceSamples::write(i64 number, const SampleBuffers& out) const {
  const Question& question = questions_[static_cast<std::size_t>(number)];
  const i64 each = length_ / choices_;
  const auto at = [&]<class T>(T, std::size_t field, i64 place) {
    return static_cast<T*>(out.fields[field]) + place;
  };
  for (i64 k = 0; k < choices_; ++k) {
    const i64 begin = k * each;
    pack_pair(marks_,
              texts_[question.first + k],
              texts_[question.article],
              each,
              begin,
              {at(i64{}, 0, begin), at(i64{}, 1, begin), at(i32{}, 2, begin)});
    std::fill_n(at(i32{}, 3, begin), each, static_cast<i32>(begin));
    i64* const positions = at(i64{}, 4, begin);
    std::iota(positions, positions + each, i64{0});
  }
  *at(i64{}, 5, 0) = question.answer;
  *at(u8{}, 6, 0) = 1;
}

std::string ChoiceSamples::origin(i64 number) const {
  const Question& question = questions_[static_cast<std::size_t>(number)];
  return fmt::format("{}: questions[{}]", files_[question.file], question.of_file);
}

SetContent ChoiceSamples::content() const {
  i64 tokens = 0;
  for (const Question& question : questions_) {
    const auto article = static_cast<i64>(texts_[question.article].size());
    for (i64 k = 0; k < choices_; ++k) {
      const auto choice = static_cast<i64>(texts_[question.first + k].size());
      tokens += std::min(choice + article + kPairMarks, length_ / choices_);
    }
  }
  return {size(), "questions", tokens};
}

}  // namespace tessera
