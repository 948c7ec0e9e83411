// Parsers of the files of tasks that a model is fine-tuned for.
#include "fuzz/fuzz.hpp"
#include "plugins/datasets/sentence_pairs/glue.hpp"
#include "plugins/datasets/sentence_pairs/race.hpp"
#include "plugins/datasets/sentence_pairs/squad_file.hpp"
#include "plugins/datasets/sentence_pairs/squad_spans.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera::fuzz {

namespace {

// --- mnli, qqp ---

using ReadPairs = void (*)(std::string_view, std::string_view, BadRows&, const TakePair&);

// Leaving lines out changes none of the others.
void read_pairs(const std::string& input, ReadPairs read, i64 classes) {
  std::size_t lines = 1, pairs = 0, others = 0;
  for (const char c : input) lines += c == '\n' ? 1 : 0;
  BadRows left_out{.leave_out = true};
  read(input, "a.tsv", left_out, [&](const SentencePair& pair) {
    ++pairs;
    if (pair.a.empty() || pair.b.empty()) finding("an empty text");
    if (pair.label < 0 || pair.label >= classes) finding("a label of no class");
    if (pair.line < 2 || static_cast<std::size_t>(pair.line) > lines) finding("a line too far");
  });
  if (pairs + static_cast<std::size_t>(left_out.left_out) >= lines) finding("more rows than lines");
  BadRows error;
  read(input, "a.tsv", error, [&](const SentencePair&) { ++others; });
  if (others != pairs || left_out.left_out != 0) finding("other pairs where bad rows are errors");
}

Target pairs(const char* name, std::string seed, ReadPairs read, i64 classes) {
  return {name,
          {std::move(seed)},
          {"\t", "\n", "\r\n", "neutral", "0", " "},
          [read, classes](const std::string& input) { read_pairs(input, read, classes); }};
}

// --- race ---

void read_race(const std::string& input) {
  const RaceArticle article = parse_race(input, "1.txt", 4);
  for (const RaceArticle::Question& question : article.questions) {
    if (question.choices.size() != 4) finding("another number of choices");
    if (question.answer < 0 || question.answer > 3) finding("an answer that is no choice");
  }
}

Target race() {
  return {
      "race",
      {R"({"article":"a b","questions":["c _ d","e"],"options":[["f","g","h","i"],)"
       R"(["j","k","l","m"]],"answers":["A","D"],"id":"high1.txt"})"},
      {"\"article\":", "\"questions\":", "\"options\":", "\"answers\":", "_", "[", "]", "\"E\""},
      read_race,
      {"{\"article\":\"\",\"questions\":" + nested("[", "]", 100'000) + "}"}};
}

// --- squad ---

// Each byte run between spaces a token.
PlacedTokens words_of(const std::string& text) {
  PlacedTokens words;
  for (std::size_t at = text.find_first_not_of(kSpaces); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    words.ids.push_back(0);
    words.begin.push_back(static_cast<u32>(at));
    words.end.push_back(static_cast<u32>(end));
    at = text.find_first_not_of(kSpaces, end);
  }
  return words;
}

void read_squad(const std::string& input) {
  const SquadFile file = parse_squad(input, "dev.json");
  for (const SquadContext& context : file.contexts) {
    const PlacedTokens words = words_of(context.text);
    const auto count = static_cast<i64>(words.ids.size());
    for (const SquadQuestion& question : context.questions) {
      if (question.answers.empty() && !file.no_answers) finding("a question without an answer");
      for (const SquadAnswer& answer : question.answers) {
        if (answer.begin >= context.text.size()) finding("an answer after its context");
        if (inside_character(context.text[answer.begin])) finding("an answer within a character");
        const auto span = tokens_of(answer, context.text, words);
        if (!span) continue;
        if (span->first < 0 || span->last < span->first || span->last >= count) {
          finding("an answer of tokens that are not there");
        }
      }
    }
  }
}

Target squad() {
  return {"squad",
          {R"({"version":"1.1","data":[{"title":"t","paragraphs":[{"context":"a bc d",)"
           R"("qas":[{"id":"1","question":"e","answers":[{"answer_start":2,"text":"bc"}]}]}]}]})",
           R"~({"version":"v2.0","data":[{"paragraphs":[{"context":"a \u00e9 (d)","qas":[)~"
           R"({"question":"e","answers":[{"answer_start":5,"text":"d"}],"is_impossible":false},)"
           R"({"question":"f","answers":[],"is_impossible":true}]}]}]})"},
          {"\"data\":",
           "\"paragraphs\":",
           "\"context\":",
           "\"qas\":",
           "\"question\":",
           "\"answers\":",
           "\"answer_start\":",
           "\"text\":",
           "\"is_impossible\":true",
           "-1",
           "18446744073709551616",
           "\\u0301",
           "\\ud83d\\ude00"},
          read_squad,
          {"{\"data\":" + nested("[", "]", 100'000) + "}"}};
}

}  // namespace

std::vector<Target> task_targets() {
  const std::string names = "index\tb\tc\td\te\tf\tg\th\tsentence1\tsentence2\tgold_label\n";
  const std::string mnli = names + "0\tb\tc\td\te\tf\tg\th\ti j\tk\tneutral\n";
  const std::string qqp =
      "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\ta b\tc\t1\n";
  return {pairs("mnli", mnli, for_each_mnli, kMnliClasses),
          pairs("qqp", qqp + "1\t2\t3\td\te\t0", for_each_qqp, kQqpClasses),
          race(),
          squad()};
}

}  // namespace tessera::fuzz
