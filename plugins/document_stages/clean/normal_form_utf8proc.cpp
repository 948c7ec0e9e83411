#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "normal_form.hpp"
#include "tessera/error.hpp"

namespace tessera {

void require_normal_form() {}

std::string normal_form_c(const std::string& text) {
  utf8proc_uint8_t* made = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()),
                   &made,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(made, &std::free);
  require(bytes >= 0, "no normal form: {}", utf8proc_errmsg(bytes));
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(bytes)};
}

}  // namespace tessera
