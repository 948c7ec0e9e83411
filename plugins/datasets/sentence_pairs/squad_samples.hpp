#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pack.hpp"
#include "squad_spans.hpp"
#include "task_dataset.hpp"

namespace tessera {

/// Keys of questions about a context that may be longer than a sample.
struct SpanKeys {
  i64 stride = 128, question = 64;
};
template <class C>
void describe_spans(Schema<C>& s, FromRun from = {}) {
  s.field(
       "stride",
       &C::stride,
       from.text("tokens from a window of a long context to the next one; each window is a sample",
                 "128"))
      .from(from.path("data.stride"))
      .at_least(1)
      .at_most(kMostPositions)
      .also("doc_stride");
  s.field("question",
          &C::question,
          from.text("most tokens of a question; what is beyond them is cut off", "64"))
      .from(from.path("data.question"))
      .at_least(1)
      .at_most(kMostPositions)
      .also("max_query_length");
}

/// The questions of some files of SQuAD, each with the windows of its context, one a sample:
/// [CLS] question [SEP] window [SEP].
class SquadSamples final : public TaskSamples {
 public:
  struct How {
    const Tokenizer& tokenizer;
    i64 length;          ///< places of a sample
    i64 vocabulary = 0;  ///< of the model; 0: not known
    /// To measure: all questions are there, and the contexts are kept. Otherwise questions whose
    /// answer is not in its context are left out.
    bool to_measure = false;
  };
  SquadSamples(const std::vector<std::string>& paths,
               std::string_view key,
               const SpanKeys& keys,
               const How& how);

  i64 size() const override { return static_cast<i64>(windows_.size()); }
  void write(i64 number, const SampleBuffers& out) const override;
  std::string origin(i64 number) const override;
  SetContent content() const override;
  u64 hash() const override { return hash_; }
  std::vector<FieldInfo> fields() const override;

  /// One of the questions, its samples, and where the windows' first token is in them.
  struct Question {
    std::size_t context = 0, number = 0;  ///< number: in its context
    i64 text = 0;                         ///< of its tokens
    i64 first_sample = 0, samples = 0;
    i64 place = 0;                      ///< in a sample, of its window's first token
    std::optional<TokenSpan> answer{};  ///< of the context's tokens; none: it has none there
  };
  const std::vector<Question>& questions() const { return questions_; }
  const std::vector<ContextWindow>& windows() const { return windows_; }  ///< of each sample

  /// Where they are kept, of each context what the file has and its tokens.
  struct Kept {
    SquadContext source;
    PlacedTokens tokens;
  };
  const std::vector<Kept>& kept() const { return kept_; }
  /// Are there questions without an answer (SQuAD 2.0)?
  bool no_answers() const { return no_answers_; }

 private:
  struct Context {
    i64 text;  // number of its tokens
    std::size_t file, article, paragraph;
  };
  void add(const SquadContext& context, const PlacedTokens& tokens, i64 stride, bool to_measure);
  const Question& question_of(i64 sample) const;

  PairMarks marks_;
  i64 length_, most_, left_out_ = 0;
  u64 hash_ = 0;
  bool no_answers_ = false;
  std::vector<std::string> files_;
  std::vector<Context> contexts_;
  std::vector<Question> questions_;
  std::vector<ContextWindow> windows_;
  std::vector<Kept> kept_;
  TokenLists texts_;
};

}  // namespace tessera
