#pragma once
#include <string_view>

namespace tessera {

/// Writes all of it, in as many pieces and as slowly as the reader takes it; false when the other
/// end is gone.
bool write_all(int descriptor, std::string_view bytes) noexcept;

}  // namespace tessera
