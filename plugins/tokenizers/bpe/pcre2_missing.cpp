#include "pattern.hpp"
#include "tessera/error.hpp"
#include "words.hpp"

namespace tessera {

struct Words::State {};
struct Pattern::State {};

namespace {

[[noreturn]] void refuse(std::string_view tokenizer) {
  fail_config(
      "tokenizer.type: \"{}\" splits text with PCRE2, which this build is without: install "
      "libpcre2-dev (tests/setup.sh names all packages), then configure and build again",
      tokenizer);
}

}  // namespace

Words::Words(std::string_view tokenizer) { refuse(tokenizer); }
Words::Words(Words&& other) noexcept = default;
Words::~Words() = default;
void Words::for_each(std::string_view, const std::function<void(std::string_view)>&) const {}

Pattern::Pattern(const PatternText&) { refuse("huggingface"); }
Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern::~Pattern() = default;
void Pattern::for_each(std::string_view, const Take&) const {}

}  // namespace tessera
