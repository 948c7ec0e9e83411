#include "ascii_words.hpp"
#include "pcre2_code.hpp"
#include "tessera/error.hpp"
#include "unicode.hpp"
#include "words.hpp"

namespace tessera {

namespace {

// Unicode's white space, spelled out because versions of PCRE2 differ in what \s is.
#define TESSERA_SPACES \
  R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})"

constexpr std::string_view kPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" TESSERA_SPACES
    R"(\p{L}\p{N}]+|[)" TESSERA_SPACES R"(]+(?![^)" TESSERA_SPACES R"(])|[)" TESSERA_SPACES "]+";

}  // namespace

struct Words::State {
  Pcre2Code code{kPattern, PCRE2_ANCHORED, "tokenizer"};
};

Words::Words(std::string_view) : state_(std::make_unique<State>()) {}
Words::Words(Words&& other) noexcept = default;
Words::~Words() = default;

void Words::for_each(std::string_view text,
                     const std::function<void(std::string_view)>& take) const {
  Pcre2Code::Matcher match(state_->code);
  // Runs of characters and runs of other bytes, in turn: PCRE2 need not check what it matches.
  for_runs(text, [&](std::string_view run, bool characters) {
    if (!characters) return take(run);
    for (std::size_t begin = 0, end = 0; begin < run.size(); begin = end) {
      end = ascii_word_end(run, begin);
      if (end == 0) {  // the pattern matches at each character
        require(match.search(run, begin) && match.end() > begin,
                "tokenizer: no word begins at byte {}",
                begin);
        end = match.end();
      }
      take(run.substr(begin, end - begin));
    }
  });
}

}  // namespace tessera
