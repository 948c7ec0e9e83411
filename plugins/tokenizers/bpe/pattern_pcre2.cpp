#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <new>

#include "pattern.hpp"
#include "tessera/error.hpp"
#include "unicode.hpp"

namespace tessera {

namespace {

PCRE2_SPTR code_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* what) const {
    kFree(what);
  }
};
using Code = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;
using Match = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using Context = std::unique_ptr<pcre2_compile_context, Freed<pcre2_compile_context_free>>;

}  // namespace

struct Pattern::State {
  Code code;
  std::string place;

  // Searches from `at`; false: there is none.
  bool search(std::string_view text, std::size_t at, pcre2_match_data* match) const {
    const auto run = [&](uint32_t options) {
      return pcre2_match(code.get(),
                         code_units(text),
                         text.size(),
                         at,
                         PCRE2_NO_UTF_CHECK | options,
                         match,
                         nullptr);
    };
    int groups = run(0);
    // Compiled code has a small stack, the interpreter takes memory.
    if (groups == PCRE2_ERROR_JIT_STACKLIMIT) groups = run(PCRE2_NO_JIT);
    require(groups >= 0 || groups == PCRE2_ERROR_NOMATCH,
            "{}: PCRE2 gives up at byte {} of a text (error {})",
            place,
            at,
            groups);
    return groups >= 0;
  }
};

Pattern::Pattern(const PatternText& pattern) : state_(std::make_unique<State>()) {
  const std::string text = pcre2_pattern(pattern);
  int error = 0;
  PCRE2_SIZE where = 0;
  const Context context(pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  state_->place = pattern.place;
  state_->code.reset(pcre2_compile(code_units(text),
                                   text.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE,
                                   &error,
                                   &where,
                                   context.get()));
  if (state_->code == nullptr) {
    std::array<PCRE2_UCHAR, 256> why{};
    pcre2_get_error_message(error, why.data(), why.size());
    fail_config("{} is no pattern: {}", pattern.place, reinterpret_cast<const char*>(why.data()));
  }
  // Where a system forbids code made at run time, matching works without it, ten times slower.
  pcre2_jit_compile(state_->code.get(), PCRE2_JIT_COMPLETE);
}

Pattern::Pattern(Pattern&& other) noexcept = default;
Pattern::~Pattern() = default;

void Pattern::for_each(std::string_view text, const Take& take) const {
  const Match match(pcre2_match_data_create(1, nullptr));
  if (match == nullptr) throw std::bad_alloc();
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match.get());
  std::size_t done = 0;
  bool any = false;
  for (std::size_t at = 0; at <= text.size() && state_->search(text, at, match.get());) {
    const std::size_t begin = found[0], end = found[1];
    if (begin == end && any && done == end) {  // an empty match just after a match is none
      at += std::max<std::size_t>(first_character(text.substr(at)).size, 1);
      continue;
    }
    if (begin > done) take(text.substr(done, begin - done), false);
    take(text.substr(begin, end - begin), true);
    at = done = end;
    any = true;
  }
  if (done < text.size()) take(text.substr(done), false);
}

}  // namespace tessera
