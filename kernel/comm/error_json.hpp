#pragma once
#include <string>
#include <string_view>

#include "tessera/error.hpp"

namespace tessera {

/// "peer_silent", as in error_json.
std::string_view name(ErrorKind kind);
/// An error on its way between processes and through the store.
std::string error_json(const Error& error);
/// Reads what error_json wrote. Throws Error for any other text.
Error error_of_json(std::string_view json);

}  // namespace tessera
