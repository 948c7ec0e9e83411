#pragma once
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tessera/types.hpp"

namespace tessera {

/// A pattern that PCRE2 has compiled, for texts that are UTF-8. Thread-safe once it is made.
class Pcre2Code {
 public:
  /// Throws ConfigError, `place` with why PCRE2 refuses the pattern.
  Pcre2Code(std::string_view pattern, u32 options, std::string place);

  /// Where a match begins and ends. For one thread.
  class Matcher {
   public:
    explicit Matcher(const Pcre2Code& code);
    /// Searches from `at`; false: there is none. Throws Error where PCRE2 gives up.
    bool search(std::string_view text, std::size_t at);
    std::size_t begin() const { return found_[0]; }
    std::size_t end() const { return found_[1]; }

   private:
    int run(std::string_view text, std::size_t at, u32 options) const;

    const Pcre2Code& code_;
    struct Free {
      void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
    };
    std::unique_ptr<pcre2_match_data, Free> match_;
    const PCRE2_SIZE* found_;
  };

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
  std::string place_;
};

}  // namespace tessera
