#include "tessera/io/parse_json.hpp"

#include "tessera/io/written.hpp"

namespace tessera {

std::string json_reason(const std::exception& error) {
  constexpr std::size_t kShown = 400;  // the library's text may quote the file
  const std::string_view why = error.what();
  if (!why.starts_with("[json.")) return std::string(why);  // "[json.exception.type.302] why"
  return written_plain(why.substr(why.find("] ") + 2), kShown);
}

}  // namespace tessera
