#include "tessera/io/shares.hpp"

#include <charconv>
#include <cmath>

#include "tessera/error.hpp"
#include "tessera/io/written.hpp"

namespace tessera {

Shares::Shares(std::string_view text, std::string_view key, std::size_t most) {
  std::vector<double> shares;
  double sum = 0;
  bool good = true;
  for (std::string_view rest = text; good;) {
    const std::string_view word = rest.substr(0, rest.find(','));
    double share = -1;
    const char* end = word.data() + word.size();
    const auto read = std::from_chars(word.data(), end, share);
    good = read.ec == std::errc() && read.ptr == end && share >= 0 && std::isfinite(share);
    shares.push_back(share);
    sum += share;
    if (word.size() == rest.size()) break;
    rest.remove_prefix(word.size() + 1);
  }
  if (!good || shares.size() > most || !(sum > 0)) {
    fail_config("{} = {}: up to {} shares with commas between were expected, as \"98,2,0\"",
                key,
                quote(text),
                most);
  }
  for (const double share : shares) bounds_.push_back(bounds_.back() + share / sum);
}

std::vector<ItemRange> Shares::of(i64 items) const {
  const auto place = [&](double bound) {
    return static_cast<i64>(std::nearbyint(bound * static_cast<double>(items)));
  };
  std::vector<ItemRange> ranges;
  for (std::size_t i = 0; i < count(); ++i) {
    const bool empty = bounds_[i + 1] <= bounds_[i];
    ranges.push_back(empty ? ItemRange{} : ItemRange{place(bounds_[i]), place(bounds_[i + 1])});
  }
  return ranges;
}

}  // namespace tessera
