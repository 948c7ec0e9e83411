#include "blend.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace tessera {
namespace {

// The weights as integers of one proportion, where they are decimals of few digits.
std::optional<std::vector<i64>> exact_parts(const std::vector<double>& weights) {
  constexpr int kDigits = 9;
  double scale = 1;
  for (int digits = 0; digits <= kDigits; ++digits, scale *= 10) {
    std::vector<i64> parts;
    for (const double weight : weights) {
      const double whole = std::nearbyint(weight * scale);
      if (whole < 1 || whole > 1e15 || whole / scale != weight) break;
      parts.push_back(static_cast<i64>(whole));
    }
    if (parts.size() != weights.size()) continue;
    i64 common = 0;
    for (const i64 part : parts) common = std::gcd(common, part);
    for (i64& part : parts) part /= common;
    return parts;
  }
  return {};
}

std::vector<i64> parts_of(const std::vector<double>& weights) {
  const double most = static_cast<double>(Blend::kMostParts);
  if (auto parts = exact_parts(weights)) {
    double sum = 0;
    for (const i64 part : *parts) sum += static_cast<double>(part);
    if (sum <= most) return *std::move(parts);
  }
  double sum = 0;
  for (const double weight : weights) sum += weight;
  std::vector<i64> parts;
  for (const double weight : weights) {
    parts.push_back(std::max<i64>(1, static_cast<i64>(std::nearbyint(weight / sum * most))));
  }
  return parts;
}

}  // namespace

Blend::Blend(const std::vector<double>& weights)
    : parts_(parts_of(weights)), round_(std::accumulate(parts_.begin(), parts_.end(), i64{0})) {
  first_.first = true;
  for (Round* round : {&first_, &later_}) round->kept.emplace_back(parts_.size());
}

// From the counts at the begin of a stretch to those at its end.
void Blend::walk(const Round& round, i64 stretch, Counts& counts, Stretch* out) const {
  const std::size_t sets = parts_.size();
  const i64 begin = stretch * kStretch, end = std::min(begin + kStretch, round_);
  std::vector<i64> behind(sets);  // in parts of a sample
  const auto start = [&](i64 at) {
    const i64 due = round.first ? std::max<i64>(at, 1) : at;
    for (std::size_t j = 0; j < sets; ++j) behind[j] = parts_[j] * due - round_ * counts[j];
  };
  start(begin);
  for (i64 i = begin; i < end; ++i) {
    const auto set = static_cast<std::size_t>(std::ranges::max_element(behind) - behind.begin());
    if (out != nullptr) {
      out->sets.push_back(static_cast<u32>(set));
      out->ordinals.push_back(counts[set]);
    }
    ++counts[set];
    behind[set] -= round_;
    const bool waits = round.first && i == 0;  // due is 1 at 0 and at 1
    for (std::size_t j = 0; j < sets && !waits; ++j) behind[j] += parts_[j];
  }
}

Blend::Place Blend::at(i64 sample) const {
  const i64 rounds = sample / round_, place = sample % round_;
  const i64 number = place / kStretch;
  const std::lock_guard lock(mutex_);
  Round& round = rounds == 0 ? first_ : later_;
  if (last_.of != &round || last_.number != number) {
    while (static_cast<i64>(round.kept.size()) <= number) {
      Counts counts = round.kept.back();
      walk(round, static_cast<i64>(round.kept.size()) - 1, counts, nullptr);
      round.kept.push_back(std::move(counts));
    }
    last_ = {&round, number, {}, {}};
    Counts counts = round.kept[static_cast<std::size_t>(number)];
    walk(round, number, counts, &last_);
  }
  const auto at = static_cast<std::size_t>(place % kStretch);
  const std::size_t set = last_.sets[at];
  return {set, rounds * parts_[set] + i64{last_.ordinals[at]}};
}

}  // namespace tessera
