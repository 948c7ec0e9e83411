#include "kernel/data/text_sample.hpp"

#include <algorithm>

#include "tessera/random.hpp"

namespace tessera {

namespace {

constexpr std::size_t kRunBytes = 4096;

}  // namespace

TextSample::TextSample(i64 most, u64 seed) : most_(most), key_(random_key(seed, "texts")) {}

void TextSample::add(std::string_view document) {
  ++documents_;
  bytes_ += static_cast<i64>(document.size());
  while (!document.empty()) {
    std::size_t end = document.size();
    if (end > kRunBytes) end = std::min(document.find('\n', kRunBytes), end - 1) + 1;
    add_run(document.substr(0, end));
    document.remove_prefix(end);
  }
}

void TextSample::add_run(std::string_view run) {
  const u64 place = seen_++;
  if (static_cast<i64>(run.size()) > most_) return;
  const Philox::Words words =
      Philox::words(key_, {static_cast<u32>(place), static_cast<u32>(place >> 32), 0, 0});
  const u64 number = u64{words[0]} << 32 | words[1];
  if (number >= bar_) return;
  worst_.emplace(number, runs_.size());
  runs_.emplace_back(run);
  kept_ += static_cast<i64>(run.size());
  while (kept_ > most_) {
    const auto [largest, at] = worst_.top();
    worst_.pop();
    bar_ = largest;
    kept_ -= static_cast<i64>(runs_[at].size());
    std::string().swap(runs_[at]);
  }
}

std::vector<std::string> TextSample::take() {
  worst_ = {};
  std::erase_if(runs_, [](const std::string& run) { return run.empty(); });
  return std::exchange(runs_, {});
}

}  // namespace tessera
