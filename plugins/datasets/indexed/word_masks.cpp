#include "word_masks.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "numpy_sum.hpp"
#include "philox_words.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

i64 required(std::optional<i32> id, const char* role, std::string& missing) {
  if (!id) missing += (missing.empty() ? "" : ", ") + std::string(role);
  return id.value_or(0);
}

// As numpy.random.choice(p = …) has them, where each step rounds.
std::vector<double> bounds_of(i64 ngrams) {
  std::vector<double> shares;
  for (i64 n = 1; n <= ngrams; ++n) shares.push_back(1.0 / static_cast<double>(n));
  for (int twice = 0; twice < 2; ++twice) {
    const double sum = numpy_sum(shares);
    for (double& share : shares) share /= sum;
  }
  std::partial_sum(shares.begin(), shares.end(), shares.begin());
  const double last = shares.back();
  for (double& share : shares) share /= last;
  return shares;
}

// The words of a sample: places of their tokens.
struct Words {
  std::vector<u32> places, starts;  // a further start is the end of all

  Words(const MaskRules& rules, std::span<const i64> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == rules.cls || tokens[i] == rules.sep) continue;
      const bool begins = !rules.continues[static_cast<std::size_t>(tokens[i])];
      if (begins || starts.empty()) starts.push_back(static_cast<u32>(places.size()));
      places.push_back(static_cast<u32>(i));
    }
    starts.push_back(static_cast<u32>(places.size()));
  }
  std::size_t size() const { return starts.size() - 1; }
  // Tokens of `count` words from one on, or of all that are left.
  std::span<const u32> run(std::size_t word, std::size_t count) const {
    const std::size_t begin = starts[word], end = starts[std::min(word + count, size())];
    return std::span(places).subspan(begin, end - begin);
  }
};

}  // namespace

MaskRules::MaskRules(const Tokenizer& tokenizer, double probability_of, i64 ngrams)
    : probability(probability_of), bounds(bounds_of(ngrams)) {
  const SpecialIds ids = tokenizer.special_ids();
  std::string missing;
  cls = required(ids.cls, "cls", missing);
  sep = required(ids.sep, "sep", missing);
  mask = required(ids.mask, "mask", missing);
  pad = required(ids.pad, "pad", missing);
  if (!missing.empty()) {
    fail_config(
        "data.type = \"bert\": the tokenizer {} has no token of role {}; one with all of cls, sep, "
        "mask and pad was expected, as \"wordpiece\"",
        tokenizer.fingerprint(),
        missing);
  }
  const i64 tokens = tokenizer.vocabulary();
  for (i64 id = 0; id < tokens; ++id) {
    continues.push_back(tokenizer.continues_word(static_cast<i32>(id)));
  }
}

double MaskRules::most(i64 tokens, i64 target) const {
  const double of_all = std::nearbyint(static_cast<double>(tokens) * probability);  // to even
  return std::min(probability * static_cast<double>(target), std::max(1.0, of_all));
}

template <class Draws>
void mask_words(const MaskRules& rules,
                i64 target,
                Draws& draws,
                std::span<i64> tokens,
                std::span<i64> original,
                std::span<u8> masked) {
  std::ranges::fill(original, 0);
  std::ranges::fill(masked, u8{0});
  const Words words(rules, tokens);
  std::vector<u32> order(words.size());
  std::iota(order.begin(), order.end(), 0U);
  draws.shuffle(std::span(order));
  const double most = rules.most(static_cast<i64>(tokens.size()), target);
  const auto fits = [&](std::size_t count) { return most >= static_cast<double>(count); };
  std::size_t done = 0;
  for (const u32 word : order) {
    if (static_cast<double>(done) >= most) break;
    const auto drawn = std::ranges::upper_bound(rules.bounds, draws.uniform());
    auto count = static_cast<std::size_t>(drawn - rules.bounds.begin()) + 1;
    while (count > 0 && !fits(done + words.run(word, count).size())) --count;
    const std::span<const u32> run = words.run(word, count);
    const auto is_masked = [&](u32 place) { return masked[place] != 0; };
    if (count == 0 || std::ranges::any_of(run, is_masked)) continue;
    for (const u32 place : run) {
      original[place] = tokens[place];
      masked[place] = 1;
      if (draws.uniform() < 0.8) {
        tokens[place] = rules.mask;
      } else if (draws.uniform() >= 0.5) {
        tokens[place] = static_cast<i64>(draws.at_most(static_cast<u64>(rules.vocabulary()) - 1));
      }
    }
    done += run.size();
  }
}

template void mask_words(const MaskRules&,
                         i64,
                         NumpyDraws<std::mt19937>&,
                         std::span<i64>,
                         std::span<i64>,
                         std::span<u8>);
template void mask_words(
    const MaskRules&, i64, NumpyDraws<PhiloxWords>&, std::span<i64>, std::span<i64>, std::span<u8>);

}  // namespace tessera
