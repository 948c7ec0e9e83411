#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>

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

PCRE2_SPTR units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

struct Words::State {
  State() = default;
  ~State() { pcre2_code_free(code); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  pcre2_code* code = nullptr;

  // `text` is valid UTF-8; the pattern matches at each of its characters.
  void split(std::string_view text,
             pcre2_match_data* match,
             const std::function<void(std::string_view)>& take) const {
    for (std::size_t begin = 0; begin < text.size();) {
      const int groups =
          pcre2_match(code, units(text), text.size(), begin, PCRE2_NO_UTF_CHECK, match, nullptr);
      const std::size_t end = groups > 0 ? pcre2_get_ovector_pointer(match)[1] : begin;
      require(end > begin, "tokenizer: PCRE2 fails at byte {} ({})", begin, groups);
      take(text.substr(begin, end - begin));
      begin = end;
    }
  }
};

Words::Words(std::string_view) : state_(std::make_unique<State>()) {
  int error = 0;
  PCRE2_SIZE where = 0;
  state_->code = pcre2_compile(units(kPattern),
                               kPattern.size(),
                               PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED,
                               &error,
                               &where,
                               nullptr);
  require(state_->code != nullptr, "tokenizer: PCRE2 refuses the pattern: error {}", error);
  // Where a system forbids code made at run time, matching works without it, ten times slower.
  pcre2_jit_compile(state_->code, PCRE2_JIT_COMPLETE);
}

Words::Words(Words&& other) noexcept = default;
Words::~Words() = default;

void Words::for_each(std::string_view text,
                     const std::function<void(std::string_view)>& take) const {
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(state_->code, nullptr));
  if (match == nullptr) throw std::bad_alloc();
  // Runs of characters and runs of other bytes, in turn: PCRE2 need not check what it matches.
  for_runs(text, [&](std::string_view run, bool characters) {
    if (characters) return state_->split(run, match.get(), take);
    take(run);
  });
}

}  // namespace tessera
