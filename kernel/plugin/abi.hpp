#pragma once
#include <string>
#include <string_view>

namespace tessera {

/// The stamp of the headers that this libtessera.so was built with, and all that must be equal in a
/// plugin, as compiled (tessera/base/abi.hpp).
std::string_view host_abi_stamp();
std::string_view host_abi_fields();

/// "sdk headers (91c2 vs 40fe), sanitizer (none vs address)" of two field lists
/// ("sdk headers=91c2;sanitizer=none"), theirs first.
std::string abi_difference(std::string_view theirs, std::string_view ours);

}  // namespace tessera
