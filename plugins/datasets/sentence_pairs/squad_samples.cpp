#include "squad_samples.hpp"

#include <algorithm>

#include "tessera/base/hash.hpp"
#include "tessera/error.hpp"
#include "tessera/io/data_file.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

SquadSamples::SquadSamples(const std::vector<std::string>& paths,
                           std::string_view key,
                           const SpanKeys& keys,
                           const How& how)
    : marks_(how.tokenizer),
      length_(how.length),
      most_(keys.question),
      texts_(how.tokenizer, how.vocabulary) {
  if (length_ <= most_ + kPairMarks) {
    fail_config(
        "batch.sequence_length = {}: a question of {} tokens (question = {}) leaves no room "
        "for its context",
        length_,
        most_,
        most_);
  }
  std::string decides = fmt::format(
      "1 {} {} {} {}", how.tokenizer.fingerprint(), length_, keys.stride, keys.question);
  TokenPlacer placer(how.tokenizer);
  for (const std::string& path : paths) {
    const DataFile file(path, key);
    files_.push_back(written_path(path));
    SquadFile squad = parse_squad(file.text(), files_.back());
    no_answers_ = no_answers_ || squad.no_answers;
    decides += fmt::format(" {:016x}", hash64(file.text()));
    for (SquadContext& context : squad.contexts) {
      const std::string where = fmt::format(
          "{}: data[{}].paragraphs[{}].context", files_.back(), context.article, context.paragraph);
      PlacedTokens tokens = placer.place(context.text, where);
      if (tokens.ids.empty()) fail_config("{} has no token", where);
      add(context, tokens, keys.stride, how.to_measure);
      if (how.to_measure) kept_.push_back({std::move(context), std::move(tokens)});
    }
  }
  texts_.finish();
  hash_ = hash64(decides);
}

void SquadSamples::add(const SquadContext& context,
                       const PlacedTokens& tokens,
                       i64 stride,
                       bool to_measure) {
  contexts_.push_back({texts_.size(), files_.size() - 1, context.article, context.paragraph});
  texts_.add(tokens.ids);
  for (std::size_t i = 0; i < context.questions.size(); ++i) {
    const SquadQuestion& question = context.questions[i];
    Question made{.context = contexts_.size() - 1, .number = i};
    if (!question.answers.empty()) {
      made.answer = tokens_of(question.answers.front(), context.text, tokens);
      if (!made.answer && !to_measure) {
        ++left_out_;
        continue;
      }
    }
    made.text = texts_.size();
    texts_.add(question.text, most_);
    const auto asked = static_cast<i64>(texts_[made.text].size());
    made.place = asked + 2;
    made.first_sample = size();
    const i64 room = length_ - asked - kPairMarks;
    for (const ContextWindow& window :
         windows_of(static_cast<i64>(tokens.ids.size()), room, stride)) {
      windows_.push_back(window);
      ++made.samples;
    }
    questions_.push_back(made);
  }
}

const SquadSamples::Question& SquadSamples::question_of(i64 sample) const {
  return *std::prev(std::ranges::upper_bound(questions_, sample, {}, &Question::first_sample));
}

std::vector<FieldInfo> SquadSamples::fields() const {
  return {{.name = "tokens"},
          {.name = "segments"},
          {.name = "last", .dtype = DType::i32},
          {.name = "answerable", .dtype = DType::u8},
          {.name = "answer", .length = 2},
          {.name = "answer_mask", .dtype = DType::u8, .loss = "span", .length = 2}};
}

void SquadSamples::write(i64 number, const SampleBuffers& out) const {
  const Question& question = question_of(number);
  const ContextWindow& window = windows_[static_cast<std::size_t>(number)];
  const auto [begin, end] = window;
  const PairPlaces places = {static_cast<i64*>(out.fields[0]),
                             static_cast<i64*>(out.fields[1]),
                             static_cast<i32*>(out.fields[2])};
  const std::span<const i32> context = texts_[contexts_[question.context].text];
  pack_pair(marks_,
            texts_[question.text],
            context.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
            length_,
            0,
            places);
  auto* const answerable = static_cast<u8*>(out.fields[3]);
  std::fill_n(answerable, length_, u8{0});
  answerable[0] = 1;
  std::fill_n(answerable + question.place, end - begin, u8{1});
  auto* const answer = static_cast<i64*>(out.fields[4]);
  answer[0] = answer[1] = 0;
  const std::optional<TokenSpan>& span = question.answer;
  if (span && window.has(span->first) && window.has(span->last)) {
    answer[0] = span->first - begin + question.place;
    answer[1] = span->last - begin + question.place;
  }
  std::fill_n(static_cast<u8*>(out.fields[5]), 2, u8{1});
}

std::string SquadSamples::origin(i64 number) const {
  const Question& question = question_of(number);
  const Context& context = contexts_[question.context];
  const ContextWindow& window = windows_[static_cast<std::size_t>(number)];
  return fmt::format("{}: data[{}].paragraphs[{}].qas[{}], tokens {} to {} of the context",
                     files_[context.file],
                     context.article,
                     context.paragraph,
                     question.number,
                     window.begin,
                     window.end - 1);
}

SetContent SquadSamples::content() const {
  std::string unit = "questions";
  if (left_out_ > 0) {
    unit += fmt::format(" (left out, as their answer is not in the context: {})", left_out_);
  }
  i64 tokens = 0;
  for (const Question& question : questions_) {
    for (i64 i = 0; i < question.samples; ++i) {
      const auto [begin, end] = windows_[static_cast<std::size_t>(question.first_sample + i)];
      tokens += question.place + end - begin + 1;
    }
  }
  return {static_cast<i64>(questions_.size()), unit, tokens};
}

}  // namespace tessera
