#include "pcre2_code.hpp"

#include <array>
#include <new>

#include "tessera/error.hpp"

namespace tessera {

namespace {

PCRE2_SPTR code_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

struct FreeContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};

}  // namespace

Pcre2Code::Pcre2Code(std::string_view pattern, u32 options, std::string place)
    : place_(std::move(place)) {
  int error = 0;
  PCRE2_SIZE where = 0;
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(
      pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  code_.reset(pcre2_compile(code_units(pattern),
                            pattern.size(),
                            PCRE2_UTF | PCRE2_UCP | options,
                            &error,
                            &where,
                            context.get()));
  if (code_ == nullptr) {
    std::array<PCRE2_UCHAR, 256> why{};
    pcre2_get_error_message(error, why.data(), why.size());
    fail_config("{} is no pattern: {}", place_, reinterpret_cast<const char*>(why.data()));
  }
  // Where a system forbids code made at run time, matching works without it, ten times slower.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

Pcre2Code::Matcher::Matcher(const Pcre2Code& code)
    : code_(code), match_(pcre2_match_data_create(1, nullptr)) {
  if (match_ == nullptr) throw std::bad_alloc();
  found_ = pcre2_get_ovector_pointer(match_.get());
}

int Pcre2Code::Matcher::run(std::string_view text, std::size_t at, u32 options) const {
  return pcre2_match(code_.code_.get(),
                     code_units(text),
                     text.size(),
                     at,
                     PCRE2_NO_UTF_CHECK | options,
                     match_.get(),
                     nullptr);
}

bool Pcre2Code::Matcher::search(std::string_view text, std::size_t at) {
  int groups = run(text, at, 0);
  // Compiled code has a small stack, the interpreter takes memory.
  if (groups == PCRE2_ERROR_JIT_STACKLIMIT) groups = run(text, at, PCRE2_NO_JIT);
  require(groups >= 0 || groups == PCRE2_ERROR_NOMATCH,
          "{}: PCRE2 gives up at byte {} of a text (error {})",
          code_.place_,
          at,
          groups);
  return groups >= 0;
}

}  // namespace tessera
