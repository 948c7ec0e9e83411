#include "token_decoder.hpp"

#include <charconv>

#include "normalizer.hpp"
#include "tessera/io/utf8.hpp"
#include "unicode.hpp"

namespace tessera {

namespace {

using Tokens = std::vector<std::string>;

// The byte of "<0x0A>"; -1: it is another token.
int byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int byte = -1;
  const char* end = token.data() + 5;
  const auto [at, error] = std::from_chars(token.data() + 3, end, byte, 16);
  return error == std::errc() && at == end && byte >= 0 ? byte : -1;
}

// Neighbouring bytes become one token.
void join_bytes(Tokens& tokens) {
  Tokens made;
  bool open = false;
  for (std::string& token : tokens) {
    const int byte = byte_of(token);
    if (byte < 0) {
      made.push_back(std::move(token));
    } else {
      if (!open) made.emplace_back();
      made.back() += static_cast<char>(byte);
    }
    open = byte >= 0;
  }
  tokens = std::move(made);
}

std::string stripped(std::string_view token, const DecoderStep& step) {
  for (i64 i = 0; i < step.start && token.starts_with(step.text); ++i) {
    token.remove_prefix(step.text.size());
  }
  for (i64 i = 0; i < step.stop && token.ends_with(step.text); ++i) {
    token.remove_suffix(step.text.size());
  }
  return std::string(token);
}

std::string with_spaces(std::string_view token, const std::string& sign, bool keep) {
  std::string made;
  while (!token.empty()) {
    const std::string_view character = next_character(token);
    if (character != sign) {
      made += character;
    } else if (keep) {
      made += ' ';
    }
    token.remove_prefix(character.size());
  }
  return made;
}

// As the library transformers joins the words of BERT: what it writes is nearer to a text.
std::string cleaned_up(std::string token) {
  static const std::pair<std::string_view, std::string_view> kChanges[] = {
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  };
  for (const auto& [from, to] : kChanges) {
    for (std::size_t at = 0; (at = token.find(from, at)) != token.npos; at += to.size()) {
      token.replace(at, from.size(), to);
    }
  }
  return token;
}

// A pattern looks at UTF-8 only; other bytes stay.
std::string replaced_in(std::string_view token, const Pattern& pattern, const std::string& by) {
  std::string made;
  for_runs(token, [&](std::string_view run, bool characters) {
    made += characters ? replaced(run, pattern, by) : std::string(run);
  });
  return made;
}

}  // namespace

TokenDecoder::TokenDecoder(const std::optional<std::vector<DecoderStep>>& steps,
                           const ByteAlphabet& alphabet)
    : alphabet_(alphabet), spaces_(!steps) {
  if (!steps) return;
  for (const DecoderStep& step : *steps) {
    auto& pattern = steps_.emplace_back(step, std::nullopt).second;
    if (step.kind == DecoderStep::Kind::replace) pattern.emplace(step.pattern);
  }
}

void TokenDecoder::apply(const Step& step, Tokens& tokens) const {
  const auto& [what, pattern] = step;
  std::string whole;
  switch (what.kind) {
    case DecoderStep::Kind::byte_level:
      for (const std::string& token : tokens) whole += alphabet_.bytes(token);
      tokens = {whole};
      break;
    case DecoderStep::Kind::replace:
      for (std::string& token : tokens) token = replaced_in(token, *pattern, what.text);
      break;
    case DecoderStep::Kind::byte_fallback:
      join_bytes(tokens);
      break;
    case DecoderStep::Kind::fuse:
      for (const std::string& token : tokens) whole += token;
      tokens = {whole};
      break;
    case DecoderStep::Kind::strip:
      for (std::string& token : tokens) token = stripped(token, what);
      break;
    case DecoderStep::Kind::metaspace:
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = with_spaces(tokens[i], what.text, i > 0 || what.keeps_spaces);
      }
      break;
    case DecoderStep::Kind::word_piece:
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::string& token = tokens[i];
        if (i > 0) {
          const bool within = token.starts_with(what.text);
          token = within ? token.substr(what.text.size()) : " " + token;
        }
        if (what.clean_up) token = cleaned_up(std::move(token));
      }
      break;
  }
}

std::string TokenDecoder::operator()(Tokens tokens) const {
  for (const Step& step : steps_) apply(step, tokens);
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (spaces_ && i > 0) text += ' ';
    text += tokens[i];
  }
  return text;
}

}  // namespace tessera
