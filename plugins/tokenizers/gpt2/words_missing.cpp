#include "tessera/error.hpp"
#include "words.hpp"

namespace tessera {

struct Words::State {};

Words::Words() {
  fail_config(
      "tokenizer.type: \"gpt2\" splits text with PCRE2, which this build is without: install "
      "libpcre2-dev (tests/setup.sh names all packages), then configure and build again");
}
Words::~Words() = default;
void Words::for_each(std::string_view, const std::function<void(std::string_view)>&) const {}

}  // namespace tessera
