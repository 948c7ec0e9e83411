#include "kernel/train/run/growing_text.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/io/utf8.hpp"

namespace tessera {

namespace {

// Where the last character begins if bytes of it are missing; otherwise the end.
std::size_t whole_characters(std::string_view text) {
  std::size_t start = text.size();
  for (int back = 0; back < 4 && start > 0; ++back) {
    const auto byte = static_cast<unsigned char>(text[--start]);
    if (inside_character(text[start])) continue;
    const std::size_t length = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    return start + length > text.size() ? start : text.size();
  }
  return text.size();
}

// Without U+FFFD at the end: some tokenizers write it for bytes of a character that is not whole.
std::size_t known_characters(std::string_view text) {
  constexpr std::string_view kUnknown = "\xEF\xBF\xBD";
  while (text.ends_with(kUnknown)) text.remove_suffix(kUnknown.size());
  return text.size();
}

// Where the longest end of the text that begins `stop` begins.
std::size_t before_stop(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return text.size() - size;
  }
  return text.size();
}

}  // namespace

std::string_view name_of(TextEnd end) {
  constexpr std::string_view kNames[] = {"none", "eos", "stop", "length"};
  return kNames[static_cast<std::size_t>(end)];
}

GrowingText::GrowingText(const Tokenizer& tokenizer, std::vector<i32> prompt, TextLimits limits)
    : tokenizer_(tokenizer),
      limits_(std::move(limits)),
      tokens_(std::move(prompt)),
      first_(tokens_.size()),
      prompt_(tokenizer.decode(tokens_)) {
  require(limits_.tokens > 0, "a text of {} tokens", limits_.tokens);
  for (const std::string& stop : limits_.stops) require(!stop.empty(), "a text stops before none");
}

void GrowingText::add(i32 id) {
  require(!over(), "a token of a text that is over");
  tokens_.push_back(id);
  if (std::ranges::find(limits_.ends, id) != limits_.ends.end()) {
    end_ = TextEnd::eos;
    return;
  }
  // Tokens are decoded together: what one stands for may depend on those before it.
  const std::string whole = tokenizer_.decode(tokens_);
  text_ = whole.substr(std::min(prompt_.size(), whole.size()));
  std::size_t stop = text_.npos;
  for (const std::string& one : limits_.stops) stop = std::min(stop, text_.find(one));
  if (stop != text_.npos) {
    text_.resize(stop);
    end_ = TextEnd::stop;
  } else if (static_cast<i64>(tokens_.size() - first_) >= limits_.tokens) {
    end_ = TextEnd::length;
  }
}

std::vector<i32> GrowingText::added() const {
  return {tokens_.begin() + static_cast<std::ptrdiff_t>(first_), tokens_.end()};
}

std::size_t GrowingText::certain() const {
  if (over()) return text_.size();
  std::size_t end = std::min(whole_characters(text_), known_characters(text_));
  for (const std::string& stop : limits_.stops) end = std::min(end, before_stop(text_, stop));
  return end;
}

}  // namespace tessera
