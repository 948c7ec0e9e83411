#pragma once
#include <string>
#include <string_view>

namespace tessera {

/// Whether clean_text() may change the text: it has bytes beyond ASCII or control characters.
bool may_be_unclean(std::string_view text);

/// The text as UTF-8 in normal form C, with line feeds at the ends of lines, and no other control
/// characters but tabs: bytes that are no UTF-8 become U+FFFD; CR LF, CR, U+0085, U+2028 and U+2029
/// become line feeds; C0, DEL, C1 and U+FEFF go.
std::string clean_text(std::string_view text);

}  // namespace tessera
