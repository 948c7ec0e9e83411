#include "normal_form.hpp"
#include "tessera/error.hpp"

namespace tessera {

void require_normal_form() {
  fail(
      "built without libutf8proc, which knows normal forms: install libutf8proc-dev and build "
      "again");
}

std::string normal_form_c(const std::string&) {
  require_normal_form();
  return {};
}

}  // namespace tessera
