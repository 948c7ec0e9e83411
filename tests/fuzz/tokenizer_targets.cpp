// Parsers of the files that tokenizers read.
#include "common/sentencepiece_files.hpp"
#include "fuzz/fuzz.hpp"
#include "plugins/tokenizers/bpe/tokenizer_file.hpp"
#include "plugins/tokenizers/bpe/vocab_txt.hpp"
#include "plugins/tokenizers/bpe/vocabulary.hpp"
#include "plugins/tokenizers/sentencepiece/model_file.hpp"
#include "plugins/tokenizers/sentencepiece/processor.hpp"

namespace tessera::fuzz {

namespace {

// --- tokenizer.json ---

void read_tokenizer_json(const std::string& input) {
  const TokenizerFile file = parse_tokenizer(input, "tokenizer.json");
  const Vocabulary vocabulary(file.bpe, file.bpe.added, VocabularyKind::as_written);
  if (vocabulary.size() < static_cast<i64>(file.bpe.tokens.size())) finding("tokens are lost");
  for (const SplitStep& step : file.pre_tokenizer) pcre2_pattern(step.pattern);
  for (const NormalizerStep& step : file.normalizer) pcre2_pattern(step.pattern);
}

Target tokenizer_json() {
  const std::string begin =
      R"({"version":"1.0","added_tokens":[{"id":3,"content":"<s>","special":true,)"
      R"("single_word":false,"lstrip":false,"rstrip":true,"normalized":false}],"normalizer":)"
      R"({"type":"Replace","pattern":{"String":" "},"content":"_"},"pre_tokenizer":)";
  const std::string end =
      R"(,"decoder":{"type":"Strip","content":" ","start":1,"stop":0},"model":{"type":"BPE",)"
      R"("unk_token":null,"vocab":{"a":0,"b":1,"ab":2},"merges":[["a","b"],"a b"]}})";
  const std::string split =
      R"/({"type":"Split","pattern":{"Regex":"(?i:a{,3})|[^\\s\\p{L}\\x{41}]?\\b\\u00e9(?!b)"},)/"
      R"("behavior":"Isolated","invert":false})";
  return {"tokenizer",
          {begin + R"({"type":"Sequence","pretokenizers":[)" + split + "]}" + end,
           begin + R"({"type":"ByteLevel","add_prefix_space":true})" + end,
           begin + R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first"})" + end,
           R"({"model":{"type":"WordPiece","unk_token":"a","continuing_subword_prefix":"##",)"
           R"("max_input_chars_per_word":100,"vocab":{"a":0,"##b":1}},"added_tokens":[],)"
           R"("pre_tokenizer":{"type":"WhitespaceSplit"}})"},
          {"{", "}", "[", "]", "\\\\", "(?", "{2}", "\"type\":", "null", "-1", "\"Sequence\""},
          read_tokenizer_json,
          {begin + nested(R"({"type":"Sequence","pretokenizers":[)", "]}", 100'000) + end,
           begin + "null" + R"(,"model":{"vocab":{"a":2147483647},"merges":[]}})"}};
}

// --- vocab.txt ---

void read_vocab_lines(const std::string& input) {
  const BpeFiles files = parse_vocab_txt(input, "vocab.txt");
  const Vocabulary vocabulary(files, {}, VocabularyKind::as_written);
  if (vocabulary.size() != static_cast<i64>(files.tokens.size())) finding("tokens are lost");
}

Target vocab_txt() {
  return {"vocab_txt", {"[PAD]\n[UNK]\na\n##b\r\n\xC3\xA9"}, {"\n", "\r\n"}, read_vocab_lines};
}

// --- a model of SentencePiece ---

void read_sentencepiece(const std::string& input) {
  const ModelFile file = parse_model(input, "tokenizer.model");
  if (file.pieces.empty()) finding("a model without tokens");
#ifdef FUZZ_SENTENCEPIECE
  const Processor library(file);
  std::vector<i32> ids;
  library.encode("ab Aab<s> \xC3\xA9\xFF b", ids);
  for (const i32 id : ids) {
    if (id < 0 || id >= library.size()) finding("a token that the model has not");
  }
  library.decode(ids);
#endif
}

Target sentencepiece() {
  testing::SentencePieceFile file;
  const std::string space = "\xE2\x96\x81";
  for (const char* text : {"a", "b", "ab"}) file.add(text, -1);
  file.add(space, -2);
  file.add(space + "a", -3);
  file.add("<u>", 0, testing::SentencePieceFile::user_defined);
  testing::SentencePieceFile mapped = file, bytes = file, unigram = file;
  mapped.char_map = testing::SentencePieceFile::small_letters();
  bytes.add_bytes();
  unigram.model_type = 1;
  return {"sentencepiece",
          {file.text(), mapped.text(), bytes.text(), unigram.text()},
          {"<s>", "\x0A", "\x12", "\x1A", "\x08", "\x15", space, "\x18\x06", "<0x41>"},
          read_sentencepiece};
}

}  // namespace

std::vector<Target> tokenizer_targets() { return {tokenizer_json(), vocab_txt(), sentencepiece()}; }

}  // namespace tessera::fuzz
