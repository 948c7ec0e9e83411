#pragma once
#include <string>

namespace tessera {

/// Throws Error where this was built without the library that knows normal forms.
void require_normal_form();

/// A text that is UTF-8 in the normal form C of Unicode (UAX #15).
std::string normal_form_c(const std::string& text);

}  // namespace tessera
