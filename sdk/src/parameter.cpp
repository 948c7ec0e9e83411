#include "tessera/parameter.hpp"

#include <algorithm>

namespace tessera {

bool Parameter::has_tag(std::string_view tag) const {
  return std::ranges::find(tags, tag) != tags.end();
}

}  // namespace tessera
