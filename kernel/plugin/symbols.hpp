#pragma once
#include <span>
#include <string_view>

#include "tessera/types.hpp"

namespace tessera {

/// The function of a library's file that holds `address` (from where the library is loaded), as the
/// file's symbols name it: the linker's name, cut to fit `name`, where it is written. Empty where
/// there is no such symbol. Reads the table that `strip` removes, which has functions that are not
/// exported, else the table of exported ones. For signal handlers: allocates nothing, takes no
/// lock.
std::string_view function_at(const char* file, u64 address, std::span<char> name) noexcept;

}  // namespace tessera
