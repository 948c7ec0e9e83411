#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "pack.hpp"
#include "task_dataset.hpp"

namespace tessera {

/// Keys of questions with choices.
struct ChoiceKeys {
  i64 choices = 4, question = 128;
};
template <class C>
void describe_choices(Schema<C>& s, FromRun from = {}) {
  s.field("choices",
          &C::choices,
          "choices of a question, which share a sample: batch.sequence_length is a multiple of it")
      .from("model.head.choices")
      .at_least(2)
      .at_most(26);
  s.field(
       "question",
       &C::question,
       from.text("most tokens of a question with a choice; what is beyond them is cut off", "128"))
      .from(from.path("data.question"))
      .at_least(1)
      .at_most(kMostPositions)
      .also("max_qa_length");
}

/// The questions of RACE, one a sample. Choice k has places [k·L, (k + 1)·L) of it, which see only
/// each other: [CLS] question with the choice [SEP] article [SEP].
class ChoiceSamples final : public TaskSamples {
 public:
  /// Questions [begin, end) of a part: "middle", "high", or "".
  struct Part {
    std::string name;
    i64 begin = 0, end = 0;
  };
  /// `length`: places of a sample. `vocabulary`: of the model; 0: not known.
  ChoiceSamples(const std::vector<std::string>& paths,
                std::string_view key,
                const ChoiceKeys& keys,
                const Tokenizer& tokenizer,
                i64 length,
                i64 vocabulary);

  i64 size() const override { return static_cast<i64>(questions_.size()); }
  void write(i64 number, const SampleBuffers& out) const override;
  std::string origin(i64 number) const override;
  SetContent content() const override;
  u64 hash() const override { return hash_; }
  std::vector<FieldInfo> fields() const override;

  i64 choices() const { return choices_; }
  i64 answer(i64 number) const { return questions_[static_cast<std::size_t>(number)].answer; }
  const std::vector<Part>& parts() const { return parts_; }

 private:
  struct Question {
    i64 article, first;   // numbers of their tokens; choices follow the first
    i64 answer, of_file;  // which question of its file it is
    std::size_t file;
  };
  void read(const std::string& path, i64 most, std::string& decides);

  PairMarks marks_;
  i64 choices_, length_;
  u64 hash_ = 0;
  std::vector<std::string> files_;
  std::vector<Part> parts_;
  std::vector<Question> questions_;
  TokenLists texts_;
};

}  // namespace tessera
