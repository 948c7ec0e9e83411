#include "tessera/error.hpp"
#include "unicode.hpp"

namespace tessera {

bool is_word_character(const Character&) { return false; }
bool is_number(const Character&) { return false; }
bool is_punctuation(const Character&) { return false; }
bool is_other(const Character&) { return false; }
bool is_nonspacing_mark(const Character&) { return false; }
std::string normal_form(std::string_view text, NormalForm) { return std::string(text); }
std::string lower_case(std::string_view text) { return std::string(text); }

// Called before any of these.
void require_categories(std::string_view user) {
  fail_config(
      "tokenizer.type: \"huggingface\" needs utf8proc for {}, which this build is without: install "
      "libutf8proc-dev (tests/setup.sh names all packages), then configure and build again",
      user);
}

}  // namespace tessera
